"""The start page and the page of what runs in a browser."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import pytest
from playwright.async_api import expect

from tests.live.browser.pages import AdminPages, call, until
from tests.support.site.browser.busy import CLEAR

HOUR = """
from datetime import timedelta
from django.utils import timezone
from django_mcp.models import CallRecord
now = timezone.now()
CallRecord.objects.bulk_create(
    CallRecord(
        started_at=at, minute=int(at.timestamp()) // 60, duration_ms=20 + number, step=36, server="browser-site",
        method="tools/call", name="greet", outcome="failed" if minute % 9 == number else "done",
        revision="2025-11-25", client_name="desktop", client_version="1")
    for minute in range(1, 61)
    for at in [now - timedelta(minutes=minute)]
    for number in range(4 + minute * 7 % 5 + minute // 10))
"""


async def test_the_start_page_shows_calls_and_leads_to_their_pages(
    admin: AdminPages, run_in_site: Callable[[str], None]
):
    page = admin.page
    run_in_site(CLEAR)
    for name in ("Ann", "Bob"):
        await call(admin.site, "greet", {"name": name})
    await page.get_by_role("link", name="Model Context Protocol").first.click()
    figure = page.locator(".mcp-figures > div", has_text="Calls in the last hour")
    # It reads itself again, once the calls are written.
    await expect(figure.locator("dd")).to_have_text(re.compile("[2-9]|[1-9][0-9]"), timeout=40_000)
    run_in_site(HOUR)
    await expect(figure.locator("dd")).to_have_text(re.compile("^[1-9][0-9]{2}"), timeout=40_000)
    await expect(page.locator(".mcp-minutes polyline")).to_have_count(2)
    # Django makes its start page narrow.
    box = await page.locator("#mcp-overview").bounding_box()
    assert box is not None
    assert box["width"] > 1000
    await expect(page.locator(".mcp-tabs [aria-current]")).to_have_text("Overview")
    await admin.check()
    await admin.screenshot("overview")

    await figure.get_by_role("link").click()
    await expect(page.locator("#mcp-charts")).to_be_visible()
    assert admin.complaints == []


@pytest.mark.parametrize("width", [360, 1000])
async def test_the_start_page_fits_the_viewport(admin: AdminPages, width: int):
    await admin.page.set_viewport_size({"width": width, "height": 800})
    await admin.open("")
    await expect(admin.page.locator(".mcp-figures > div").first).to_be_visible()

    assert await admin.overhang() <= 0


async def test_a_running_call_appears_and_is_cancelled(admin: AdminPages):
    page = admin.page
    await admin.open("callrecord/running/")
    row = page.locator("#mcp-running tbody tr", has=page.get_by_role("link", name="wait"))
    await expect(row).to_have_count(0)
    waiting = asyncio.create_task(call(admin.site, "wait"))
    try:
        # The page reads itself again.
        await expect(row).to_have_count(1, timeout=20_000)
        await expect(row).to_contain_text("tests 1")
        await expect(row).to_contain_text("running")
        await admin.check()
        await row.get_by_role("button", name="Cancel wait").click()
        await expect(page.locator("#content")).to_contain_text("of tests 1")
        await admin.check()
        assert not waiting.done()
        answer = await admin.confirm_cancel(waiting)
    finally:
        waiting.cancel()

    assert answer["error"]["message"] == "Cancelled"
    await expect(row).to_have_count(0)
    assert admin.complaints == []


async def test_a_focused_page_is_not_replaced_and_can_be_paused(admin: AdminPages):
    page = admin.page
    await page.clock.install()
    await admin.open("callrecord/running/")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    pause = page.get_by_role("button", name="Pause")
    region = page.locator("#mcp-running [tabindex]").first
    await region.focus()
    await page.clock.fast_forward(7_000)
    assert asked == []
    await pause.click()
    await expect(pause).to_have_attribute("aria-pressed", "true")
    await page.clock.fast_forward(7_000)
    assert asked == []

    async with page.expect_response("**/running/"):
        await pause.click()


@pytest.mark.parametrize("path", ["slow", "mistakes"])
async def test_the_reports_of_calls_are_accessible_and_fit(admin: AdminPages, path: str):
    for arguments in ({"name": "Ann"}, {"name": 7}, {"name": "Ann", "times": "2"}):
        await call(admin.site, "greet", arguments)
    await call(admin.site, "gret")
    await until(lambda: is_listed(admin, path))
    await admin.check()
    await admin.page.set_viewport_size({"width": 360, "height": 800})

    assert await admin.overhang() <= 0


async def is_listed(admin: AdminPages, path: str) -> bool:
    await admin.open(f"callrecord/{path}/", span="hour")
    return await admin.page.locator("tbody th", has_text="greet").count() > 0
