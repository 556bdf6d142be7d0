"""The forms of entries with more than single fields, the questions of a call, and its messages."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Locator, expect

from django_mcp.protocol.json import decode, encode
from tests.live.browser.pages import AXE, AdminPages
from tests.support.sites import Running


def group(within: Locator, name: str) -> Locator:
    return within.get_by_role("group", name=name, exact=True)


def problem(field: Locator) -> Locator:
    return field.locator("xpath=following-sibling::p[contains(@class, 'mcp-error')]")


async def press_call(admin: AdminPages) -> Locator:
    """Call the entry, and return where its result is shown."""
    await admin.page.get_by_role("button", name="Call", exact=True).click()
    return admin.page.locator("#mcp-result")


async def arguments_sent(admin: AdminPages) -> Any:
    sent = admin.page.locator("#mcp-wire li", has_text="Sent: tools/call").last.locator("pre")
    return decode((await sent.text_content() or "").encode())["params"]["arguments"]


async def test_a_nested_form_with_a_wrong_answer(admin: AdminPages):
    await admin.open_entry("book_trip")
    form = admin.page.locator("#mcp-arguments")
    place, seats = group(form, "place *"), group(form, "seats *")
    await place.get_by_label("city *").fill("Ulm")
    await place.get_by_label("code *").fill("8907")
    first = group(seats, "seats 1")
    await first.get_by_label("row *").fill("99")
    await first.get_by_label("price *").fill("9.50")
    await first.get_by_role("button", name="Add guests").click()
    await first.get_by_role("textbox", name="guests 1").fill("Ann")
    await form.get_by_label("day *").fill("2026-07-28")
    await form.get_by_label("bike").check()
    await group(form, "payment").get_by_role("combobox").select_option("Invoice")
    await form.get_by_label("days *").fill("31")

    await expect(await press_call(admin)).to_contain_text("Invalid arguments")
    await expect(problem(place.get_by_label("code *"))).to_have_text(
        r'must match the pattern "^\\d{5}$", not "8907"'
    )
    await expect(problem(first.get_by_label("row *"))).to_have_text("must be at most 30, not 99")
    await expect(problem(form.get_by_label("days *"))).to_have_text("must be at most 30, not 31")
    await expect(group(form, "payment").locator(":scope > .mcp-error")).to_contain_text("3 allowed")
    await expect(form.locator(".mcp-error")).to_have_count(4)
    await expect(form.locator("[aria-invalid]").first).to_be_focused()
    await expect(first.get_by_role("textbox", name="guests 1")).to_have_value("Ann")
    await admin.check()

    await place.get_by_label("code *").fill("89073")
    await expect(form.locator(".mcp-error")).to_have_count(3)
    await first.get_by_label("row *").fill("9")
    await form.get_by_label("days *").fill("30")
    await expect(await press_call(admin)).to_contain_text("Place(city='Ulm', code='89073')")
    await expect(form.locator(".mcp-error")).to_have_count(0)
    await admin.page.get_by_text("Messages sent and received").click()
    assert await arguments_sent(admin) == {
        "place": {"city": "Ulm", "code": "89073"},
        "seats": [{"row": 9, "price": "9.50", "guests": ["Ann"]}],
        "day": "2026-07-28",
        "extras": ["bike"],
        "payment": {"kind": "invoice", "days": 30},
    }
    await admin.check()


@pytest.mark.parametrize("width", [390, 1280, 1920])
@pytest.mark.parametrize("look", ["light", "dark", "forced"])
async def test_a_nested_form_fits_every_viewport_and_theme(
    admin: AdminPages, width: int, look: str
):
    page = admin.page
    await page.set_viewport_size({"width": width, "height": 900})
    if look == "forced":
        await page.emulate_media(forced_colors="active")
    else:
        await page.emulate_media(color_scheme="dark" if look == "dark" else "light")
    await admin.open_entry("book_trip")
    form = page.locator("#mcp-arguments")
    await form.get_by_role("button", name="Add guests").click()
    await form.get_by_role("button", name="Add home").click()
    for field in await form.locator("input[required]").all():
        await field.fill("2026-07-28" if await field.get_attribute("type") == "date" else "1")
    await page.get_by_text("Messages sent and received").click()

    await expect(await press_call(admin)).to_contain_text("Invalid arguments")
    await expect(page.locator("#mcp-wire li")).to_have_count(2)
    assert await admin.overhang() <= 0
    await admin.check(".mcp-page")


async def test_entries_of_a_list_are_added_and_removed(admin: AdminPages):
    await admin.open_entry("book_trip")
    form = admin.page.locator("#mcp-arguments")
    seats = group(form, "seats *")
    add = seats.get_by_role("button", name="Add seats")
    await seats.get_by_label("row *").fill("1")
    for row in ("2", "99", "4"):
        await add.click()
        await expect(seats.get_by_label("row *").last).to_be_focused()
        await seats.get_by_label("row *").last.fill(row)
    for price in await seats.get_by_label("price *").all():
        await price.fill("5")
    await seats.get_by_role("button", name="Remove seats 2").click()
    await expect(add).to_be_focused()
    await expect(seats.locator("legend", has_text="seats")).to_have_text(
        ["seats *", "seats 1", "seats 2", "seats 3"]
    )
    await group(form, "place *").get_by_label("city *").fill("Ulm")
    await group(form, "place *").get_by_label("code *").fill("89073")
    await form.get_by_label("day *").fill("2026-07-28")

    await press_call(admin)
    wrong = group(seats, "seats 2").get_by_label("row *")
    await expect(problem(wrong)).to_have_text("must be at most 30, not 99")
    await expect(wrong).to_be_focused()
    await wrong.fill("3")
    await add.click()
    await seats.get_by_label("row *").last.fill("4")
    await seats.get_by_label("price *").last.fill("5")
    await press_call(admin)
    await expect(seats.locator(":scope > .mcp-error")).to_have_text(
        "must have at most 3 items, not 4"
    )
    await seats.get_by_role("button", name="Remove seats 4").click()
    await expect(await press_call(admin)).to_contain_text("Seat(row=3")
    await admin.check()


async def test_an_optional_list_can_be_empty(admin: AdminPages):
    await admin.open_entry("label")
    labels = group(admin.page.locator("#mcp-arguments"), "labels")
    leave = labels.get_by_role("button", name="Leave out labels")
    await expect(await press_call(admin)).to_contain_text("['new']")
    await expect(leave).to_be_hidden()
    await labels.get_by_role("button", name="Add labels").click()
    await labels.get_by_role("button", name="Remove labels 1").click()
    await expect(await press_call(admin)).to_contain_text("[]")
    await leave.click()
    await expect(labels.get_by_role("button", name="Add labels")).to_be_focused()

    await expect(await press_call(admin)).to_contain_text("['new']")


async def test_optional_fields_must_be_added_first(admin: AdminPages):
    await admin.open_entry("book_trip")
    home = group(admin.page.locator("#mcp-arguments"), "home")
    await home.get_by_role("button", name="Add home").click()
    await expect(home.get_by_label("city *")).to_be_focused()
    await home.get_by_role("button", name="Remove home").click()

    await expect(home.get_by_role("textbox")).to_have_count(0)
    await expect(home.get_by_role("button", name="Add home")).to_be_focused()


RECORDED = {
    "place": {"city": "Ulm", "code": "89073"},
    "seats": [{"row": 1, "price": 5, "guests": ["Ann", "Bob"]}, {"row": 2, "price": "6.10"}],
    "day": "2026-07-28",
    "extras": ["meal"],
    "payment": {"kind": "card", "number": "4"},
    "home": {"city": "Bonn", "code": "53111"},
}


async def test_a_recorded_call_fills_nested_fields(
    admin: AdminPages, run_in_site: Callable[[str], None]
):
    run_in_site(f"""
