"""The live page with the keyboard alone, and what screen readers announce."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.async_api import expect

from tests.live.browser.pages import AdminPages
from tests.live.browser.test_live import OPEN

SEEN = """
from django.utils import timezone
from django_mcp.models import Session
Session.objects.filter(client_name="desktop").update(last_seen_at=timezone.now())
"""


@pytest.fixture
async def live(admin: AdminPages, run_in_site: Callable[[str], None]) -> AdminPages:
    """The live page with two clients connected, and a clock of the page's that can be put on."""
    run_in_site(OPEN)
    await admin.page.clock.install()
    await admin.open("session/live/")
    await expect(admin.page.locator("#mcp-sessions tbody tr")).to_have_count(2)
    return admin


@pytest.mark.parametrize("ending", ["Enter", "Cancel"])
async def test_the_focus_returns_to_the_message_button(live: AdminPages, ending: str):
    row = live.page.locator("#mcp-streams tbody tr", has_text="desktop")
    await row.locator("summary").click()
    opener = row.get_by_role("button", name="Send a message")
    await opener.press("Enter")
    field = live.page.get_by_label("The message that the client gets")
    await expect(field).to_be_focused()
    if ending == "Enter":
        await field.fill("Back at six")
        await field.press("Enter")
        await expect(live.page.locator("#mcp-live-status")).to_have_text("The message is sent.")
    else:
        await live.page.get_by_role("button", name="Cancel").press("Enter")

    await expect(opener).to_be_focused()


async def test_a_confirmation_names_the_client_and_begins_at_cancel(live: AdminPages):
    row = live.page.locator("#mcp-sessions tbody tr", has_text="desktop")
    await row.locator("summary").click()
    button = row.locator("button", has_text="desktop 1.2").first
    await button.press("Enter")
    dialog = live.page.get_by_role("dialog", name="End")
    await expect(dialog).to_contain_text("desktop 1.2")
    cancel = dialog.get_by_role("button", name="Cancel")
    await expect(cancel).to_be_focused()
    await live.check("#mcp-sure")
    await cancel.press("Enter")

    await expect(button).to_be_focused()
    await expect(row).to_have_count(1)


async def test_a_double_click_ends_nothing(live: AdminPages):
    row = live.page.locator("#mcp-sessions tbody tr", has_text="desktop")
    await row.locator("summary").click()
    await row.locator("button", has_text="End desktop 1.2").dblclick()
    danger = live.page.locator("#mcp-sure .mcp-danger")
    await expect(danger).to_be_visible()
    acts: list[str] = []
    live.page.on("request", lambda each: acts.append(each.url) if "/act/" in each.url else None)
    await danger.evaluate("each => each.dispatchEvent(new MouseEvent('click', {detail: 2}))")
    await expect(danger).to_be_visible()
    await live.page.evaluate("fetch(location.href)")
    assert acts == []
    await live.confirm()

    await expect(row).to_have_count(0)


async def test_escape_closes_a_menu_and_returns_the_focus(live: AdminPages):
    row = live.page.locator("#mcp-sessions tbody tr", has_text="desktop")
    menu = row.locator("summary")
    await menu.press("Enter")
    button = row.locator("button", has_text="End desktop 1.2")
    await button.focus()
    await live.page.keyboard.press("Escape")

    await expect(button).to_be_hidden()
    await expect(menu).to_be_focused()


async def test_a_moved_or_removed_row_does_not_lose_the_focus(
    live: AdminPages, run_in_site: Callable[[str], None]
):
    rows = live.page.locator("#mcp-sessions tbody tr")
    button = rows.filter(has_text="desktop").get_by_role("button", name="End", exact=False).first
    await expect(rows.last).to_contain_text("desktop")
    await rows.last.locator("summary").click()
    await button.focus()
    run_in_site(SEEN)
    await expect(rows.first).to_contain_text("desktop")
    await expect(button).to_be_focused()
    run_in_site("from django_mcp.models import Session; Session.objects.all().delete()")
    await expect(rows).to_have_count(0)

    await expect(live.page.locator("#mcp-live-status")).to_be_focused()


MANY = """
import uuid
from datetime import timedelta
from django.utils import timezone
from django_mcp.models import Session
Session.objects.bulk_create(
    Session(digest=uuid.uuid4().hex, server="browser-site", revision="2025-11-25",
            client_name=f"desktop {number}", expires_at=timezone.now() + timedelta(hours=1))
    for number in range(300))
"""
BEFORE_THE_SESSIONS = """() => {
    const row = document.querySelector("#mcp-sessions tbody tr");
    return [...document.querySelectorAll("#content :is(a[href], button, input, select, summary, [tabindex='0'])")]
        .filter(each => each.checkVisibility() && !each.disabled && each.type !== "hidden")
        .filter(each => each.compareDocumentPosition(row) & Node.DOCUMENT_POSITION_FOLLOWING).length;
}"""


async def test_few_tab_stops_precede_the_sessions(
    live: AdminPages, run_in_site: Callable[[str], None]
):
    run_in_site(MANY)
    await expect(live.page.locator("#mcp-sessions tbody tr")).to_have_count(25)

    assert await live.page.evaluate(BEFORE_THE_SESSIONS) < 30
