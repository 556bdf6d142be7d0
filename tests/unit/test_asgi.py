"""The ASGI entry point: routing, and the health endpoints."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from channels.routing import ProtocolTypeRouter, URLRouter
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.exceptions import ImproperlyConfigured
from django.core.handlers.asgi import ASGIHandler
from django.db import connections
from django.http import HttpResponse
from django.test import Client, override_settings
from django.urls import ResolverMatch, include, path, re_path, reverse
from django.views.decorators.csrf import csrf_exempt

from django_mcp import Context
from django_mcp.asgi import django_mcp_application
from django_mcp.auth.authenticators import APIKeyAuthenticator
from django_mcp.endpoints import mounts
from django_mcp.endpoints.urlconf import site_of
from django_mcp.protocol.json import decode, encode
from django_mcp.routing import mcp_routes
from django_mcp.servers import MCPServer
from django_mcp.transports.http.view import MCPView
from tests.support.http.harness import Conversation, http_scope, part
from tests.support.wire import V2026_07_28, headers_for, message

server = MCPServer("doors", public=True)


@server.tool
def place(ctx: Context) -> dict[str, Any]:
    """Tell where this is."""
    return {"kwargs": dict(ctx.url_kwargs), "reversed": reverse("doors:endpoint")}


def page(request: Any, **kwargs: Any) -> HttpResponse:
    return HttpResponse("a page")


urls = ModuleType("urls")
urls.urlpatterns = [  # type: ignore[attr-defined]
    path("taken/mcp", page),
    path("taken/", include(server.urls[0])),
    path("", server.urls),
    path("of/<slug:tenant>/", include(server.urls[0])),
    re_path(r"^re/(?P<year>[0-9]{4})/", include(server.urls[0])),
    path("wrapped/mcp", csrf_exempt(MCPView(server))),
    path("page", page),
]


@pytest.fixture(autouse=True)
def mounted() -> Iterator[None]:
    with override_settings(ROOT_URLCONF=urls, MIDDLEWARE=[], ALLOWED_HOSTS=["localhost"]):
        yield


def serve_alone() -> Any:
    """Return the application of `manage.py mcp_serve`; the fixture restores the URLconf."""
    settings.ROOT_URLCONF = None
    return django_mcp_application(site_of(server))


class Site:
    """Replaces the rest of the site: records its requests."""

    def __init__(self) -> None:
        self.scopes: list[dict[str, Any]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 418, "headers": []})
            await send({"type": "http.response.body", "body": b"the site"})


@pytest.fixture
def site() -> Site:
    return Site()


async def ask(
    application: Any, path: str, *, method: str = "POST", tool: str = "place", **scope: Any
) -> Conversation:
    request = message("tools/call", {"name": tool}, revision=V2026_07_28)
    headers = {"host": "localhost", **headers_for(request, V2026_07_28)} if method == "POST" else {}
    found = http_scope(method, headers, path=path, raw_path=path.encode(), **scope)
    body = encode(request) if method == "POST" else b""
    return await Conversation(application, found, part(body)).end()


async def where(application: Any, path: str, **scope: Any) -> Any:
    talked = await ask(application, path, **scope)
    assert talked.status == 200, talked.body
    return decode(talked.body)["result"]["structuredContent"]


# -- routing


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/taken/mcp/"])
async def test_an_endpoint_is_matched_with_and_without_a_trailing_slash(site: Site, path: str):
    found = await where(django_mcp_application(site), path)

    assert found == {"kwargs": {}, "reversed": "/mcp"}
    assert site.scopes == []


@pytest.mark.parametrize(
    ("path", "kwargs"), [("/of/acme/mcp", {"tenant": "acme"}), ("/re/2026/mcp/", {"year": "2026"})]
)
async def test_handlers_can_read_url_kwargs(site: Site, path: str, kwargs: Any):
    application = django_mcp_application(site)

    assert (await where(application, path))["kwargs"] == kwargs
    assert (await where(application, path))["kwargs"] == kwargs


@pytest.mark.parametrize(
    "path",
    ["/", "/page", "/taken/mcp", "/wrapped/mcp", "/mcp/more", "/MCP", "//mcp", "/of/a b/mcp", "/é"],
)
async def test_other_paths_go_to_the_site(site: Site, path: str):
    talked = await ask(django_mcp_application(site), path)

    assert talked.status == 418
    assert [scope["path"] for scope in site.scopes] == [path]


async def test_websockets_go_to_the_site(site: Site):
    scope = {"type": "websocket", "path": "/page"}

    await django_mcp_application(site)(scope, None, None)

    assert site.scopes == [scope]


@pytest.mark.parametrize("path", ["/mcp", "/elsewhere"])
@pytest.mark.parametrize("has_router", [False, True])
async def test_a_websocket_is_rejected_if_the_site_has_none(path: str, has_router: bool):
    django: Any = ASGIHandler()
    application: Any = ProtocolTypeRouter({"http": django}) if has_router else django
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await django_mcp_application(application)({"type": "websocket", "path": path}, receive, send)

    # Before it is accepted: servers answer 403.
    assert sent == [{"type": "websocket.close", "code": 1008}]


async def upgrade(application: Any, path: str) -> list[dict[str, Any]]:
    """Return what an application sends to a client that requests a WebSocket."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await application({"type": "websocket", "path": path}, receive, send)
    return sent