from django.utils import timezone
from django_mcp.models import CallRecord
CallRecord.objects.update_or_create(pk=424242, defaults=dict(
    started_at=timezone.now(), minute=1, duration_ms=5, step=36, server="browser-site",
    method="tools/call", name="book_trip", outcome="done", revision="2026-07-28",
    arguments={encode(RECORDED).decode()!r}))
""")
    await admin.open_entry("book_trip", call="424242")

    await expect(await press_call(admin)).to_contain_text("Card(kind='card', number='4')")
    await admin.page.get_by_text("Messages sent and received").click()
    assert await arguments_sent(admin) == RECORDED


async def test_dates_times_and_decimals_have_fields(
    browser: Browser, site: Running, tmp_path: Path
):
    context = await browser.new_context(timezone_id="Europe/Berlin")
    admin = AdminPages(await context.new_page(), site, tmp_path)
    await admin.sign_in("admin")
    await admin.open_entry("meet")
    form = admin.page.locator("#mcp-arguments")
    await form.get_by_label("day *").fill("2026-07-28")
    await form.get_by_label("at *").fill("09:05")
    await form.get_by_label("starts *").fill("2026-07-28T14:30")
    await form.get_by_label("price *").fill("0.123456789012345678901234567890")

    result = await press_call(admin)
    await expect(result).to_contain_text("datetime.date(2026, 7, 28), datetime.time(9, 5)")
    await expect(result).to_contain_text("'2026-07-28T14:30:00+02:00'")
    await expect(result).to_contain_text("Decimal('0.123456789012345678901234567890'), None)")
    zone = form.get_by_label("Time zone").first
    await expect(zone.locator("option")).to_have_text(
        ["Europe/Berlin", "UTC", "without a time zone"]
    )
    await zone.select_option("without a time zone")
    for text, told in (("many", "decimal"), ("NaN", "finite")):
        await form.get_by_label("price *").fill(text)
        await expect(await press_call(admin)).to_contain_text("Invalid arguments")
        await expect(problem(form.get_by_label("price *"))).to_contain_text(told)
    await form.get_by_label("price *").fill("7")
    await expect(await press_call(admin)).to_contain_text(
        "'2026-07-28T14:30:00+00:00', Decimal('7')"
    )
    await admin.check()
    await context.close()


async def test_an_incomplete_date_is_rejected_at_its_field(admin: AdminPages):
    await admin.open_entry("meet")
    day = admin.page.locator("[data-name=day]")
    await day.press_sequentially("12")
    await press_call(admin)

    await expect(day).to_be_focused()
    await expect(problem(day)).to_have_count(1)
    await expect(admin.page.locator("#mcp-wire li")).to_have_count(0)


async def test_a_template_has_a_field_with_completions_per_variable(admin: AdminPages):
    await admin.open_entry("room://{building}/{room}{?floor}", "templates", revision="2025-11-25")
    page = admin.page
    await page.get_by_label("building *").fill("north")
    await expect(page.locator("datalist").first.locator("option")).to_have_count(2)
    await page.get_by_label("building *").fill("north/east")
    await page.get_by_label("room *").focus()
    proposed = page.locator("datalist").nth(1).locator("option")
    await expect(proposed).to_have_count(2)
    assert await proposed.first.get_attribute("value") == "north/east 1"
    await page.get_by_label("room *").fill("Blå 1")
    await expect(page.locator("#mcp-uri")).to_have_text("room://north%2Feast/Bl%C3%A5%201")
    await page.get_by_label("floor").fill("2")
    await expect(page.locator("#mcp-uri")).to_have_text("room://north%2Feast/Bl%C3%A5%201?floor=2")
    await page.get_by_label("building *").fill("north wing")

    await expect(await press_call(admin)).to_contain_text("north wing, Blå 1, 2")
    await admin.check()


async def test_an_empty_template_variable_is_rejected_at_its_field(admin: AdminPages):
    await admin.open_entry("room://{building}/{room}{?floor}", "templates")
    await press_call(admin)

    await expect(admin.page.get_by_label("building *")).to_be_focused()
    await expect(admin.page.locator("#mcp-wire li")).to_have_count(0)


async def test_prompt_arguments_have_completions(admin: AdminPages):
    await admin.open_entry("toast", "prompts")
    await admin.page.get_by_label("drink").fill("w")
    await expect(admin.page.locator("datalist option")).to_have_count(2)
    await admin.page.get_by_label("drink").fill("wine")
    await admin.page.get_by_label("name *").fill("Ann")

    await expect(await press_call(admin)).to_contain_text("To Ann, with wine!")


REVISIONS_THAT_ASK = ["2025-11-25", "2026-07-28"]


@pytest.mark.parametrize("revision", REVISIONS_THAT_ASK)
async def test_an_invalid_answer_keeps_the_input(admin: AdminPages, revision: str):
    await admin.open_entry("pick_number", revision=revision)
    await press_call(admin)
    questions = admin.page.locator("#mcp-questions")
    await questions.get_by_label("number *").fill("11")
    await questions.get_by_label("why *").fill("Because")
    await questions.get_by_label("by").fill("2026-07-28")
    await questions.get_by_role("button", name="Answer").click()

    number = questions.get_by_label("number *")
    await expect(problem(number)).to_have_text("must be at most 10, not 11")
    await expect(number).to_be_focused()
    await expect(number).to_have_value("11")
    await expect(questions.get_by_label("why *")).to_have_value("Because")
    await admin.check()
    await number.fill("4")
    await questions.get_by_role("button", name="Answer").click()
    await expect(admin.page.locator("#mcp-result")).to_contain_text(
        "{'number': 4, 'why': 'Because', 'by': '2026-07-28'}"
    )
    await expect(admin.page.locator("#mcp-status")).to_have_text(
        re.compile(r"Done in [\d.]+ s\. You took [\d.]+ s to answer\.")
    )


@pytest.mark.parametrize("revision", REVISIONS_THAT_ASK)
async def test_a_page_to_visit_is_a_link_with_its_host(admin: AdminPages, revision: str):
    await admin.open_entry("visit", revision=revision)
    await press_call(admin)
    link = admin.page.get_by_role("link", name="Open the page on example.com", exact=True)

    await expect(link).to_be_focused()
    await expect(link).to_have_attribute("href", re.compile(r"^https://example\.com/\?x{1500}$"))
    await expect(link).to_have_attribute("rel", "noopener noreferrer")
    await expect(admin.page.locator("#mcp-questions")).to_contain_text("https://example.com/?xxx")
    assert await admin.overhang() <= 0
    await admin.check()
    await admin.page.get_by_role("button", name="I have done it").click()
    await expect(admin.page.locator("#mcp-result")).to_contain_text("accept")


WAIT_FOR_CANCELLATION = """
from django_mcp.models import CallRecord
while not CallRecord.objects.filter(name="wait", outcome="cancelled").exists():
    pass
