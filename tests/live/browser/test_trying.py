"""Forms and results of the page where entries are tried, in a browser."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Locator, expect

from tests.live.browser.pages import AdminPages

UNSAFE = "9007199254740993"


def field(admin: AdminPages, name: str) -> Locator:
    return admin.page.locator(f"[data-name={name}]")


async def send(admin: AdminPages) -> Locator:
    """Call the entry, and return where its result is shown."""
    await admin.page.get_by_role("button", name="Call").click()
    return admin.page.locator("#mcp-result")


async def test_an_empty_required_nullable_field_is_sent_as_null(admin: AdminPages):
    await admin.open_entry("measure")
    await field(admin, "number").fill("7")

    await expect(await send(admin)).to_contain_text("(None, None, 7, None)")
    await field(admin, "unit").fill("cm")
    await field(admin, "size").fill("0")
    await expect(await send(admin)).to_contain_text("(0, 'cm', 7, None)")
    await admin.check()


@pytest.mark.parametrize(("name", "text"), [("number", UNSAFE), ("marks", f'{{"a": {UNSAFE}}}')])
async def test_a_number_that_would_be_rounded_is_rejected_at_its_field(
    admin: AdminPages, name: str, text: str
):
    await admin.open_entry("measure")
    await field(admin, "number").fill("7")
    place = field(admin, name)
    await place.fill(text)
    complaint = place.locator("xpath=following-sibling::p[contains(@class, 'mcp-error')]")
    for _attempt in range(2):
        await admin.page.get_by_role("button", name="Call").click()
        await expect(complaint).to_have_text(
            f"This number is too large to be sent from here as it is: {UNSAFE}"
        )
        await expect(place).to_be_focused()
    await expect(place).to_have_attribute("aria-invalid", "true")
    await admin.check()
    await place.fill("7" if name == "number" else '{"a": 1}')
    await expect(complaint).to_have_count(0)

    await expect(await send(admin)).to_contain_text("(None, None, 7, ")


async def test_a_default_is_shown_but_not_sent(admin: AdminPages):
    await admin.open_entry("dress")

    await expect(field(admin, "size").locator("option:checked")).to_have_text("– not given: M –")
    await expect(field(admin, "warm").locator("option:checked")).to_have_text("– not given: Yes –")
    await expect(await send(admin)).to_contain_text("('M', True)")
    await admin.page.get_by_text("Messages sent and received").click()
    await expect(admin.page.locator("#mcp-wire pre").first).to_contain_text('"arguments": {}')


async def test_invisible_characters_are_shown_in_choices_and_defaults(admin: AdminPages):
    await admin.open_entry("dress")
    shown = "abc\\u{202e}txt.exe\\u{202c}"

    await expect(field(admin, "mark").locator("option")).to_have_text(
        ["– not given: none –", shown, "none"]
    )
    await expect(field(admin, "text")).to_have_attribute("placeholder", shown)


async def test_a_missing_required_number_is_reported_at_its_field(admin: AdminPages):
    await admin.open_entry("order_socks")
    await send(admin)
    answer = admin.page.get_by_role("button", name="Answer")
    await answer.click()
    await expect(field(admin, "count")).to_be_focused()
    assert await field(admin, "count").evaluate("each => each.validationMessage")
    await expect(admin.page.locator("#mcp-wire li")).to_have_count(2)
    await field(admin, "count").fill("3")
    await answer.click()

    await expect(admin.page.locator("#mcp-result")).to_contain_text("{'count': 3, 'size': 'M'}")


async def test_a_large_number_is_shown_unrounded(admin: AdminPages):
    await admin.open_entry("count_stars")

    await expect((await send(admin)).locator("pre").last).to_have_text(
        re.compile(r'"stars": 12345678901234567890123\s')
    )


async def test_an_image_resource_is_displayed(admin: AdminPages):
    await admin.open_entry("site://logo", "resources")
    result = await send(admin)

    await expect(result.locator("canvas")).to_have_attribute("width", "2")
    assert admin.complaints == []


async def test_an_svg_image_is_not_displayed(admin: AdminPages):
    await admin.open_entry("site://drawing", "resources")
    result = await send(admin)

    await expect(result).to_contain_text("image/svg+xml")
    await expect(result.locator("canvas, img, svg")).to_have_count(0)
    await admin.assert_inert()


async def test_the_messages_of_a_prompt_are_listed_with_their_roles(admin: AdminPages):
    await admin.open_entry("restock_review", "prompts")
    await field(admin, "category").fill("mugs")
    result = await send(admin)

    items = result.locator(".mcp-messages li")
    await expect(items).to_have_count(3)
    await expect(items.locator("h3")).to_have_text(["user", "assistant", "user"])
    await expect(items.nth(1).locator("pre")).to_have_text("Which of these sell fastest?")
    await admin.check()


async def test_an_expired_login_is_reported(admin: AdminPages):
    await admin.open_entry("greet")
    await field(admin, "name").fill("Ann")
    await admin.page.context.clear_cookies(name="sessionid")
    await send(admin)

    await expect(admin.page.locator("#mcp-status")).to_have_text(
        "You may not do this, or you are not signed in any more."
    )


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (403, r"You may not do this, or you are not signed in any more\."),
        (500, r"The call failed after [\d.]+ s\. 500"),
    ],
)
async def test_a_rejection_is_not_reported_as_a_lost_connection(
    admin: AdminPages, status: int, told: str
):
    await admin.open_entry("greet")
    url = await admin.page.locator("#mcp-try").get_attribute("data-url")
    await admin.page.route(f"**{url}", lambda route: route.fulfill(status=status, body="no"))
    await field(admin, "name").fill("Ann")
    await send(admin)

    await expect(admin.page.locator("#mcp-status")).to_have_text(re.compile(told))
