"""The live page and the connect page in a browser."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.async_api import expect

from tests.browser.pages import AdminPages, call
from tests.browser.site.hostile import SCRIPT

OPEN = f"""
import uuid
from datetime import timedelta
from django.utils import timezone
from django_mcp.models import Session, Stream, Worker
now = timezone.now()
for each in (Session, Stream, Worker):
    each.objects.all().delete()
worker = Worker.objects.create(host="web-1", pid=41, lease_until=now + timedelta(hours=1))
gone = Worker.objects.create(host="web-2", pid=42, lease_until=now - timedelta(hours=1))
for name in ("desktop", {SCRIPT!r}):
    session = Session.objects.create(
        digest=uuid.uuid4().hex, server="browser-site", revision="r", client_name=name[:100],
        client_version="1.2", expires_at=now + timedelta(hours=1))
    Stream.objects.create(
        worker=worker, session=session, server="browser-site", kind="get", revision="r",
        client_name=name[:100], client_version="1.2")
"""


@pytest.fixture
async def live(admin: AdminPages, run_in_site: Callable[[str], None]) -> AdminPages:
    """The live page, with two clients connected."""
    run_in_site(OPEN)
    await admin.open("session/live/")
    await expect(admin.page.locator("#mcp-sessions tbody tr")).to_have_count(2)
    return admin


async def test_what_is_connected_appears_and_disappears_by_itself(
    live: AdminPages, run_in_site: Callable[[str], None]
):
    await call(live.site, "greet", {"name": "Ann"})
    page = live.page
    await expect(page.locator("#mcp-streams tbody tr", has_text="desktop")).to_contain_text(
        "web-1:41"
    )
    await expect(page.locator("#mcp-workers tbody tr", has_text="web-2")).to_contain_text("gone")
    await expect(page.locator("#mcp-sessions")).to_contain_text(SCRIPT[:60])
    await expect(page.locator("#mcp-callers tbody tr", has_text="tests 1")).to_have_count(1)
    await live.assert_inert()
    await live.check()
    await live.screenshot("live")

    run_in_site("from django_mcp.models import Session; Session.objects.all().delete()")
    await expect(page.locator("#mcp-sessions tbody tr")).to_have_count(0)
    assert live.complaints == []


async def test_a_session_is_ended_and_the_history_says_so(live: AdminPages):
    row = live.page.locator("#mcp-sessions tbody tr", has_text="desktop")
    await row.get_by_role("button", name="End desktop 1.2", exact=True).click()
    await row.get_by_role("button", name="Really?").click()

    await expect(live.page.locator("#mcp-live-status")).to_have_text("The session is ended.")
    await expect(row).to_have_count(0)
    await live.page.goto(live.root)
    await expect(live.page.locator("#recent-actions-module")).to_contain_text("desktop")


async def test_a_stream_gets_a_message_and_is_closed(live: AdminPages):
    row = live.page.locator("#mcp-streams tbody tr", has_text="desktop")
    await row.get_by_role("button", name="Send a message").click()
    await live.page.get_by_label("The message that the client gets").fill("Back at six")
    await live.page.keyboard.press("Enter")
    await expect(live.page.locator("#mcp-live-status")).to_have_text("The message is sent.")
    await row.get_by_role("button", name="Close").click()
    await row.get_by_role("button", name="Really?").click()

    await expect(live.page.locator("#mcp-live-status")).to_have_text("The stream is closed.")
    await expect(row).to_have_count(0)


async def test_without_a_feed_the_page_asks(admin: AdminPages, run_in_site: Callable[[str], None]):
    await admin.page.route("**/live/feed/", lambda route: route.fulfill(status=204))
    run_in_site(OPEN)
    await admin.open("session/live/")
    await expect(admin.page.locator("#mcp-sessions tbody tr")).to_have_count(2)
    run_in_site("from django_mcp.models import Session; Session.objects.all().delete()")

    await expect(admin.page.locator("#mcp-sessions tbody tr")).to_have_count(0)


async def test_who_may_only_look_gets_no_buttons(
    admin: AdminPages, run_in_site: Callable[[str], None]
):
    run_in_site(
        OPEN
        + "from django.contrib.auth.models import Permission, User\n"
        + "User.objects.get(username='clerk').user_permissions.set("
        + "Permission.objects.filter(codename__in=['view_session', 'view_stream']))"
    )
    await admin.page.context.clear_cookies()
    await admin.sign_in("clerk")
    await admin.open("session/live/")

    await expect(admin.page.locator("#mcp-sessions tbody tr")).to_have_count(2)
    await expect(admin.page.locator("#mcp-live table button")).to_have_count(0)


async def test_the_connect_page_is_ready_to_copy_from(admin: AdminPages):
    await admin.open("disabledentry/connect/")
    await admin.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await admin.page.get_by_text("claude-code").first.click()
    await admin.page.get_by_role("button", name="Copy claude-code").click()
    await expect(admin.page.locator("details[open] [role=status]")).to_have_text("Copied.")

    copied = await admin.page.evaluate("navigator.clipboard.readText()")
    assert f"http://{admin.site.host}:{admin.site.port}/mcp" in copied
    await admin.check()
