"""The charts and the list of calls in a browser."""

from __future__ import annotations

import re

from playwright.async_api import expect

from tests.browser.pages import AdminPages, call, until
from tests.browser.site.hostile import SCRIPT


async def test_the_charts_show_the_calls_made(admin: AdminPages):
    for name in ("Ann", "Bob", "Cid"):
        await call(admin.site, "greet", {"name": name})
    await call(admin.site, "greet", {"name": 1})
    # Written within a second or so; the page loads again by itself.
    await admin.open("callrecord/charts/")
    row = admin.page.locator("#mcp-names tbody tr", has_text="greet")
    await expect(row.locator("td").nth(3)).to_have_text(
        re.compile("^([4-9]|[1-9][0-9]+)$"), timeout=40_000
    )
    await expect(row.locator("td").nth(4)).not_to_have_text("0")
    await expect(admin.page.locator("#mcp-counts canvas")).to_have_count(1)
    await admin.check()
    await admin.screenshot("charts")
    await admin.page.get_by_label("Over the last").select_option("week")
    await expect(admin.page.locator("#mcp-names tbody tr", has_text="greet")).to_have_count(1)
    assert admin.complaints == []


async def test_the_list_of_calls_shows_hostile_names_as_text(admin: AdminPages):
    await call(admin.site, SCRIPT + "\u202e")
    rows = admin.page.locator("#result_list")
    await until(lambda: lists(admin, SCRIPT))
    await expect(rows).to_contain_text("\ufffd")
    await admin.assert_inert()
    await admin.check()
    await admin.screenshot("calls")
    await admin.page.locator("#result_list tbody tr a").first.click()
    await admin.check()


async def lists(admin: AdminPages, text: str) -> bool:
    await admin.open("callrecord/")
    return text in (await admin.page.locator("#content").text_content() or "")
