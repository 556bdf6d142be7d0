"""Pages for URL elicitation: for one user, once, and complete only when the view says so."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser, User
from django.core.management import call_command
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory, override_settings
from django.urls import path
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt

from django_mcp import Context, MCPServer, elicitation_page, get_elicitation
from django_mcp.execution.tables import Pruner
from django_mcp.execution.threads import in_calling_thread
from django_mcp.inprocess import MCPError
from django_mcp.models import PageVisit
from django_mcp.pages import asking, visits
from django_mcp.test import AsyncMCPClient, MCPClient
from example_project.urls import urlpatterns as shop_urls

pytestmark = pytest.mark.django_db(transaction=True)

V2025_11_25, V2026_07_28 = "2025-11-25", "2026-07-28"
both = pytest.mark.parametrize("revision", [V2025_11_25, V2026_07_28])
SEEN: list[Any] = []
TOKEN = re.compile(rb'value="[A-Za-z0-9]{64}"')
"""The token against CSRF, which is another one on each page."""


@elicitation_page
def connect(request: Any, number: int) -> HttpResponse:
    found = request.elicitation
    SEEN.append((found.server, found.entry, found.principal_key, found.state, found.is_done))
    if request.method == "POST":
        response: HttpResponse = found.complete({"secret": request.POST["secret"]})
        return response
    return HttpResponse(f"canary {number}")


@elicitation_page
async def connect_async(request: Any) -> HttpResponse:
    response: HttpResponse = await request.elicitation.acomplete("async")
    return response


@elicitation_page
def newsletter(request: Any) -> HttpResponse:
    response: HttpResponse = request.elicitation.complete("cheated")
    return response


def come_back(request: HttpRequest) -> HttpResponse:
    """The callback URL of a third party."""
    found = get_elicitation(request, request.GET.get("state"), path="/connect/7/")
    return found.complete("from elsewhere")


urlpatterns = [
    path("connect/<int:number>/", connect, name="connect"),
    path("connect-async/", connect_async, name="connect-async"),
    path("newsletter/", newsletter, name="newsletter"),
    path("come-back/", come_back),
    *shop_urls,
]


@pytest.fixture(autouse=True)
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    SEEN.clear()
    monkeypatch.setattr(asking, "WAIT_S", 0.01)
    settings = {"PUBLIC": True, "PUBLIC_URL": "https://shop.example", "SESSION_STORE": "memory"}
    with override_settings(ROOT_URLCONF=__name__, DJANGO_MCP=settings):
        yield


@pytest.fixture
def ann() -> User:
    return get_user_model().objects.create_user("ann")


@pytest.fixture
def bob() -> User:
    return get_user_model().objects.create_user("bob")


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("paged", public=True)

    @server.tool
    def sign(ctx: Context, number: int = 7) -> str:
        """Have something signed."""
        done = ctx.elicit_page("Sign", "connect", args=[number], state={"for": number})
        return f"{done.action} {json.dumps(done.data)}"

    @server.tool
    async def sign_async(ctx: Context) -> str:
        """Have something signed."""
        done = await ctx.aelicit_page("Sign", "connect-async")
        return f"{done.action} {done.data}"

    @server.prompt
    def signed(ctx: Context) -> str:
        """Have something signed."""
        return str(ctx.elicit_page("Sign", "connect", kwargs={"number": 1}).data)

    return server


def browser(user: User | None = None) -> Client:
    client = Client(SERVER_NAME="localhost")
    if user is not None:
        client.force_login(user)
    return client


def address(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}"


def mcp(server: MCPServer, user: Any, revision: str, **more: Any) -> MCPClient:
    return MCPClient(server, user=user, revision=revision, **more)


def visiting(client: MCPClient, visit: Callable[[str], object]) -> list[str]:
    """Accept as the client's user and visit the page; return the visited URLs."""
    urls: list[str] = []

    def answer(key: str, question: Any) -> bool:
        params = question["params"]
        assert params["mode"] == "url"
        urls.append(params["url"])
        visit(address(params["url"]))
        return True

    client.answer(answer)
    return urls


