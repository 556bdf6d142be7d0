"""The pages under django-unfold, whose style sheet has none of Django's classes and colours."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.live.browser.conftest import run_django, serving
from tests.live.browser.pages import AdminPages, call
from tests.live.browser.test_errors import FAIL
from tests.live.browser.test_live import OPEN
from tests.support.sites import Running

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("unfold") is None, reason="django-unfold is missing"
)

PARTS = (".mcp-page", ".mcp-tabs")
PAGES = (
    "disabledentry/",
    "disabledentry/entry/?server=browser-site&kind=tools&key=greet",
    "disabledentry/connect/",
    "callrecord/charts/",
    "session/live/",
)
# Those of the operators, with the part of each that is the package's own.
OPERATORS = (
    ("", "#mcp-overview"),
    ("callrecord/slow/", ".mcp-page"),
    ("errorgroup/", "#result_list"),
    (f"errorgroup/{'5' * 32}/change/", ".mcp-page"),
)
# Controls that something else lies on, when they are in the middle of the window.
COVERED = """parts => [...document.querySelectorAll(parts)]
    .flatMap(part => [...part.querySelectorAll("a, button, input, select, summary")])
    .filter(each => each.checkVisibility({visibilityProperty: true}) && each.getClientRects().length)
    .filter(each => {
        each.scrollIntoView({block: "center", inline: "center", behavior: "instant"});
        const box = each.getClientRects()[0];
        const top = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
        return !each.contains(top);
    })
    .map(each => each.outerHTML.slice(0, 200))"""
# The level of each heading of a page of the package that skips one, such as an h4 behind an h2.
SKIPPING = """() => [...document.querySelectorAll("#main :is(h1, h2, h3, h4, h5, h6)")]
    .map(each => [Number(each.tagName[1]), each.textContent.trim(), each.closest(".mcp-page")])
    .filter(([level, _text, page], at, all) => page && at && level > all[at - 1][0] + 1)"""
# The minimum contrast of text in WCAG; for parts of controls it is 3.
READABLE = 4.5
# The strongest contrast of a pixel of the lowest 40, where the labels are, with what is behind.
LABELS = """canvas => {
    const bright = ([red, green, blue]) => [red, green, blue]
        .map(each => each / 255)
        .map(each => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
        .reduce((sum, each, at) => sum + each * [0.2126, 0.7152, 0.0722][at], 0);
    const paint = document.createElement("canvas").getContext("2d");
    paint.fillStyle = getComputedStyle(document.getElementById("main")).backgroundColor;
    paint.fillRect(0, 0, 1, 1);
    const behind = bright(paint.getImageData(0, 0, 1, 1).data);
    const {width, height} = canvas;
    const {data} = canvas.getContext("2d").getImageData(0, height - 40, width, 40);
    let found = 1;
    for (let at = 0; at < data.length; at += 4) {
        if (data[at + 3] > 250) {
            const label = bright(data.subarray(at, at + 3));
            found = Math.max(found, (Math.max(label, behind) + 0.05) / (Math.min(label, behind) + 0.05));
        }
    }
    return found;
}"""


@pytest.fixture(scope="module")
def unfold_site(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    settings = "tests.support.site.browser.unfold_settings"
    folder = tmp_path_factory.mktemp("unfold")
    with serving(folder, workers=1, DJANGO_SETTINGS_MODULE=settings) as found:
        run_django(
            {"SHOP_DATABASE": str(folder / "db.sqlite3")}, "shell", "-v", "0", "-c", OPEN + FAIL
        )
        yield found


@pytest.fixture
async def unfold(page: Page, unfold_site: Running, tmp_path: Path) -> AdminPages:
    pages = AdminPages(page, unfold_site, tmp_path)
    await pages.sign_in("admin")
    return pages


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_pages_are_accessible_under_unfold(unfold: AdminPages, scheme: Any):
    await unfold.page.emulate_media(color_scheme=scheme)
    for path in PAGES:
        await unfold.page.goto(f"{unfold.root}django_mcp/{path}")
        await expect(unfold.page.locator(".mcp-tabs")).to_be_visible()
        await unfold.check(*PARTS)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("path", "part"), OPERATORS)
async def test_the_pages_of_operators_are_readable_and_usable_under_unfold(
    unfold: AdminPages, path: str, part: str, scheme: Any
):
    await unfold.page.emulate_media(color_scheme=scheme)
    await unfold.open(path)
    await expect(unfold.page.locator(part).first).to_be_visible()

    await unfold.check(part, ".mcp-tabs")
    assert await unfold.page.evaluate(COVERED, f"{part}, .mcp-tabs") == []
    assert await unfold.page.evaluate(SKIPPING) == []


async def test_filters_with_a_search_work_under_unfold(unfold: AdminPages):
    await unfold.open("disabledentry/", server="large")
    box = unfold.page.get_by_role("combobox", name="Toolset")
    await box.focus()
    await unfold.page.keyboard.press("Enter")
    await unfold.page.locator(".select2-search__field").type("set-17")
    await unfold.page.keyboard.press("Enter")
    await unfold.page.get_by_role("button", name="Show").click()

    await expect(unfold.page.locator("#mcp-tools tr[data-key]")).to_have_count(12)
    await unfold.check(*PARTS)
    await unfold.open("callrecord/")
    await expect(unfold.page.locator("select[name=name] + .select2")).to_have_count(1)


async def test_screen_reader_texts_are_invisible_under_unfold(unfold: AdminPages):
    await unfold.open("session/live/")
    menu = unfold.page.locator("summary", has_text="Actions desktop 1.2").first
    await expect(menu).to_be_visible()

    hidden = await menu.locator("span").bounding_box()
    assert hidden is not None
    assert (hidden["width"], hidden["height"]) == (1, 1)


async def test_controls_are_distinguishable_from_text_under_unfold(unfold: AdminPages):
    await unfold.open_entry("greet")
    for control in (
        unfold.page.get_by_role("button", name="Call"),
        unfold.page.get_by_label("Name *"),
        unfold.page.get_by_label("Loud"),
    ):
        await expect(control).not_to_have_css("border-top-width", "0px")
    title = unfold.page.get_by_role("heading", name="Try it")
    await expect(title).to_have_css("font-weight", "700")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_labels_of_charts_are_readable_under_unfold(unfold: AdminPages, scheme: Any):
    await call(unfold.site, "greet", {"name": "Ann"})
    await unfold.page.emulate_media(color_scheme=scheme)
    await unfold.open("callrecord/charts/")
    canvas = unfold.page.locator("#mcp-counts canvas")
    await expect(canvas).to_have_count(1)

    assert await canvas.evaluate(LABELS) >= READABLE
