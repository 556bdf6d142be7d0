"""A handler's request carries no credentials, in whatever way a call enters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.admin import site as admin_site
from django.contrib.auth import get_user_model
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest
from django.test import AsyncClient, AsyncRequestFactory, Client, RequestFactory, override_settings
from django.urls import path

from django_mcp import Context, MCPServer
from django_mcp.auth import left_out
from django_mcp.auth.handler_requests import build_handler_request
from django_mcp.conf import find_problems
from django_mcp.contrib.http_calls import build_request
from django_mcp.log import LoggedKinds
from django_mcp.protocol.json import encode
from django_mcp.test import MCPClient
from django_mcp.transports.http.consumer import MCPConsumer
from django_mcp.transports.legacy_sse import LegacyMessageConsumer, LegacyStreamConsumer
from tests.support.http.harness import Conversation, http_scope, part, talk
from tests.support.wire import V2025_11_25, V2026_07_28, headers_for, message

pytestmark = pytest.mark.django_db

SECRET = "swordfish"
HEADERS = {
    "Authorization": f"Basic {SECRET}",
    "Proxy-Authorization": SECRET,
    "X-Api-Key": SECRET,
    "X-Bearer": SECRET,
    "X-Passphrase": SECRET,
    "X-Pwd": SECRET,
    "X-Auth-Token": SECRET,
    "X-CSRFToken": SECRET,
    "X-Forwarded-User": SECRET,
    "X-Amzn-Oidc-Accesstoken": SECRET,
    "Cf-Access-Jwt-Assertion": SECRET,
    "X-Amzn-Oidc-Data": SECRET,
    "X-Ms-Client-Principal": SECRET,
    "X-Access-Key": SECRET,
    "Remote-Email": SECRET,
    "X-Ssl-Cert": SECRET,
    "Dpop": SECRET,
    "Cookie": f"sessionid={SECRET}; csrftoken={SECRET}; remember={SECRET}",
    "X-Key": SECRET,
    "X-Otp": SECRET,
    "X-Hmac": SECRET,
    "Ocp-Apim-Subscription-Key": SECRET,
    "X-Functions-Key": SECRET,
    "X-Client-Key": SECRET,
    "X-Login": SECRET,
    "X-Email": SECRET,
    "X-Client-Dn": SECRET,
    "X-Vault": SECRET,
    "X-Account-Number": SECRET,
    "X-Sso": SECRET,
    "X-Ticket": SECRET,
    "X-License-Key": SECRET,
    **dict.fromkeys(("X-Pass", "X-Pat", "X-Totp", "X-2fa", "X-Storage-Key", "X-Whatever"), SECRET),
    "X-Tenant": "acme",
}
ADDRESSES = {
    "Referer": f"https://site.example/reset?token={SECRET}",
    "X-Original-Url": f"/mcp?page=2&access_token={SECRET}",
    "X-Envoy-Original-Path": f"/mcp?token={SECRET}",
    "X-Forwarded-Prefix": f"/mcp?token={SECRET}",
    "X-Rewrite-Url": f"/mcp?state=1&code={SECRET}",
    "X-Forwarded-Uri": f"/mcp?%61ccess_token={SECRET}#top",
}
"""Headers with addresses whose queries hold credentials."""


def find_texts(value: Any, seen: set[int] | None = None) -> Iterator[str]:
    """Yield all texts that can be reached from an object."""
    seen = set() if seen is None else seen
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, str):
        yield value
    elif id(value) not in seen:
        seen.add(id(value))
        inner: list[Any] = []
        if isinstance(value, dict):
            inner = [*value, *value.values()]
        elif isinstance(value, list | tuple | set):
            inner = list(value)
        elif type(value).__module__.partition(".")[0] in ("django", "types", "_io", "io"):
            inner = [vars(value) if hasattr(value, "__dict__") else ()]
            inner += [value.read()] if hasattr(value, "read") else []
        for each in inner:
            yield from find_texts(each, seen)


def describe(request: Any) -> str:
    names = (
        "COOKIES",
        "GET",
        "POST",
        "FILES",
        "META",
        "headers",
        "body",
        "session",
        "_cached_user",
    )
    found = [getattr(request, name, None) for name in names]
    urls = [request.get_full_path(), request.build_absolute_uri()]
    return "\n".join(find_texts([found, urls, vars(request)]))


def make_server(**options: Any) -> MCPServer:
    server = MCPServer("seen", public=True, **options)

    @server.tool(read_only=True)
    def see(ctx: Context) -> str:
        return describe(ctx.request)

    @server.tool(read_only=True)
    def pass_on(ctx: Context) -> str:
        # The request of tools that are generated from views, operations and the admin.
        return describe(build_request(ctx, "POST", RequestFactory().get("/").GET.copy()))

    @server.tool(read_only=True)
    async def see_async(request: HttpRequest) -> str:
        return describe(request)

    return server


served = make_server(legacy_sse=True)
urlpatterns = [path("admin/", admin_site.urls), path("", served.urls)]

TOOLS = ("see", "pass_on", "see_async")


def body_of(tool: str, revision: Any = V2026_07_28) -> bytes:
    return encode(message("tools/call", {"name": tool, "arguments": {}}, revision=revision))


def wire_headers(tool: str) -> dict[str, str]:
    sent = message("tools/call", {"name": tool, "arguments": {}}, revision=V2026_07_28)
    return {**headers_for(sent, V2026_07_28), **HEADERS, **ADDRESSES}


def scope_of(headers: dict[str, str], **more: Any) -> dict[str, Any]:
    user = SimpleNamespace(password=SECRET)
    of_middleware: dict[str, Any] = {
        "session": {"key": SECRET},
        "cookies": {"a": SECRET},
        "user": user,
    }
    found = {key.lower(): value for key, value in headers.items()}
    return http_scope(headers=found, query_string=query(), **of_middleware, **more)


def query() -> bytes:
    names = ("access_token", "pass", "pat", "totp", "phpsessid", "st", "tok")
    return "&".join(["page=2", *(f"{name}={SECRET}" for name in names)]).encode()


@async_to_sync
async def by_consumer(tool: str) -> str:
    app: Any = MCPConsumer.as_asgi(server=served)
    talked = await talk(app, scope_of(wire_headers(tool)), part(body_of(tool)))
    return talked.body.decode()


@async_to_sync
async def by_legacy_sse(tool: str) -> str:
    streams: Any = LegacyStreamConsumer.as_asgi(server=served)
    messages: Any = LegacyMessageConsumer.as_asgi(server=served)
    headers = {**HEADERS, **ADDRESSES, "Accept": "text/event-stream"}
    stream = Conversation(streams, scope_of(headers, method="GET", path="/sse"), part())
    await stream.until_sent(2)
    endpoint = stream.events[0].data.partition("?")[2] + f"&access_token={SECRET}"
    declared = {
        "protocolVersion": V2025_11_25.name,
        "capabilities": {},
        "clientInfo": {"name": "t"},
    }
    declared["clientInfo"] = {"name": "t", "version": "1"}
    for number, each in enumerate(
        (
            encode(message("initialize", declared, revision=V2025_11_25, id=1)),
            body_of(tool, V2025_11_25),
        ),
        3,
    ):
        scope = scope_of(HEADERS | ADDRESSES, path="/messages") | {
            "query_string": endpoint.encode()
        }
        await talk(messages, scope, part(each))
        await stream.until_sent(number)
    stream.put({"type": "http.disconnect"})
    await stream.end()
    return stream.events[-1].data


def by_view(tool: str) -> str:
    client = signed_in()
    more = {"Cookie": cookies_of(client), "Host": "localhost"}
    headers: Any = {"headers": wire_headers(tool) | more}
    return client.post(
        f"/mcp?{query().decode()}",
        body_of(tool),
        content_type="application/json",
        RAW_URI=f"/mcp?{query().decode()}",
        REQUEST_URI=f"/mcp?{query().decode()}",
        **headers,
    ).content.decode()


def by_admin(tool: str, revision: Any) -> str:
    client = signed_in()
    given = {"server": "seen", "method": "tools/call", "revision": revision.name}
    params = {"name": tool, "arguments": {}}
    response: Any = client.post(
        f"/admin/django_mcp/disabledentry/try/?{query().decode()}",
        encode({**given, "params": params}),
        content_type="application/json",
        headers=HEADERS | ADDRESSES | {"Cookie": cookies_of(client)},
    )
    return b"".join(response.streaming_content).decode()


def by_admin_on_asgi(tool: str) -> str:
    client = signed_in()

    async def ask() -> str:
        found = AsyncClient()
        found.cookies = client.cookies
        given = {"server": "seen", "method": "tools/call", "revision": V2025_11_25.name}
        response: Any = await found.post(
            "/admin/django_mcp/disabledentry/try/",
            encode({**given, "params": {"name": tool, "arguments": {}}}),
            content_type="application/json",
            headers={key: value for key, value in (HEADERS | ADDRESSES).items() if key != "Cookie"},
        )
        return b"".join([each async for each in response.streaming_content]).decode()

    return async_to_sync(ask)()


def in_process(tool: str) -> str:
    request: Any = RequestFactory(headers=HEADERS | ADDRESSES).post(
        f"/?{query().decode()}", {"password": SECRET}, REMOTE_USER=SECRET
    )
    assert request.POST["password"] == SECRET
    request.session = {"key": SECRET}
    request.by_middleware = SimpleNamespace(request=request)
    found = str(served.call_tool(tool, request=request))
    assert request.META["HTTP_AUTHORIZATION"] == HEADERS["Authorization"]
    return found


def by_test_client(tool: str) -> str:
    return MCPClient(served, headers=HEADERS | ADDRESSES).call(tool).text


def signed_in() -> Client:
    user: Any = get_user_model().objects.create_superuser("root", password="x")
    client = Client()
    client.force_login(user)
    # The id of the session is what may not be seen.
    global SESSION
    SESSION = client.cookies["sessionid"].value
    return client


SESSION = SECRET


def cookies_of(client: Client) -> str:
    return f"sessionid={client.cookies['sessionid'].value}; csrftoken={SECRET}"


ENTRIES: dict[str, Callable[[str], str]] = {
    "HTTP consumer": by_consumer,
    "view": by_view,
    "HTTP+SSE": by_legacy_sse,
    "try-it, stateless": lambda tool: by_admin(tool, V2026_07_28),
    "try-it, handshake": lambda tool: by_admin(tool, V2025_11_25),
    "try-it on ASGI": by_admin_on_asgi,
    "in process": in_process,
    "test client": by_test_client,
}


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("entry", ENTRIES)
@override_settings(
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["*"],
    DJANGO_MCP={
        "SYNC_THREADS": 0,
        "SESSION_STORE": "memory",
        "PUBLIC": True,
        "HANDLER_HEADERS": ["X-Tenant"],
        "HANDLER_QUERY": ["page"],
    },
)
def test_a_handler_sees_no_credentials_however_its_call_enters(entry: str, tool: str) -> None:
    told = ENTRIES[entry](tool)

    assert "acme" in told
    assert "HTTP_HOST" in told or "SERVER_NAME" in told
    assert SECRET not in told
    assert SESSION not in told


@override_settings(
    DJANGO_MCP={"HANDLER_HEADERS": ["x-tenant", "GEOIP_COUNTRY"], "HANDLER_QUERY": ["page"]},
    SECURE_PROXY_SSL_HEADER=("HTTP_X_SCHEME", "https"),
)
def test_the_request_keeps_what_describes_it_what_the_site_names_and_what_middleware_added() -> (
    None
):
    source: Any = RequestFactory(
        headers={
            "User-Agent": "tests",
            "Accept-Language": "de",
            "X-Forwarded-For": "192.0.2.1",
            "X-Request-Id": "7",
            "X-Scheme": "https",
            "X-Tenant": "acme",
            "X-Other": "left out",
        }
    ).get("/mcp?page=2&page=3&other=1", GEOIP_COUNTRY="AT")
    source.tenant = "acme"

    request: Any = build_handler_request(source, "ada")

    assert (request.user, request.tenant) == ("ada", "acme")
    assert dict(request.headers) == {
        "User-Agent": "tests",
        "Accept-Language": "de",
        "X-Forwarded-For": "192.0.2.1",
        "X-Request-Id": "7",
        "X-Scheme": "https",
        "X-Tenant": "acme",
    }
    assert request.META["GEOIP_COUNTRY"] == "AT"
    assert request.is_secure()
    assert request.get_full_path() == "/mcp?page=2&page=3"
    assert request.GET.getlist("page") == ["2", "3"]
    assert json.loads(request.body or b"null") is None


def test_without_settings_a_query_is_left_out() -> None:
    request = build_handler_request(RequestFactory().get("/mcp?page=2"), "ada")

    assert request.get_full_path() == "/mcp"
    assert request.GET.urlencode() == ""


@override_settings(DJANGO_MCP={"HANDLER_QUERY": ["a"]})
def test_a_query_with_more_parameters_than_django_reads_is_left_out() -> None:
    source = RequestFactory().get("/mcp")
    source.META["QUERY_STRING"] = "&".join(["a=1"] * 1001)

    request = build_handler_request(source, "ada")

    assert request.GET.urlencode() == ""
    assert request.get_full_path() == "/mcp"


@override_settings(DATA_UPLOAD_MAX_NUMBER_FIELDS=2, DJANGO_MCP={"HANDLER_QUERY": ["a", "b"]})
def test_a_query_with_as_many_parameters_as_django_reads_stays() -> None:
    request = build_handler_request(RequestFactory().get("/mcp?a=1&b=2"), "ada")

    assert request.GET.urlencode() == "a=1&b=2"


def test_a_header_with_an_underscore_is_not_in_the_scope_for_another() -> None:
    names = [(b"x_request_id", b"7"), (b"x-request-id", b"8"), (b"x-api-key", b"9")]
    source = ASGIRequest(http_scope() | {"headers": names}, BytesIO())

    request: Any = build_handler_request(source, "ada")

    assert request.scope["headers"] == [(b"x-request-id", b"8")]


ASKED: dict[str, Callable[[Any], Any]] = {
    "X-Asked-Get": lambda request: request.headers.get("x-asked-get"),
    "X-Asked-Item": lambda request: "x_asked_item" in request.headers,
    "X-Asked-Meta": lambda request: request.META.get("HTTP_X_ASKED_META"),
    "asked": lambda request: request.GET.get("asked"),
    "asked-list": lambda request: request.GET.getlist("asked-list"),
    "Authorization": lambda request: request.META.get("HTTP_AUTHORIZATION"),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_handler_that_asks_for_what_was_left_out_is_told_once(
    name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left_out, "logged", LoggedKinds(100))
    headers = dict.fromkeys(
        ["X-Asked-Get", "X-Asked-Item", "X-Asked-Meta", "Authorization"], SECRET
    )
    source = RequestFactory(headers=headers).get(f"/mcp?asked={SECRET}&asked-list={SECRET}")

    for _ in range(2):
        assert not ASKED[name](build_handler_request(source, "ada"))

    (told,) = caplog.messages
    assert repr(name) in told
    assert ("HANDLER_HEADERS" in told, "HANDLER_QUERY" in told) == (name[0] == "X", name[0] == "a")
    assert SECRET not in told


@override_settings(
    DJANGO_MCP={"HANDLER_HEADERS": ["X-Asked-Get"], "HANDLER_QUERY": ["asked"]},
)
def test_nothing_is_told_of_what_is_named_or_was_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    source = RequestFactory(headers={"X-Asked-Get": "1"}).get("/mcp?asked=2")

    request: Any = build_handler_request(source, "ada")

    assert [request.headers["X-Asked-Get"], request.GET["asked"]] == ["1", "2"]
    assert [request.headers.get("X-Unsent"), request.GET.get("unsent")] == [None, None]
    assert caplog.messages == []


@pytest.mark.parametrize("name", ["Authorization", "proxy-authorization", "HTTP_COOKIE", "Cookie"])
def test_a_site_cannot_name_the_credentials_of_the_caller(name: str) -> None:
    (problem,) = find_problems({"HANDLER_HEADERS": [name]})

    assert "without Authorization and Cookie" in problem.hint


@pytest.mark.parametrize(
    ("name", "is_kept"),
    [
        *((name, False) for name in ("session", "_cached_user", "auth", "api_key", "jwt_payload")),
        *((name, False) for name in ("totp", "pat", "account", "token", "_dont_enforce_csrf_checks")),
        *((name, True) for name in ("tenant", "author", "site", "user_agent", "pattern", "urlconf")),
    ],
)  # fmt: skip
def test_attributes_named_after_credentials_are_left_out(name: str, is_kept: bool) -> None:
    source = RequestFactory().get("/mcp")
    setattr(source, name, "set by middleware")

    request = build_handler_request(source, "ada")

    assert hasattr(request, name) == is_kept


@pytest.mark.parametrize("source", [RequestFactory().get("/"), AsyncRequestFactory().get("/")])
def test_a_handler_that_looks_for_a_session_is_told_where_values_are_kept(
    source: Any, caplog: pytest.LogCaptureFixture
) -> None:
    left_out.logged.reset()
    request: Any = build_handler_request(source, "ada")

    assert getattr(request, "session", None) is None
    assert getattr(request, "session", None) is None
    (told,) = caplog.messages
    assert " asked for the attribute 'session', the session of a browser, which calls " in told

    assert isinstance(request, type(source))
    assert type(request).__name__ == type(source).__name__
    assert not hasattr(request, "session")
    with pytest.raises(AttributeError, match=r"handlers have no session .* ctx\.session keeps"):
        request.session["cart"] = []
    with pytest.raises(AttributeError, match=r"has no attribute 'tenant'$"):
        request.tenant  # noqa: B018
    request.session = {"cart": []}
    assert request.session == {"cart": []}
