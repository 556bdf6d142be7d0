"""The live page and the connect page in a browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.async_api import Route, expect

from django_mcp.protocol.json import encode
from tests.live.browser.pages import AdminPages, call
from tests.support.site.browser.hostile import SCRIPT

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
        digest=uuid.uuid4().hex, server="browser-site", revision="2025-11-25", client_name=name[:100],
        client_version="1.2", expires_at=now + timedelta(hours=1))
    worker.in_flight = {{"total": 1, "sessions": {{session.pk.hex: 1}}, "callers": []}}
    worker.save()
    Stream.objects.create(
        worker=worker, session=session, server="browser-site", kind="get", revision="2025-11-25",
        client_name=name[:100], client_version="1.2")
"""

FRIENDLY = f"""
from django_mcp.models import Session, Stream
for each in (Session, Stream):
    each.objects.filter(client_name={SCRIPT!r}[:100]).update(client_name="editor")
"""


@pytest.fixture
async def live(admin: AdminPages, run_in_site: Callable[[str], None]) -> AdminPages:
    """The live page, with two clients connected."""
    run_in_site(OPEN)
    await admin.open("session/live/")
    await expect(admin.page.locator("#mcp-sessions tbody tr")).to_have_count(2)
    return admin


async def test_connections_appear_and_disappear_automatically(
    live: AdminPages, run_in_site: Callable[[str], None]
):
    await call(live.site, "greet", {"name": "Ann"})
    page = live.page
    await expect(page.locator("#mcp-streams tbody tr", has_text="desktop")).to_contain_text(
        "web-1:41"
    )
    await expect(page.locator("#mcp-workers tbody tr", has_text="web-2")).to_contain_text("gone")
    heads = await page.locator("#mcp-sessions thead th").all_text_contents()
    await expect(
        page.locator("#mcp-sessions tbody tr")
        .first.locator("td")
        .nth(heads.index("Requests in flight"))
    ).to_have_text("1")
    await expect(page.locator("#mcp-sessions")).to_contain_text(SCRIPT[:60])
    await expect(page.locator("#mcp-callers tbody tr", has_text="tests 1")).to_have_count(1)
    await live.assert_inert()
    await live.check()
    run_in_site(FRIENDLY)
    await expect(page.locator("#mcp-streams tbody tr", has_text="editor")).to_have_count(1)
    await live.screenshot("live")

    run_in_site("from django_mcp.models import Session; Session.objects.all().delete()")
    await expect(page.locator("#mcp-sessions tbody tr")).to_have_count(0)
    assert live.complaints == []


async def test_ending_a_session_is_recorded_in_the_history(live: AdminPages):
    row = live.page.locator("#mcp-sessions tbody tr", has_text="desktop")
    await row.locator("summary").click()
    await row.get_by_role("button", name="End desktop 1.2", exact=True).click()
    await live.confirm()

    await expect(live.page.locator("#mcp-live-status")).to_have_text("The session is ended.")
    await expect(row).to_have_count(0)
    await live.page.goto(live.root)
    await expect(live.page.locator("#recent-actions-module")).to_contain_text("desktop")


async def test_a_stream_gets_a_message_and_is_closed(live: AdminPages):
    row = live.page.locator("#mcp-streams tbody tr", has_text="desktop")
    await row.locator("summary").click()
    await row.get_by_role("button", name="Send a message").click()
    await live.page.get_by_label("The message that the client gets").fill("Back at six")
    await live.page.keyboard.press("Enter")
    await expect(live.page.locator("#mcp-live-status")).to_have_text("The message is sent.")
    await row.get_by_role("button", name="Close desktop 1.2", exact=True).click()
    await live.confirm()

    await expect(live.page.locator("#mcp-live-status")).to_have_text("The stream is closed.")
    await expect(row).to_have_count(0)