@pytest.mark.parametrize("path", ["/mcp", "/page"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: django_mcp_application(ASGIHandler()),
        lambda: django_mcp_application(ProtocolTypeRouter({"http": ASGIHandler()})),
        serve_alone,
    ],
    ids=["django", "channels", "alone"],
)
async def test_an_unserved_websocket_is_rejected_without_an_error(make: Any, path: str):
    assert await upgrade(make(), path) == [{"type": "websocket.close", "code": 1008}]


async def test_a_websocket_to_an_endpoint_is_rejected_on_a_websocket_site(site: Site):
    sent = await upgrade(django_mcp_application(site), "/mcp")

    assert (sent, site.scopes) == ([{"type": "websocket.close", "code": 1008}], [])


async def test_the_urlconf_is_read_again_when_it_changes(site: Site):
    application = django_mcp_application(site)
    await where(application, "/mcp")
    other = ModuleType("other")
    other.urlpatterns = [path("elsewhere/", server.urls)]  # type: ignore[attr-defined]

    with override_settings(ROOT_URLCONF=other):
        assert (await ask(application, "/mcp")).status == 418
        assert (await where(application, "/elsewhere/mcp"))["reversed"] == "/elsewhere/mcp"
    await where(application, "/mcp")


@pytest.mark.parametrize("name", ["/app", "/app/"])
async def test_the_root_path_is_not_part_of_the_path(site: Site, name: str):
    found = await where(django_mcp_application(site), "/app/mcp", root_path="/app")

    assert found["reversed"] == "/app/mcp"


@override_settings(FORCE_SCRIPT_NAME="/forced")
async def test_force_script_name_works_as_in_django(site: Site):
    found = await where(django_mcp_application(site), "/forced/mcp")

    assert found["reversed"] == "/forced/mcp"


async def test_the_path_cache_is_bounded(site: Site):
    from django_mcp.endpoints import mounts

    application = django_mcp_application(site)

    for number in range(mounts.MAX_KNOWN + 5):
        await ask(application, f"/of/t{number}/mcp", method="OPTIONS")

    assert len(mounts._known) <= mounts.MAX_KNOWN


async def test_a_standalone_endpoint_does_not_consult_the_urlconf(
    site: Site, monkeypatch: pytest.MonkeyPatch
):
    from django_mcp.endpoints import mounts

    alone = ModuleType("alone")
    alone.urlpatterns = [path("", server.urls), path("<path:rest>", page)]  # type: ignore[attr-defined]
    resolved: list[str] = []
    resolve = mounts.resolve

    def spy(path: str) -> ResolverMatch | None:
        resolved.append(path)
        return resolve(path)

    monkeypatch.setattr(mounts, "resolve", spy)

    with override_settings(ROOT_URLCONF=alone):
        application = django_mcp_application(site)
        for each in ("/page", "/mcp", "/any/thing", "/mcp"):
            await ask(application, each)

    assert resolved == ["/mcp"]


async def test_startup_logs_the_endpoints(site: Site, caplog: pytest.LogCaptureFixture):
    told = MCPServer("told at start")
    told.tool(place)
    told.resource("told://it", name="it")(lambda: "it")
    where_it_is = ModuleType("where_it_is")
    where_it_is.urlpatterns = [path("<slug:shop>/", told.urls)]  # type: ignore[attr-defined]

    with override_settings(ROOT_URLCONF=where_it_is), caplog.at_level(logging.INFO, "django_mcp"):
        django_mcp_application(site)
        django_mcp_application(site)

    assert [record.getMessage() for record in caplog.records] == [
        (
            "MCP server 'told at start' at /<slug:shop>/mcp: "
            "tools 1, resources 1, resource templates 0, prompts 0"
        )
    ]


