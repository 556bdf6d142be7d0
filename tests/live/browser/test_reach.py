"""Every control of every page can be clicked, and every header read, in each width and language."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.async_api import expect

from tests.live.browser.pages import AdminPages
from tests.support.site.browser.busy import BUSY, CLEAR

ENTRY = "disabledentry/entry/?server=browser-site&kind=tools&key="
PAGES = (
    "session/live/",
    "disabledentry/",
    "disabledentry/?server=large&o=-calls",
    f"{ENTRY}book_trip",
    f"{ENTRY}find_products",
    "callrecord/charts/",
    "callrecord/",
    "errorgroup/",
    "task/",
    "session/",
    "stream/",
    "subscription/",
    "apikey/",
    "apikey/add/",
    "disabledentry/connect/",
)

FAULTS = """() => {
    const CONTROLS = "a[href], button, input:not([type=hidden]), select, textarea, summary, th:not([colspan])";
    const told = (each) => `${each.tagName.toLowerCase()} ${(each.textContent || each.name || "").trim().slice(0, 60)}`;
    const isSeen = (each) => each.checkVisibility({visibilityProperty: true, opacityProperty: true})
        && !each.closest(".mcp-hidden, .visually-hidden, dialog:not([open])")
        && each.getBoundingClientRect().width > 1 && each.getBoundingClientRect().height > 1;
    const found = [];
    for (const each of document.querySelectorAll(`:is(#content, .mcp-tabs) :is(${CONTROLS})`)) {
        if (!isSeen(each) || each.disabled) {
            continue;
        }
        each.scrollIntoView({block: "center", inline: "nearest"});
        const rects = [...each.getClientRects()].filter(({width, height}) => width > 1 && height > 1);
        const {left, right, top, bottom} = rects[0];
        const hits = [.1, .5, .9].map((part) => (
            document.elementFromPoint(left + part * (right - left), (top + bottom) / 2)));
        const isMine = (hit) => hit !== null && (each.contains(hit) || hit.contains(each) && each.tagName !== "BUTTON"
            && getComputedStyle(each).display === "inline" || [...(each.labels ?? [])].some((label) => label.contains(hit)));
        const missed = hits.find((hit) => !isMine(hit));
        if (missed !== undefined) {
            found.push(`covered: ${told(each)} by ${missed && told(missed)}`);
        } else if (each.scrollWidth > each.clientWidth + 1 && ["TH", "BUTTON", "SUMMARY"].includes(each.tagName)
            && getComputedStyle(each).display !== "inline") {
            found.push(`cut off: ${told(each)}`);
        }
    }
    scrollTo(0, 0);
    return found;
}"""

WIDER = """() => [...document.querySelectorAll("#content, #content *")]
    .filter((each) => ["auto", "scroll", "hidden"].includes(getComputedStyle(each).overflowX))
    .filter((each) => each.checkVisibility() && each.clientWidth > 100 && each.scrollWidth > each.clientWidth + 1)
    .filter((each) => each.querySelector("table") || each.tagName === "TABLE")
    .map((each) => `${each.id || each.className} by ${each.scrollWidth - each.clientWidth}`)"""
"""The places of tables that are wider than their place."""


SLIDING = """() => {
    const moved = [], found = [];
    for (const place of document.querySelectorAll(".mcp-wide, #changelist .results")) {
        if (!place.checkVisibility() || place.scrollWidth <= place.clientWidth + 1) {
            continue;
        }
        const isRight = document.dir === "rtl";
        place.scrollLeft = isRight ? -place.scrollWidth : place.scrollWidth;
        for (const row of [...place.querySelectorAll("tr")].slice(0, 4)) {
            const first = [...row.children].find((cell) => !/action-checkbox/.test(cell.className));
            if (first.colSpan > 1) {
                continue;
            }
            first.scrollIntoView({block: "center", inline: "nearest"});
            place.scrollLeft = isRight ? -place.scrollWidth : place.scrollWidth;
            const {left, right, top, bottom} = first.getBoundingClientRect();
            const edge = place.getBoundingClientRect();
            const hit = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
            const isAtEdge = Math.abs(isRight ? right - edge.right : left - edge.left) < 3;
            const isOpaque = !/, 0\\)$|transparent/.test(getComputedStyle(first).backgroundColor);
            if (!first.contains(hit) || !isAtEdge || !isOpaque || right - left > edge.width / 2) {
                moved.push(`${first.textContent.trim().slice(0, 40)} at ${left}`);
            }
        }
        found.push(place);
    }
    return {moved, count: found.length};
}"""
"""Whether the first column stays as a wide table is moved to its end."""


@pytest.fixture(autouse=True)
def _busy(run_in_site: Callable[[str], None]) -> Iterator[None]:
    run_in_site(BUSY)
    yield
    run_in_site(CLEAR)


async def assert_reachable(admin: AdminPages, path: str) -> None:
    await admin.page.goto(f"{admin.root}django_mcp/{path}")
    if path == "session/live/":
        await expect(admin.page.locator("#mcp-sessions tbody tr")).to_have_count(25)
    if path == "callrecord/charts/":
        await expect(admin.page.locator("#mcp-names tbody tr").first).to_be_visible()
    assert await admin.page.evaluate(FAULTS) == [], path
    assert await admin.overhang() <= 0, path


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("width", [390, 1280])
async def test_every_control_can_be_clicked_and_every_header_read(
    admin: AdminPages, width: int, language: str
):
    await admin.page.set_viewport_size({"width": width, "height": 900})
    await admin.page.set_extra_http_headers({"Accept-Language": language})
    for path in PAGES:
        await assert_reachable(admin, path)
        if width >= 1024:
            assert await admin.page.evaluate(WIDER) == [], path


@pytest.mark.parametrize("language", ["en", "ar"])
async def test_the_first_column_of_wide_tables_stays_on_a_phone(admin: AdminPages, language: str):
    await admin.page.set_viewport_size({"width": 390, "height": 900})
    await admin.page.set_extra_http_headers({"Accept-Language": language})
    for path in ("disabledentry/", "callrecord/", "session/", "session/live/"):
        await admin.page.goto(f"{admin.root}django_mcp/{path}")
        if path == "session/live/":
            await expect(admin.page.locator("#mcp-sessions tbody tr")).to_have_count(25)
        found = await admin.page.evaluate(SLIDING)
        assert found["moved"] == [], path
        assert found["count"] > 0, path


async def test_a_disabled_entry_is_readable(admin: AdminPages):
    await admin.open("disabledentry/")
    await expect(admin.page.locator("tr.mcp-off")).to_have_count(2)

    await admin.check()


@pytest.mark.parametrize("width", [1024, 1536])
async def test_no_table_is_wider_than_its_place(admin: AdminPages, width: int):
    await admin.page.set_viewport_size({"width": width, "height": 900})
    await admin.page.set_extra_http_headers({"Accept-Language": "de"})
    for path in PAGES:
        await assert_reachable(admin, path)
        assert await admin.page.evaluate(WIDER) == [], path