async def test_without_a_feed_the_page_polls(admin: AdminPages, run_in_site: Callable[[str], None]):
    await admin.page.route("**/live/feed/", lambda route: route.fulfill(status=204))
    run_in_site(OPEN)
    await admin.open("session/live/")
    await expect(admin.page.locator("#mcp-sessions tbody tr")).to_have_count(2)
    run_in_site("from django_mcp.models import Session; Session.objects.all().delete()")

    await expect(admin.page.locator("#mcp-sessions tbody tr")).to_have_count(0)


LOST = "The connection was lost; trying again."
BROKEN: dict[str, Callable[[Route], Any]] = {
    "refused": lambda route: route.abort(),
    "held back": lambda route: None,
    "cut off": lambda route: route.fulfill(content_type="text/event-stream", body=""),
}


@pytest.mark.parametrize("feed", BROKEN)
async def test_a_blocked_feed_falls_back_to_polling(
    admin: AdminPages, run_in_site: Callable[[str], None], feed: str
):
    rows = admin.page.locator("#mcp-sessions tbody tr")
    await admin.page.route("**/live/feed/", BROKEN[feed])
    run_in_site(OPEN)
    await admin.page.clock.install()
    await admin.open("session/live/")
    await admin.page.clock.fast_forward(8_000)
    await expect(rows).to_have_count(2)
    run_in_site("from django_mcp.models import Session; Session.objects.all().delete()")

    await expect(rows).to_have_count(0)
    await expect(admin.page.locator("#mcp-live-connection")).to_have_text("")


async def test_polling_stops_once_the_feed_delivers(admin: AdminPages):
    page = admin.page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.rpartition("/live/")[2]))
    feed = encode({**DATA, "callers": [{**CALLER, "id": "1", "calls": 1, "seen": SEEN}]}).decode()
    await page.route("**/live/data/", lambda route: route.fulfill(json={**DATA, "callers": []}))
    await page.route("**/live/feed/", BROKEN["held back"])
    await page.clock.install()
    # Until this tab has the lock, the page asks for another reason, and does not wait for its own feed yet.
    async with page.expect_request("**/live/feed/"):
        await admin.open("session/live/")
    async with page.expect_request("**/live/data/"):
        await page.clock.fast_forward(8_000)
    await page.route(
        "**/live/feed/",
        lambda route: route.fulfill(content_type="text/event-stream", body=f"data: {feed}\n\n"),
    )
    await page.clock.fast_forward(30_000)
    await expect(page.locator("#mcp-callers tbody tr")).to_have_count(1)
    before = asked.count("data/")
    await page.clock.fast_forward(4_000)
    # A poll of the page would have been answered before this.
    await page.evaluate("fetch(location.href)")

    assert asked.count("data/") == before


async def test_the_page_reports_failed_polls_until_one_succeeds(admin: AdminPages):
    status = admin.page.locator("#mcp-live-connection")
    await admin.page.route("**/live/feed/", lambda route: route.abort())
    await admin.page.route("**/live/data/", lambda route: route.abort())
    await admin.open("session/live/")
    await expect(status).to_have_text(LOST)
    await admin.page.unroute("**/live/data/")

    await expect(status).to_have_text("")
    await expect(status).not_to_have_class("errornote")


CALLING = f"""
from django_mcp.models import Session, Stream
Stream.objects.filter(client_name="desktop").update(kind="call")
Stream.objects.filter(client_name={SCRIPT!r}[:100]).update(session=None, client_name="editor")
"""


async def test_unavailable_actions_are_not_offered(
    admin: AdminPages, run_in_site: Callable[[str], None]
):
    run_in_site(OPEN + CALLING)
    await admin.open("session/live/")
    for client, offered in (
        ("desktop", ["Ping", "Send a message"]),
        ("editor", ["Close"]),
    ):
        row = admin.page.locator("#mcp-streams tbody tr", has_text=client)
        await expect(row.locator("button")).to_have_text(
            [f"{name} {client} 1.2" for name in offered]
        )