@both
def test_the_user_completes_the_page_and_the_handler_continues(
    server: MCPServer, ann: User, revision: str
) -> None:
    theirs, client = browser(ann), mcp(server, ann, revision)

    def visit(url: str) -> None:
        page = theirs.get(url)
        assert page.content == b"canary 7"
        assert "no-store" in page["cache-control"]
        assert page["x-frame-options"] == "DENY"
        assert dict(page.items())["Content-Security-Policy"] == "frame-ancestors 'none'"
        done = theirs.post(url, {"secret": "s3cret"})
        assert b"close this page" in done.content
        # The page above is the site's, and this one is ours.
        assert "script-src 'self';" in dict(done.items())["Content-Security-Policy"]

    urls = visiting(client, visit)

    assert client.call("sign").text == 'accept {"secret": "s3cret"}'
    assert [urlsplit(url)[:3] for url in urls] == [("https", "shop.example", "/connect/7/")]
    assert SEEN[0][:2] == ("paged", "sign")
    assert SEEN[0][3:] == ({"for": 7}, False)
    assert str(ann.pk) in SEEN[0][2]
    # The URL contains no user name, and the client received none of the entered data.
    assert "ann" not in urls[0]


@both
def test_another_user_gets_404_for_the_page(
    server: MCPServer, ann: User, bob: User, revision: str
) -> None:
    client = mcp(server, ann, revision)

    def visit(url: str) -> None:
        others = browser(bob)
        for found in (others.get(url), others.post(url, {"secret": "stolen"})):
            unknown = others.get("/connect/7/?elicitation=unknown")
            assert found.status_code == unknown.status_code == 404
            assert TOKEN.sub(b"", found.content) == TOKEN.sub(b"", unknown.content)
            assert b"signed in as <strong><bdi>bob" in found.content
        stranger = browser().get(url)
        assert stranger.status_code == 302
        assert stranger["location"].startswith("/admin/login/?next=/connect/7/")
        assert browser().get("/connect/7/?elicitation=unknown").status_code == 302
        browser(ann).post(url, {"secret": "own"})

    visiting(client, visit)

    assert client.call("sign").text == 'accept {"secret": "own"}'
    assert len(SEEN) == 1


def test_switching_accounts_is_csrf_protected_on_exempt_pages(
    bob: User, rf: RequestFactory
) -> None:
    request = rf.post("/connect/7/?elicitation=x", {"switch_account": "1"})
    request._dont_enforce_csrf_checks = False  # type: ignore[attr-defined]
    request.user = bob

    assert csrf_exempt(connect)(request, number=7).status_code == 403


def test_a_user_logged_in_with_another_account_can_switch(
    server: MCPServer, ann: User, bob: User
) -> None:
    client = mcp(server, ann, V2026_07_28)

    def visit(url: str) -> None:
        theirs = browser(bob)
        away = theirs.post(url, {"switch_account": "1"})
        assert away.status_code == 302
        query = parse_qs(urlsplit(away["location"]).query)
        assert query["next"] == [url]
        assert "_auth_user_id" not in theirs.session
        theirs.force_login(ann)
        theirs.post(query["next"][0], {"secret": "own", "switch_account": "1"})

    visiting(client, visit)

    # The page's own field is shown.
    assert client.call("sign").text == 'accept {"secret": "own"}'


@pytest.mark.parametrize(
    "change",
    [
        lambda url: url.replace("/7/", "/8/"),
        lambda url: url.replace("/connect/7/", "/newsletter/"),
        lambda url: url[:-1] + ("A" if url[-1] != "A" else "B"),
        lambda url: url.partition("?")[0],
        lambda url: url + "a" * 300,
        lambda url: url + "%00",
    ],
)
def test_a_tampered_url_opens_nothing(
    server: MCPServer, ann: User, change: Callable[[str], str]
) -> None:
    """The page is resilient to tampering with the URL."""
    client = mcp(server, ann, V2026_07_28)
    statuses: list[int] = []

    def visit(url: str) -> None:
        statuses.append(browser(ann).get(change(url)).status_code)
        browser(ann).post(url, {"secret": "own"})

    visiting(client, visit)

    assert client.call("sign").text == 'accept {"secret": "own"}'
    assert statuses == [404]


def test_a_page_can_be_used_once(server: MCPServer, ann: User) -> None:
    client, theirs = mcp(server, ann, V2026_07_28), browser(ann)
    urls = visiting(client, lambda url: theirs.post(url, {"secret": "first"}))

    assert client.call("sign").text == 'accept {"secret": "first"}'
    again = theirs.post(address(urls[0]), {"secret": "second"})
    assert b"close this page" in again.content
    assert len(SEEN) == 1
    assert PageVisit.objects.get().result == {"secret": "first"}


