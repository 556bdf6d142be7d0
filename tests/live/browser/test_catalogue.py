"""The catalogue in a browser: seeing, trying, disabling."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.async_api import expect

from django_mcp.protocol.json import decode
from django_mcp.protocol.revisions import REVISIONS
from tests.live.browser.pages import AdminPages, call, until
from tests.support.site.browser.hostile import SCRIPT


async def test_the_catalogue_shows_all_entries(admin: AdminPages):
    await admin.open("disabledentry/")

    await expect(admin.page.locator("#mcp-tools tr[data-key=greet]")).to_contain_text("enabled")
    await expect(admin.page.locator("#mcp-prompts")).to_contain_text("apology")
    await admin.check()
    await admin.screenshot("catalogue", height=1500)


async def choose(admin: AdminPages, label: str, typed: str, choice: str) -> None:
    """Choose in a select with a search by the keyboard."""
    box = admin.page.get_by_role("combobox", name=label)
    await box.focus()
    await admin.page.keyboard.press("Enter")
    await admin.page.locator(".select2-search__field").type(typed)
    await expect(admin.page.locator(".select2-results__option--highlighted")).to_have_text(choice)
    await admin.check()
    await admin.page.keyboard.press("Enter")
    await expect(box).to_contain_text(choice)


async def test_many_tools_are_found_sorted_and_paged(admin: AdminPages):
    page = admin.page
    await admin.open("disabledentry/", server="large")
    rows = page.locator("#mcp-tools tr[data-key]")
    await expect(rows).to_have_count(50)
    await expect(page.locator("#mcp-tools caption")).to_have_text("Tools (300)")
    assert await page.evaluate("document.documentElement.scrollHeight") < 6000
    await admin.check()

    await choose(admin, "Toolset", "set-17", "set-17")
    await page.get_by_role("button", name="Show").click()
    await expect(rows).to_have_count(12)
    assert "toolset=set-17" in page.url
    await page.get_by_role("link", name="Clear all filters").click()
    await expect(rows).to_have_count(50)

    await page.locator("#mcp-tools").get_by_role("link", name="Name").click()
    await expect(page.locator("#mcp-tools th[aria-sort=ascending]")).to_have_text("Name")
    pages = page.get_by_role("navigation", name="Pages")
    await pages.get_by_role("link", name="2", exact=True).click()
    await expect(rows.first).to_contain_text("tool_050")
    await page.get_by_role("link", name="By app and toolset").click()
    await expect(page.locator("#mcp-tools [scope=rowgroup]").first).to_contain_text("set-0 (12)")
    await admin.check()


async def test_the_calls_of_one_of_many_tools_are_found(admin: AdminPages):
    await call(admin.site, "greet", {"name": "Ann"})
    await until(lambda: lists_call(admin, "greet"))
    filters = admin.page.locator("#changelist-filter")
    height = await filters.evaluate("each => each.scrollHeight")
    assert height < 2000
    await choose(admin, "Name", "find_prod", "find_products")
    await filters.locator("details", has_text="By name").get_by_role("button").click()

    assert "name=find_products" in admin.page.url
    await expect(admin.page.get_by_role("combobox", name="Name")).to_contain_text("find_products")
    await admin.check()


async def lists_call(admin: AdminPages, name: str) -> bool:
    await admin.open("callrecord/")
    return await admin.page.locator("#result_list td", has_text=name).count() > 0


async def test_long_filters_work_without_scripts(admin: AdminPages):
    state = await admin.page.context.storage_state()
    browser = admin.page.context.browser
    assert browser is not None
    context = await browser.new_context(storage_state=state, java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{admin.root}django_mcp/disabledentry/?server=large")
    await page.get_by_label("Toolset").select_option("set-3")
    await page.get_by_role("button", name="Show").click()
    await expect(page.locator("#mcp-tools tr[data-key]")).to_have_count(12)
    await page.goto(f"{admin.root}django_mcp/callrecord/")
    await page.locator("select[name=name]").select_option("find_products")
    await page.locator("form:has(select[name=name]) button").click()
    assert "name=find_products" in page.url
    await context.close()


async def test_a_tool_can_be_tried(admin: AdminPages):
    await admin.open_entry("greet")
    page = admin.page
    await page.get_by_label("Name *").fill("Ann")
    await page.get_by_label("Times").fill("2")
    await page.get_by_label("Loud").select_option("Yes")
    await page.get_by_role("button", name="Call").click()

    await expect(page.locator("#mcp-result")).to_contain_text("HELLO, ANN! HELLO, ANN!")
    await page.get_by_text("Messages sent and received").click()
    sent, received = await page.locator("#mcp-wire pre").all_text_contents()
    request = decode(sent)
    assert request["method"] == "tools/call"
    assert request["params"]["arguments"] == {"name": "Ann", "times": 2, "loud": True}
    assert '"text": "HELLO, ANN! HELLO, ANN!"' in received
    await admin.check()


async def test_invalid_arguments_are_reported(admin: AdminPages):
    await admin.open_entry("greet")
    await admin.page.get_by_label("Times").fill("9")
    await admin.page.get_by_role("button", name="Call").click()

    await expect(admin.page.locator("#mcp-result")).to_contain_text("Invalid arguments")
    await expect(admin.page.locator("#mcp-status")).to_contain_text("failed")


async def test_a_question_of_a_tool_is_answered(admin: AdminPages):
    await admin.open_entry("order_shirt")
    page = admin.page
    await page.get_by_label("Color").select_option("green")
    await page.get_by_role("button", name="Call").click()
    await expect(page.locator("#mcp-questions")).to_contain_text("Which size?")
    await admin.screenshot("try")
    await admin.check()
    await page.get_by_label("Size").select_option("M")
    await page.get_by_role("button", name="Answer").click()

    await expect(page.locator("#mcp-result")).to_contain_text("A green shirt in M")


WAIT_UNTIL_GONE = """
from django_mcp.models import Session
while Session.objects.filter(client_name="django-admin").exists():
    pass
