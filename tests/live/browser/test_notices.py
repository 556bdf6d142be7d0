"""A connected client while a tool is disabled in the admin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
from playwright.async_api import expect

from django_mcp.protocol.json import decode
from tests.live.browser.pages import AdminPages
from tests.support.wire import V2026_07_28, headers_for, message


async def test_a_disabled_tool_disappears_for_a_connected_client(admin: AdminPages):
    row = admin.page.locator("#mcp-tools tr[data-key=climb]")
    await admin.open("disabledentry/")
    request = message(
        "subscriptions/listen", {"notifications": {"toolsListChanged": True}}, revision=V2026_07_28
    )
    async with (
        asyncio.timeout(30),
        httpx.AsyncClient(timeout=30) as client,
        client.stream(
            "POST", admin.site.url, json=request, headers=headers_for(request, V2026_07_28)
        ) as answer,
    ):
        heard = messages(answer)
        assert (await anext(heard))["method"] == "notifications/subscriptions/acknowledged"
        await row.get_by_role("button", name="Disable").click()
        await admin.confirm()
        await expect(row).to_contain_text("disabled")
        try:
            assert (await anext(heard))["method"] == "notifications/tools/list_changed"
        finally:
            await row.get_by_role("button", name="Enable").click()
            await expect(row).to_contain_text("enabled")


async def messages(answer: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    async for line in answer.aiter_lines():
        if line.startswith("data:") and line[5:].strip():
            yield decode(line[5:].strip())