def test_accepting_without_completing_the_page_asks_again(server: MCPServer, ann: User) -> None:
    client = mcp(server, ann, V2026_07_28)
    visits: list[str] = []

    def visit(url: str) -> None:
        visits.append(url)
        if len(visits) == 3:
            browser(ann).post(url, {"secret": "late"})

    visiting(client, visit)

    assert client.call("sign").text == 'accept {"secret": "late"}'
    assert len(visits) == 3
    # The same page, and one visit.
    assert len(set(visits)) == 1
    assert PageVisit.objects.count() == 1


def test_accepting_but_never_completing_is_a_tool_error(server: MCPServer, ann: User) -> None:
    settings = {"PUBLIC": True, "PUBLIC_URL": "https://shop.example", "ASK_TIMEOUT_S": 0.3}
    with override_settings(DJANGO_MCP={**settings, "SESSION_STORE": "memory"}):
        client = mcp(server, ann, V2025_11_25)
        visiting(client, lambda url: None)

        failed = client.call("sign")

    assert failed.is_error
    assert "in time" in failed.text


@both
@pytest.mark.parametrize(("answer", "action"), [(False, "decline"), (None, "cancel")])
def test_the_user_may_decline(
    server: MCPServer, ann: User, revision: str, answer: Any, action: str
) -> None:
    client = mcp(server, ann, revision)
    client.answer(answer)

    assert client.call("sign").text == f"{action} null"


@both
def test_a_call_waits_for_a_page_completed_later(
    server: MCPServer, ann: User, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "WAIT_S", 10.0)
    client = AsyncMCPClient(server, user=ann, revision=revision)
    theirs = browser(ann)
    urls: list[str] = []

    async def play() -> Any:
        is_asked = asyncio.Event()

        async def answer(key: str, question: Any) -> bool:
            urls.append(question["params"]["url"])
            is_asked.set()
            return True

        client.answer(answer)
        call = asyncio.create_task(client.call("sign"))
        await is_asked.wait()
        await sync_to_async(theirs.post)(address(urls[0]), {"secret": "later"})
        return await call

    assert async_to_sync(play)().text == 'accept {"secret": "later"}'
    assert len(urls) == 1


@both
def test_asynchronous_handlers_and_views(server: MCPServer, ann: User, revision: str) -> None:
    client, theirs = mcp(server, ann, revision), browser(ann)
    visiting(client, theirs.get)

    assert client.call("sign_async").text == "accept async"


def test_prompts_can_send_to_pages_too(server: MCPServer, ann: User) -> None:
    client, theirs = mcp(server, ann, V2026_07_28), browser(ann)
    visiting(client, lambda url: theirs.post(url, {"secret": "x"}))

    assert client.prompt("signed").text == "{'secret': 'x'}"


def test_a_third_party_can_send_the_user_back(server: MCPServer, ann: User, bob: User) -> None:
    client = mcp(server, ann, V2026_07_28)

    def visit(url: str) -> None:
        token = url.partition("=")[2]
        assert browser(bob).get("/come-back/", {"state": token}).status_code == 404
        assert browser().get("/come-back/", {"state": token}).status_code == 404
        assert browser(ann).get("/come-back/", {"state": token}).status_code == 200

    visiting(client, visit)

    assert client.call("sign").text == 'accept "from elsewhere"'


@both
@pytest.mark.parametrize("nobody", [None, AnonymousUser()])
def test_anonymous_users_are_not_sent_to_a_page(
    server: MCPServer, revision: str, nobody: Any
) -> None:
    refused = mcp(server, nobody, revision).call("sign")

    assert refused.is_error
    assert refused.text == "This needs a user who is signed in."
    assert not PageVisit.objects.exists()


@both
def test_clients_without_url_elicitation_get_no_page(
    server: MCPServer, ann: User, revision: str
) -> None:
    client = mcp(server, ann, revision, capabilities={"elicitation": {"form": {}}})

    if revision == V2026_07_28:
        with pytest.raises(MCPError, match="did not declare"):
            client.call("sign")
    else:
        assert client.call("sign").is_error
    assert not PageVisit.objects.exists()