SEEN = 1_800_000_000
CALLER = {"client": "editor 1", "user": "-", "server": "browser-site", "revision": "2026-07-28"}
DATA: dict[str, Any] = {
    "at": SEEN,
    "counts": {"streams": 0, "sessions": 4321, "workers": 0, "subscriptions": 12},
    "streams": [],
    "sessions": [],
    "workers": [],
    "callers": [
        {**CALLER, "id": str(at), "calls": 1, "seen": SEEN, "running": 0} for at in range(200)
    ],
}


async def open_with(admin: AdminPages, **data: Any) -> None:
    """Open the live page with this as the site's data."""

    async def answer(route: Route) -> None:
        await route.fulfill(json={**DATA, **data})

    await admin.page.route("**/live/feed/", lambda route: route.fulfill(status=204))
    await admin.page.route("**/live/data/", answer)
    await admin.open("session/live/")
    await expect(admin.page.locator("#mcp-live")).to_have_attribute("data-at", str(SEEN))


STREAM = {**CALLER, "id": "1", "session": "1", "since": SEEN}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"json": {"done": "It answered."}}, "It answered."),
        ({"status": 403, "json": {"error": "Not you."}}, "Not you."),
        ({"status": 502, "body": "no"}, "That was refused."),
    ],
)
async def test_action_messages_stay_while_the_connection_changes(
    admin: AdminPages, answer: dict[str, Any], told: str
):
    await open_with(admin, streams=[STREAM])
    connection = admin.page.locator("#mcp-live-connection")
    await admin.page.route("**/live/act/", lambda route: route.fulfill(**answer))
    await admin.page.route("**/live/data/", lambda route: route.abort())
    await admin.page.locator("#mcp-streams summary").click()
    await admin.page.get_by_role("button", name="Ping").click()
    await expect(connection).to_have_text(LOST)
    await expect(admin.page.locator("#mcp-live-status")).to_have_text(told)
    await admin.page.unroute("**/live/data/")
    await expect(connection).to_have_text("")

    await expect(admin.page.locator("#mcp-live-status")).to_have_text(told)


async def test_hidden_rows_are_counted(admin: AdminPages):
    await open_with(admin)
    counts = admin.page.locator(".mcp-count")

    await expect(admin.page.locator("#mcp-callers").locator(counts)).to_have_text("(200)")
    await expect(admin.page.locator("#mcp-sessions").locator(counts)).to_have_text("(4,321)")
    await expect(admin.page.locator("#mcp-subscriptions")).to_have_text("Subscriptions (12)")
    await expect(admin.page.locator("#mcp-subscriptions")).to_be_visible()


@pytest.mark.parametrize("width", [360, 1000])
async def test_long_names_fit_the_viewport(admin: AdminPages, width: int):
    caller = {**CALLER, "id": "1", "client": "n" * 200, "calls": 1, "seen": SEEN, "running": 0}
    await admin.page.set_viewport_size({"width": width, "height": 800})
    await open_with(admin, callers=[caller], streams=[{**STREAM, "client": "n" * 200}])

    assert await admin.overhang() <= 0
    await admin.check(".mcp-page")


async def test_view_permission_shows_no_buttons(
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
    await expect(admin.page.locator("#mcp-live table :is(button, summary)")).to_have_count(0)


async def test_the_connect_page_has_copy_buttons(admin: AdminPages):
    await admin.open("disabledentry/connect/")
    await admin.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await admin.page.get_by_text("claude-code").first.click()
    await admin.page.get_by_role("button", name="Copy claude-code").click()
    await expect(admin.page.locator("details[open] [role=status]")).to_have_text("Copied.")

    copied = await admin.page.evaluate("navigator.clipboard.readText()")
    assert f"http://{admin.site.host}:{admin.site.port}/mcp" in copied
    await admin.check()


async def test_the_connect_page_is_translated(admin: AdminPages):
    await admin.page.set_extra_http_headers({"Accept-Language": "de"})
    await admin.open("disabledentry/connect/")
    await admin.page.get_by_text("inspector").first.click()

    await expect(admin.page.locator("details[open]")).to_contain_text(
        "Als mcp.json speichern und starten: npx @modelcontextprotocol/inspector --config mcp.json"
    )