"""


async def test_the_stop_button_reports_what_happened(
    admin: AdminPages, run_in_site: Callable[[str], None]
):
    await admin.open_entry("wait")
    status = admin.page.locator("#mcp-status")
    await press_call(admin)
    await expect(status).to_contain_text("3 / 10")
    await admin.page.get_by_role("button", name="Stop").click()

    await expect(status).to_have_text(
        re.compile(
            r"^Stopped after [\d.]+ s\. The connection was closed, .* Last progress: 3 / 10\.$"
        )
    )
    await expect(admin.page.locator("#mcp-wire li").last).to_contain_text(
        "the connection was closed"
    )
    await expect(admin.page.get_by_role("button", name="Call", exact=True)).to_be_enabled()
    await expect(admin.page.get_by_role("button", name="Stop")).to_be_hidden()
    run_in_site(WAIT_FOR_CANCELLATION)


async def test_only_one_call_is_open_at_a_time(admin: AdminPages):
    await admin.open_entry("order_shirt")
    page = admin.page
    await page.get_by_label("color *").select_option("green")
    await press_call(admin)
    size = page.get_by_label("Size *")
    await size.select_option("M")
    await expect(page.get_by_role("button", name="Call", exact=True)).to_be_disabled()
    await page.locator("#mcp-try").evaluate("form => form.requestSubmit()")
    await expect(size.locator("option:checked")).to_have_text("M")
    await expect(page.locator("#mcp-wire li", has_text="Sent: tools/call")).to_have_count(1)
    await page.get_by_role("button", name="Stop").click()
    await expect(page.locator("#mcp-status")).to_contain_text("The question was not answered")

    await press_call(admin)
    await size.select_option("L")
    await page.get_by_role("button", name="Answer").click()
    await expect(page.locator("#mcp-result")).to_contain_text("A green shirt in L")


async def test_the_messages_are_timed_and_copied(admin: AdminPages):
    await admin.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await admin.open_entry("climb")
    await admin.page.get_by_label("steps *").fill("2")
    await expect(await press_call(admin)).to_contain_text('"steps": 2')
    await admin.page.get_by_text("Messages sent and received").click()
    items = admin.page.locator("#mcp-wire li")

    await expect(items.locator("h3")).to_have_text(
        [
            "Sent: tools/call",
            "Received before the answer: notifications/progress",
            "Received before the answer: notifications/progress",
            "Answer",
        ]
    )
    for clock in await items.locator("time").all():
        assert re.search(r"\d\d:\d\d:\d\d \(\+\d+\.\d{3} s\)", await clock.text_content() or "")
    await items.last.get_by_role("button", name="Copy: Answer").click()
    await expect(admin.page.locator("#mcp-wire-status")).to_have_text("Copied: Answer")
    copied = await admin.page.evaluate("navigator.clipboard.readText()")
    assert copied == await items.last.locator("pre").text_content()
    assert decode(copied.encode())["result"]["structuredContent"] == {"steps": 2}


async def test_headings_are_in_order_and_texts_have_their_own_direction(admin: AdminPages):
    await admin.open_entry("toast", "prompts")
    name = admin.page.get_by_label("name *")
    await name.fill("שלום")
    shown = (await press_call(admin)).locator("pre", has_text="שלום")
    await expect(shown).to_have_attribute("dir", "auto")
    assert await name.evaluate("each => getComputedStyle(each).direction") == "rtl"
    await admin.page.get_by_text("Messages sent and received").click()

    await admin.page.evaluate(AXE.read_text())
    rules = "axe.run('.mcp-page', {runOnly: ['heading-order', 'empty-heading']})"
    assert await admin.page.evaluate(f"{rules}.then(found => found.violations)") == []