"""
ASKING = [each.name for each in REVISIONS if "form" in each.asks]


@pytest.mark.parametrize("revision", ASKING)
async def test_a_question_of_a_tool_is_answered_at_each_revision(
    admin: AdminPages, run_in_site: Callable[[str], None], revision: str
):
    await admin.open_entry("order_shirt", revision=revision)
    page = admin.page
    await expect(page.locator("body")).not_to_contain_text("cannot be answered here")
    await page.get_by_label("Color").select_option("green")
    for size in ("M", "L"):
        # Answers may reach either of the two workers.
        await page.get_by_role("button", name="Call").click()
        await page.get_by_label("Size").select_option(size)
        await page.get_by_role("button", name="Answer").click()
        await expect(page.locator("#mcp-result")).to_contain_text(f"A green shirt in {size}")
    await expect(page.locator("#mcp-questions form")).to_have_count(0)
    await page.get_by_text("Messages sent and received").click()
    await expect(page.locator("#mcp-wire")).to_contain_text('"size": "L"')
    await admin.check()
    run_in_site(WAIT_UNTIL_GONE)


async def test_leaving_a_question_ends_its_session(
    admin: AdminPages, run_in_site: Callable[[str], None]
):
    await admin.open_entry("order_shirt", revision="2025-11-25")
    page = admin.page
    await page.get_by_label("Color").select_option("green")
    await page.get_by_role("button", name="Call").click()
    await expect(page.locator("#mcp-questions")).to_contain_text("Which size?")
    await expect(page.get_by_role("button", name="Call")).to_be_disabled()
    await page.get_by_role("button", name="Stop").click()
    await expect(page.locator("#mcp-status")).to_contain_text("so the server cancels the call")

    await expect(page.locator("#mcp-questions form")).to_have_count(0)
    run_in_site(WAIT_UNTIL_GONE)


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
async def test_a_question_is_declined(admin: AdminPages, revision: str):
    await admin.open_entry("order_shirt", revision=revision)
    await admin.page.get_by_label("Color").select_option("red")
    await admin.page.get_by_role("button", name="Call").click()
    await admin.page.get_by_role("button", name="Decline").click()

    await expect(admin.page.locator("#mcp-result")).to_contain_text("No shirt")


async def test_progress_is_shown(admin: AdminPages):
    await admin.open_entry("climb")
    await admin.page.get_by_label("Steps").fill("3")
    await admin.page.get_by_role("button", name="Call").click()

    await expect(admin.page.locator("#mcp-result")).to_contain_text('"steps": 3')
    await admin.page.get_by_text("Messages sent and received").click()
    await expect(admin.page.locator("#mcp-wire li")).to_have_count(5)


async def test_images_are_displayed_and_invalid_ones_reported(admin: AdminPages):
    await admin.open_entry("picture")
    await admin.page.get_by_role("button", name="Call").click()

    canvas = admin.page.locator("#mcp-result canvas")
    await expect(canvas).to_have_count(1)
    assert await canvas.get_attribute("width") == "2"
    await expect(admin.page.locator("#mcp-result")).to_contain_text("image/png")
    await admin.assert_inert()


async def test_a_resource_is_read(admin: AdminPages):
    await admin.open_entry("shop://terms", "resources")
    await admin.page.get_by_role("button", name="Call").click()

    await expect(admin.page.locator("#mcp-result")).to_contain_text("Returns within 30 days")


async def test_hostile_texts_stay_texts(admin: AdminPages):
    await admin.open("disabledentry/")
    await admin.assert_inert()
    await expect(admin.page.locator("#mcp-tools tr[data-key=hostile]")).to_contain_text(SCRIPT)
    await admin.open_entry("hostile")
    await admin.page.get_by_label(SCRIPT).fill(SCRIPT)
    await admin.page.get_by_role("button", name="Call").click()
    result = admin.page.locator("#mcp-result pre").first
    await expect(result).to_contain_text(SCRIPT)
    await expect(result).to_contain_text("\\u{202e}")
    assert len(await result.text_content() or "") < 30_000
    await admin.assert_inert()
    assert admin.complaints == []


async def test_a_disabled_tool_disappears_on_all_workers(admin: AdminPages):
    row = admin.page.locator("#mcp-tools tr[data-key=find_products]")
    await admin.open("disabledentry/")
    await row.get_by_role("button", name="Disable").click()
    await admin.confirm()
    await expect(row).to_contain_text("disabled")
    try:
        # Two workers answer in turn; a dozen refusals in a row are both of them.
        await until(lambda: refuses(admin, "find_products"))
        unknown = await call(admin.site, "find_productz")
        answer = await call(admin.site, "find_products")
        assert answer["error"]["code"] == unknown["error"]["code"]
        assert answer["error"]["message"].startswith("Unknown tool: find_products")
    finally:
        await row.get_by_role("button", name="Enable").click()
    await expect(row).to_contain_text("enabled")
    await until(lambda: answers(admin, "find_products"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_pages_are_accessible_in_light_and_dark(admin: AdminPages, scheme: str):
    await admin.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    for path in ("disabledentry/", "disabledentry/connect/", "callrecord/charts/", "session/live/"):
        await admin.open(path)
        await admin.check()


async def test_the_pages_support_right_to_left_text(admin: AdminPages):
    await admin.page.set_extra_http_headers({"Accept-Language": "ar"})
    await admin.open("disabledentry/")

    assert await admin.page.locator("html").get_attribute("dir") == "rtl"
    width = await admin.page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert width <= 0
    await admin.check()


LAST_IS_RIGHT = """each => {
    const text = each.firstChild;
    const [first, last] = [0, text.data.trimEnd().length - 1].map((at) => {
        const range = document.createRange();
        range.setStart(text, at);
        range.setEnd(text, at + 1);
        return range.getBoundingClientRect();
    });
    return last.left > first.left;
}"""


async def test_english_sentences_end_with_their_full_stop_on_a_page_from_right_to_left(
    admin: AdminPages,
):
    await admin.page.set_extra_http_headers({"Accept-Language": "ar"})
    await admin.open("errorgroup/")
    sentence = admin.page.locator("p.help")
    await expect(sentence).to_contain_text("internal error.")

    assert await sentence.evaluate(LAST_IS_RIGHT)


PAGES = (
    "session/live/",
    "disabledentry/",
    "disabledentry/entry/?server=browser-site&kind=tools&key=order_shirt",
    "disabledentry/connect/",
    "callrecord/charts/",
    "callrecord/",
    "task/",
    "apikey/",
)


async def test_the_pages_fit_a_narrow_viewport(admin: AdminPages):
    await call(admin.site, "greet", {"name": "Ann"})
    await admin.page.set_viewport_size({"width": 400, "height": 800})
    for path in PAGES:
        await admin.page.goto(f"{admin.root}django_mcp/{path}")
        if path == "session/live/":
            await expect(admin.page.locator("#mcp-callers tbody tr")).not_to_have_count(
                0, timeout=15_000
            )
        assert await admin.overhang() <= 0, path
    assert admin.complaints == []


async def test_a_tool_can_be_tried_with_the_keyboard_alone(admin: AdminPages):
    await admin.open_entry("greet")
    await admin.page.locator("[data-name=name]").focus()
    await admin.page.keyboard.type("Bob")
    await admin.page.keyboard.press("Enter")

    await expect(admin.page.locator("#mcp-result")).to_contain_text("Hello, Bob!")


async def refuses(admin: AdminPages, name: str) -> bool:
    return all(["error" in await call(admin.site, name) for _ in range(12)])


async def answers(admin: AdminPages, name: str) -> bool:
    return all(["result" in await call(admin.site, name) for _ in range(12)])