def test_users_are_not_sent_to_pages_without_tls(server: MCPServer, ann: User) -> None:
    client = mcp(server, ann, V2026_07_28)
    with override_settings(DJANGO_MCP={"PUBLIC": True, "PUBLIC_URL": "http://shop.example"}):
        assert client.call("sign").is_error
    assert not PageVisit.objects.exists()


def test_an_unknown_site_url_is_reported_to_the_caller(
    server: MCPServer, ann: User, caplog: pytest.LogCaptureFixture
) -> None:
    with override_settings(DJANGO_MCP={"PUBLIC": True}):
        done = server.call_tool("sign", user=ann, answers=[True])

    assert done.is_error
    assert done.text.startswith("This needs a page of the site")
    assert "sign cannot send the user to a page" in caplog.text
    assert "PUBLIC_URL" in caplog.text
    assert not PageVisit.objects.exists()


def test_page_visits_expire(server: MCPServer, ann: User) -> None:
    client = mcp(server, ann, V2026_07_28)

    def visit(url: str) -> None:
        PageVisit.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        SEEN.append(browser(ann).get(url).status_code)

    client.answer(lambda key, question: visit(address(question["params"]["url"])))

    assert client.call("sign").text == "cancel null"
    assert 404 in SEEN
    call_command("mcp_prune", verbosity=0)
    assert not PageVisit.objects.exists()


def test_more_than_one_batch_of_expired_visits_is_removed(
    ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_mcp.execution.tables.AT_ONCE", 2)
    monkeypatch.setattr(visits, "_pruner", Pruner(60.0))
    old = timezone.now() - timedelta(seconds=1)
    PageVisit.objects.bulk_create(PageVisit(user=ann, expires_at=old) for _ in range(5))

    with in_calling_thread():
        visits.open_visit(PageVisit(user=ann), 60)

    assert PageVisit.objects.count() == 1


@pytest.mark.parametrize("listens", ["asking", "other"])
async def test_only_the_asking_session_is_notified(server: MCPServer, listens: str) -> None:
    ann = await sync_to_async(get_user_model().objects.create_user)("ann")
    theirs = await sync_to_async(browser)(ann)
    client = AsyncMCPClient(server, user=ann, revision=V2025_11_25)
    other = AsyncMCPClient(server, user=ann, revision=V2025_11_25)
    listener = client if listens == "asking" else other

    def answer(key: str, question: Any) -> bool:
        ids.append(question["params"]["elicitationId"])
        theirs.post(address(question["params"]["url"]), {"secret": "x"})
        return True

    ids: list[str] = []
    client.answer(answer)
    async with listener.listen() as listening:
        assert (await client.call("sign")).text == 'accept {"secret": "x"}'
        # A notification about the page would have arrived before this one.
        await server.anotify_list_changed("tools")
        while (await listening.next())["method"] != "notifications/tools/list_changed":
            pass

    told = [
        each for each in listening.heard if each["method"] == "notifications/elicitation/complete"
    ]
    expected = [{"elicitationId": ids[0]}] if listens == "asking" else []
    assert [each["params"] for each in told] == expected


def test_the_shop_redeems_a_voucher_that_the_client_never_sees(ann: User) -> None:
    from example_project.shop.models import Order

    order = Order.objects.create(number="2026-AAAA", customer=ann, placed_at=timezone.now())
    client, theirs = MCPClient(user=ann), browser(ann)

    def visit(url: str) -> None:
        assert b"A voucher for order 2026-AAAA" in theirs.get(url).content
        assert b"There is no such voucher" in theirs.post(url, {"code": "WRONG"}).content
        assert b"close this page" in theirs.post(url, {"code": "WELCOME-5"}).content

    visiting(client, visit)

    assert client.call("redeem_voucher", number=order.number).text == (
        "Order 2026-AAAA costs 5 euros less."
    )
    order.refresh_from_db()
    assert order.note == "voucher: 5 euros"


def test_one_user_cannot_open_any_number_of_pages(server: MCPServer, ann: User, bob: User) -> None:
    def open_one(user: User) -> str:
        return visits.open_visit(PageVisit(user=user, server="pages", path="/connect/7/"), 60)

    for _ in range(250):
        open_one(ann)

    with pytest.raises(visits.TooManyPages):
        open_one(ann)
    refused = mcp(server, ann, V2026_07_28).call("sign")
    assert refused.is_error
    assert "Too many pages are open" in refused.text
    assert open_one(bob)
    assert PageVisit.objects.filter(user=ann).count() == 250
