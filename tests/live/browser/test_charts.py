"""The charts and the list of calls in a browser."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from playwright.async_api import expect

from tests.live.browser.pages import AdminPages, call, until
from tests.support.site.browser.hostile import SCRIPT


async def test_the_charts_show_recorded_calls(admin: AdminPages):
    for name in ("Ann", "Bob", "Cid"):
        await call(admin.site, "greet", {"name": name})
    await call(admin.site, "greet", {"name": 1})
    # Written within a second or so; the page loads again by itself.
    await admin.open("callrecord/charts/")
    row = admin.page.locator("#mcp-names tbody tr", has_text="greet")
    await expect(row.locator("td").nth(3)).to_have_text(
        re.compile("^([4-9]|[1-9][0-9]+)$"), timeout=40_000
    )
    # Calls of other tests may have been enough for the number before.
    await expect(row.locator("td").nth(4)).not_to_have_text("0", timeout=40_000)
    await expect(admin.page.locator("#mcp-counts canvas")).to_have_count(1)
    await admin.check()
    await admin.screenshot("charts")
    await admin.page.get_by_label("Over the last").select_option("week")
    await expect(admin.page.locator("#mcp-names tbody tr", has_text="greet")).to_have_count(1)
    assert admin.complaints == []


NUMBERS = {"calls": 1234, "errors": 0, "p50": 1234.5, "p95": 2000.25, "p99": None}
# Each text that is drawn on a canvas, noted before it is.
NOTE_TEXTS = """
window.drawn = [];
const fill = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...where) {
    window.drawn.push(text);
    return fill.call(this, text, ...where);
};
"""


@pytest.mark.parametrize(
    ("language", "hour", "day", "thousand", "moment", "median"),
    [
        ("de", "14:00", "1.3.", "1.000", "01.03.2026, 14:30", "1.200"),
        ("en", "2:00 PM", "3/1", "1,000", "Mar 1, 2026, 2:30 PM", "1,200"),
    ],
)
async def test_times_and_numbers_are_localized(
    admin: AdminPages,
    language: str,
    hour: str,
    day: str,
    thousand: str,
    moment: str,
    median: str,
):
    page = admin.page
    # In the time zone of the site, not of the browser.
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()
    times = [noon + 60 * minute for minute in range(0, 181, 30)]
    values = {key: [value] * len(times) for key, value in NUMBERS.items()}
    name = {"name": "greet", "method": "tool", "server": "browser-site", **NUMBERS}
    data = {"times": times, "minutes": 30, **values, "names": [name]}
    await page.route("**/charts/data/*", lambda route: route.fulfill(json=data))
    await page.set_extra_http_headers({"Accept-Language": language})
    await page.add_init_script(NOTE_TEXTS)
    await admin.open("callrecord/charts/")
    await expect(page.locator("#mcp-names tbody")).to_contain_text(median)
    over = page.locator("#mcp-counts .u-over")
    box = await over.bounding_box()
    assert box is not None
    # The sixth of the seven points; half past two.
    await over.hover(position={"x": box["width"] * 5 / 6, "y": 10})

    legend = page.locator("#mcp-counts .u-legend .u-value")
    await expect(legend.first).to_have_text(re.compile(moment.replace(" ", r"\s")))
    drawn = {re.sub(r"\s", " ", text) for text in await page.evaluate("window.drawn")}
    assert {hour, day, thousand} <= drawn
    assert admin.complaints == []


@pytest.mark.parametrize("width", [360, 1000])
async def test_long_names_fit_the_viewport(admin: AdminPages, width: int):
    long = "n" * 200
    values = {key: [value] for key, value in NUMBERS.items()}
    name = {"name": long, "method": "tool", "server": "browser-site", **NUMBERS}
    data = {"times": [1_800_000_000], **values, "names": [name]}
    await admin.page.set_viewport_size({"width": width, "height": 800})
    await admin.page.route("**/charts/data/*", lambda route: route.fulfill(json=data))
    await admin.open("callrecord/charts/")
    await expect(admin.page.locator("#mcp-names tbody")).to_contain_text(long)

    assert await admin.overhang() <= 0
    await admin.check(".mcp-page")


async def test_a_data_point_links_to_its_calls_and_filters_stay_in_the_url(admin: AdminPages):
    page = admin.page
    await call(admin.site, "greet", {"name": "Ann"})
    await admin.open("callrecord/charts/", span="day", name="greet")
    await expect(page.get_by_label("Over the last")).to_have_value("day")
    await page.get_by_text("The charts as a table").click()
    point = page.locator("#mcp-points tbody tr", has_text="so far")
    await expect(point).to_have_count(1, timeout=60_000)
    await expect(page.locator("#mcp-charts-width")).to_contain_text("15 minutes wide")
    await page.get_by_label("Over the last").select_option("hour")
    await page.wait_for_url("**/charts/?span=hour&name=greet")
    await admin.check(".mcp-page")
    await page.locator("#mcp-points tbody a").first.click()
    await expect(page.locator("#result_list tbody tr").first).to_contain_text("greet")
    assert admin.complaints == []


async def test_the_legend_keeps_its_colours_in_forced_colours_mode(admin: AdminPages):
    await call(admin.site, "greet", {"name": "Ann"})
    await admin.page.emulate_media(forced_colors="active")
    await admin.open("callrecord/charts/")
    markers = admin.page.locator("#mcp-counts .u-series:not(:first-child) .u-marker")
    await expect(markers).to_have_count(2)

    colour = "each => getComputedStyle(each).borderTopColor"
    assert len({await each.evaluate(colour) for each in await markers.all()}) == 2


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
