"""What an operator who knows Django's admin finds from its start, by what is seen there, and ends without a surprise."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.async_api import Locator, expect

from tests.live.browser.pages import AdminPages, call, until
from tests.support.site.browser.busy import CLEAR

ISSUE = (
    CLEAR
    + """
from pathlib import Path
from django.contrib.auth import get_user_model
admin = get_user_model().objects.get(username="admin")
_key, text = APIKey.objects.issue(user=admin, name="of the night job")
Path({path!r}).write_text(text)
"""
)

SLOW = (
    CLEAR
    + """
from datetime import timedelta
from django.utils import timezone
now = timezone.now()
def make(count, client, minutes, **values):
    at = now - timedelta(minutes=minutes)
    CallRecord.objects.bulk_create(
        CallRecord(
            started_at=at, minute=int(at.timestamp()) // 60, step=36, server="browser-site", method="tools/call",
            revision="2025-11-25", client_name=client, client_version="1", **values)
        for _ in range(count))
quick = dict(name="greet", outcome="done", duration_ms=20, queue_ms=1, handler_ms=15, database_ms=3, queries=2)
slow = dict(name="label", outcome="done", duration_ms=9000, queue_ms=200, handler_ms=8800, database_ms=8100, queries=240)
wrong = dict(name="book_trip", outcome="refused", duration_ms=2, faulty="place.code")
make(40, "desktop", 65, **quick)
make(12, "report-bot", 61, **slow)
make(5, "desktop", 20, **quick)
make(6, "desktop", 20, **wrong)
make(2, "desktop", 20, **(wrong | dict(faulty="", outcome="done", coerced="day")))
"""
)

SESSION = (
    CLEAR
    + """
import uuid
from datetime import timedelta
from django.utils import timezone
for client in ("kettle", "desktop"):
    Session.objects.create(
        digest=uuid.uuid4().hex, server="browser-site", revision="2025-11-25", client_name=client,
        client_version="3", expires_at=timezone.now() + timedelta(hours=1))
"""
)


async def enter(admin: AdminPages, tab: str) -> None:
    """Open a tab from the start of Django's admin."""
    await admin.page.goto(admin.root)
    await admin.page.get_by_role("link", name="Model Context Protocol").first.click()
    await admin.page.locator(".mcp-tabs").get_by_role("link", name=tab, exact=True).click()


async def assert_asks(admin: AdminPages, *named: str) -> None:
    """The page that asks is one of its own, names the objects, does not read itself again, and has a way back."""
    page = admin.page
    await expect(page.locator(".mcp-danger:visible")).to_have_count(1)
    for name in named:
        await expect(page.locator(".mcp-page")).to_contain_text(name)
    await expect(page.locator("[data-refresh]")).to_have_count(0)
    await expect(
        page.get_by_role("link", name=re.compile("^(Back|No, take me back)$"))
    ).to_be_visible()
    assert await admin.overhang() <= 0
    await admin.check(".mcp-page")


def table(admin: AdminPages, caption: str) -> Locator:
    return admin.page.get_by_role("region", name=caption).locator("table")


async def cell(rows: Locator, name: str, column: str) -> str:
    """Return the text of a column, found by its heading, in the row of a name."""
    headings = [text.strip() for text in await rows.locator("thead th").all_text_contents()]
    row = rows.locator("tbody tr").filter(has=rows.page.get_by_text(name, exact=True))
    return (await row.locator("th, td").nth(headings.index(column)).text_content() or "").strip()


async def test_who_started_what_runs_is_told_and_the_call_is_cancelled(
    admin: AdminPages, run_in_site: Callable[[str], None], tmp_path: Path
):
    page, key = admin.page, tmp_path / "key"
    run_in_site(ISSUE.format(path=str(key)))
    waiting = asyncio.create_task(call(admin.site, "listen", key=key.read_text()))
    try:
        await enter(admin, "Running")
        row = page.locator("#mcp-running tbody tr", has=page.get_by_role("link", name="listen"))
        await expect(row).to_have_count(1, timeout=20_000)
        running = page.locator("#mcp-running table").first
        assert await cell(running, "listen", "User") == "admin"
        assert await cell(running, "listen", "Client") == "tests 1"
        assert await cell(running, "listen", "State") == "running"
        await admin.screenshot("running")

        await row.get_by_role("button", name="Cancel listen").click()
        await assert_asks(admin, "listen", "tests 1", "admin")
        assert not waiting.done()
        answer = await admin.confirm_cancel(waiting)
    finally:
        waiting.cancel()
    assert answer["error"]["message"] == "Cancelled"