async def test_startup_says_how_much_is_for_everybody_beside_authenticators(
    site: Site, caplog: pytest.LogCaptureFixture
):
    told = MCPServer("half open", public=True, authenticators=[APIKeyAuthenticator()])
    told.tool(place)
    told.tool(name="guarded", permission="shop.view_order")(place)
    told.tool(name="scoped", scopes="look")(place)
    told.resource("told://it", name="it")(lambda: "it")
    closed = MCPServer("closed", authenticators=[APIKeyAuthenticator()])
    closed.tool(place)
    where_it_is = ModuleType("where_it_is")
    where_it_is.urlpatterns = [path("a/", told.urls), path("b/", closed.urls)]  # type: ignore[attr-defined]

    with override_settings(ROOT_URLCONF=where_it_is), caplog.at_level(logging.INFO, "django_mcp"):
        django_mcp_application(site)

    texts = [record.getMessage() for record in caplog.records]
    assert [text.partition("prompts 0")[2] for text in texts] == [
        "; 2 of them need no permission, nor signing in",
        "",
    ]


def test_an_application_that_is_dropped_is_none_of_those_that_are_wrapped(site: Site):
    before = len(mounts.wrapped)

    django_mcp_application(site)
    assert len(mounts.wrapped) == before

    application = django_mcp_application(site)
    assert len(mounts.wrapped) == before + 1
    del application


# -- other ASGI applications


async def test_a_standalone_server_serves_only_itself():
    application = serve_alone()

    assert (await where(application, "/mcp/"))["kwargs"] == {}
    assert (await ask(application, "/mcp/health", method="GET")).status == 200
    for path_ in ("/", "/page", "/mcp/more"):
        assert (await ask(application, path_, method="GET")).status == 404


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_channels_routes_can_lead_to_a_server():
    router = URLRouter(mcp_routes(server, "in.here/"))

    assert (await where(router, "/in.here/mcp"))["kwargs"] == {}
    assert (await ask(router, "/in.here/mcp/health", method="GET")).status == 200
    answer = await ask(router, "/in.here/mcp/x/nowhere")
    assert "Unknown tool" in answer.body.decode()
    with pytest.raises(ValueError, match="No route"):
        await ask(router, "/inxhere/mcp")


# -- health


def header(talked: Conversation, name: str) -> str | None:
    return {key.lower(): value for key, value in talked.headers.items()}.get(name)


@pytest.mark.parametrize("path", ["/mcp/health", "/mcp/health/", "/of/acme/mcp/health"])
@pytest.mark.parametrize("is_wrapped", [True, False], ids=["wrapper", "django"])
async def test_the_health_endpoints_work_through_both_asgi_applications(
    path: str, is_wrapped: bool
):
    application = django_mcp_application(Site()) if is_wrapped else ASGIHandler()

    talked = await ask(application, path, method="GET")

    assert (talked.status, decode(talked.body)) == (200, {"status": "ok"})
    assert header(talked, "cache-control") == "no-store"
    assert header(talked, "content-type") == "application/json"


@pytest.mark.parametrize("is_wrapped", [True, False], ids=["wrapper", "django"])
async def test_head_has_no_body_and_other_methods_are_rejected(is_wrapped: bool):
    application = django_mcp_application(Site()) if is_wrapped else ASGIHandler()

    head = await ask(application, "/mcp/health", method="HEAD")
    delete = await ask(application, "/mcp/health", method="DELETE")

    assert (head.status, head.body) == (200, b"")
    assert (delete.status, header(delete, "allow")) == (405, "GET, HEAD")


def test_the_health_endpoints_work_under_wsgi():
    response = Client().get("/mcp/health", headers={"host": "localhost"})

    assert (response.status_code, response.json()) == (200, {"status": "ok"})


def test_atomic_requests_does_not_affect_the_health_view():
    client = Client(headers={"host": "localhost"})
    connections["default"].settings_dict["ATOMIC_REQUESTS"] = True
    try:
        assert client.get("/mcp/health").status_code == 200
        assert client.options("/mcp").status_code < 500
    finally:
        connections["default"].settings_dict["ATOMIC_REQUESTS"] = False


@pytest.mark.usefixtures("databases")
async def test_readiness_checks_every_database(databases: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(connections.settings, "default")
    # These databases do not have all tables.
    monkeypatch.setattr("django_mcp.execution.migrated.is_migrated", lambda: True)
    application = django_mcp_application(Site())

    async def ready() -> tuple[int, Any]:
        talked = await ask(application, "/mcp/health", method="GET", query_string=b"ready")
        return talked.status, decode(talked.body)

    assert await ready() == (200, {"status": "ok"})
    down = {"NAME": "/nowhere/at/all.sqlite3"} if databases == "sqlite" else {"PORT": "1"}
    connections["second"].settings_dict.update(down)
    assert await ready() == (503, {"status": "unavailable"})
    assert (await ask(application, "/mcp/health", method="GET")).status == 200


def test_an_application_that_was_not_made_is_refused():
    with pytest.raises(ImproperlyConfigured, match="django_mcp_application\\(get_asgi_application"):
        django_mcp_application(get_asgi_application)  # type: ignore[arg-type]
