"""The live page shows and ends a client's session on any worker."""

from __future__ import annotations

import asyncio

import httpx
from playwright.async_api import expect

from tests.live.browser.pages import AdminPages
from tests.support.wire import V2025_11_25, headers_for, message

HELLO = {
    "protocolVersion": V2025_11_25.name,
    "capabilities": {},
    "clientInfo": {"name": "kettle", "version": "3"},
}


async def test_a_client_appears_and_ending_its_session_disconnects_it(admin: AdminPages):
    page = admin.page
    await admin.open("session/live/")
    row = page.locator("#mcp-sessions tbody tr", has_text="kettle 3")
    await expect(row).to_have_count(0)
    request = message("initialize", HELLO, revision=V2025_11_25)
    # A connection for each request, so that either worker may get it.
    async with httpx.AsyncClient(timeout=30) as client:
        answer = await client.post(
            admin.site.url, json=request, headers=headers_for(request, V2025_11_25)
        )
        headers = {
            **headers_for(message("ping", revision=V2025_11_25), V2025_11_25),
            "mcp-session-id": answer.headers["mcp-session-id"],
        }
        async with (
            asyncio.timeout(40),
            client.stream("GET", admin.site.url, headers=headers) as stream,
        ):
            assert stream.status_code == 200
            await expect(row).to_have_count(1, timeout=15_000)
            await expect(page.locator("#mcp-streams tbody tr", has_text="kettle 3")).to_have_count(
                1, timeout=15_000
            )
            assert admin.complaints == []

            await row.locator("summary").click()
            await row.get_by_role("button", name="End kettle 3", exact=True).click()
            await admin.confirm()
            await expect(row).to_have_count(0)
            async for _chunk in stream.aiter_bytes():
                pass
        ping = message("ping", revision=V2025_11_25)
        gone = await client.post(admin.site.url, json=ping, headers=headers)
        assert gone.status_code == 404
    await expect(page.locator("#mcp-streams tbody tr", has_text="kettle 3")).to_have_count(0)