async def test_the_client_that_slowed_the_site_and_why_is_found(
    admin: AdminPages, run_in_site: Callable[[str], None]
):
    run_in_site(SLOW)
    page = admin.page
    await enter(admin, "Why slow")
    clients, names = table(admin, "By client"), table(admin, "By name")
    await expect(clients.locator("tbody th").first).to_have_text("report-bot")
    assert await cell(clients, "report-bot", "Share of time") == "99.2 %"
    assert await cell(clients, "report-bot", "95 % (ms)") == "9,000"

    await expect(names.locator("tbody th").first).to_have_text("label")
    assert await cell(names, "label", "waiting for a thread") == "2.2 %"
    assert await cell(names, "label", "in the database") == "90 %"
    assert await cell(names, "label", "Queries per call") == "240"
    assert await cell(names, "greet", "Queries per call") == "2"
    slowest = table(admin, "The slowest of these calls")
    await expect(slowest.locator("tbody tr").first).to_contain_text("report-bot")
    await admin.check(".mcp-page", ".mcp-tabs")
    await admin.screenshot("slow", height=905)

    await clients.locator("tbody tr").first.get_by_role("link", name="12").click()
    await expect(page.locator("#result_list tbody tr")).to_have_count(12)
    await page.locator("#result_list tbody th a").first.click()
    for shown in ("8,100.0 ms", "240", "report-bot"):
        await expect(page.locator("#content-main")).to_contain_text(shown)


async def test_the_argument_that_models_get_wrong_is_found(
    admin: AdminPages, run_in_site: Callable[[str], None]
):
    run_in_site(SLOW)
    await enter(admin, "Mistakes")
    arguments = table(admin, "Arguments")
    await expect(arguments.locator("tbody th").first).to_have_text("book_trip")
    assert await cell(arguments, "book_trip", "Refused arguments") == "place.code 75 %"
    assert await cell(arguments, "book_trip", "Corrected arguments") == "day 25 %"
    await arguments.get_by_role("link", name="book_trip").click()
    await expect(admin.page.get_by_role("heading", name="Book trip").first).to_be_visible()


async def test_a_session_is_ended_after_a_page_that_names_it(
    admin: AdminPages, run_in_site: Callable[[str], None]
):
    run_in_site(SESSION)
    page, rows = admin.page, admin.page.locator("#result_list tbody tr")
    await enter(admin, "Sessions")
    await rows.filter(has_text="kettle").get_by_role("link").first.click()
    await page.get_by_role("button", name="End", exact=True).click()
    await assert_asks(admin, "kettle", "1 row is selected. This cannot be undone.")
    await page.get_by_role("button", name="End the selected sessions").click()
    await expect(page.locator(".messagelist")).to_contain_text("1 session was ended.")
    await enter(admin, "Sessions")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("desktop")


async def test_a_tool_is_disabled_after_a_page_that_names_it(
    admin: AdminPages, run_in_site: Callable[[str], None]
):
    run_in_site(CLEAR)
    row = admin.page.locator("#mcp-tools tr[data-key=label]")
    await enter(admin, "Catalogue")
    await row.get_by_role("button", name="Disable").click()
    await assert_asks(admin, "label")
    await admin.page.get_by_role("button", name="Disable", exact=True).click()
    try:
        await expect(row).to_contain_text("disabled")
    finally:
        await row.get_by_role("button", name="Enable").click()
    await expect(row).to_contain_text("enabled")


async def test_a_key_is_revoked_after_a_page_that_names_it(
    admin: AdminPages, run_in_site: Callable[[str], None], tmp_path: Path
):
    page, key = admin.page, tmp_path / "key"
    run_in_site(ISSUE.format(path=str(key)))
    assert not await is_refused(admin, key.read_text())
    await enter(admin, "API keys")
    await page.locator("#result_list").get_by_role("link", name="of the night job").click()
    await page.get_by_role("button", name="Revoke", exact=True).click()
    await assert_asks(admin, "of the night job")
    await page.locator(".mcp-danger:visible").click()
    await expect(page.locator(".messagelist")).to_contain_text("revoked")
    await enter(admin, "API keys")
    await expect(page.locator("#result_list tbody tr")).to_contain_text("revoked")

    await until(lambda: is_refused(admin, key.read_text()))


async def is_refused(admin: AdminPages, key: str) -> bool:
    return "result" not in await call(admin.site, "whisper", {"text": "Ann"}, key=key)


STUCK = """each => {
    const wide = each.closest(".mcp-wide, .results");
    wide.scrollLeft = wide.scrollWidth;
    const [cell, region] = [each.getBoundingClientRect(), wide.getBoundingClientRect()];
    const over = document.elementFromPoint(cell.left + 2, cell.top + cell.height / 2);
    const colour = getComputedStyle(each).backgroundColor;
    return wide.scrollLeft > 0 && Math.abs(cell.left - region.left) <= 1 && each.contains(over)
        && !/rgba\\(.*, 0\\)|transparent/.test(colour);
}"""


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("callrecord/slow/", "#mcp-slow-names ~ tbody th"),
        ("callrecord/mistakes/", "#mcp-wrong ~ tbody th"),
        ("callrecord/", "#result_list tbody th"),
    ],
)
async def test_the_names_of_rows_stay_while_a_table_is_scrolled_on_a_phone(
    admin: AdminPages, run_in_site: Callable[[str], None], path: str, name: str
):
    run_in_site(SLOW)
    await admin.page.set_viewport_size({"width": 390, "height": 800})
    await admin.open(path)
    first = admin.page.locator(name).first
    await first.scroll_into_view_if_needed()

    assert await first.evaluate(STUCK)
