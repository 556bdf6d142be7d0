"""The URL patterns of one server with its health check, and the URLconf of a process that serves no other server.

That is the site's own URLconf without its other servers: the login page has links to the rest of the site.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.conf import settings as site_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest, HttpResponse
from django.shortcuts import resolve_url
from django.urls import URLPattern, URLResolver, path

from django_mcp.auth.addresses import METADATA_PATH
from django_mcp.conf import settings
from django_mcp.endpoints.browser_page import render_page
from django_mcp.endpoints.connect import CONNECT_PATH
from django_mcp.endpoints.mounts import NARROWED_ROUTE, has_urlconf
from django_mcp.endpoints.well_known import (
    CHALLENGE_PATH,
    SERVER_PATH,
    authenticators_of,
    patterns,
    require_authorization_servers,
)
from django_mcp.execution.migrated import find_database_fault
from django_mcp.execution.threads import find_pool_states, run_in_pool
from django_mcp.extension_packages import load_parts
from django_mcp.pages.style import style_pattern
from django_mcp.process import Sharing
from django_mcp.protocol.json import encode
from django_mcp.server.server import BaseServer
from django_mcp.servers import MCPServer
from django_mcp.transports.http.replies import ASGIApp, not_found, reject_websocket
from django_mcp.transports.http.view import EndpointView, MCPView, NarrowedView
from django_mcp.transports.legacy_sse import LegacyMessageConsumer, LegacyStreamConsumer

urlpatterns: list[Any] = []
"""The URLs of the server that `site_of` was called for."""

OPENID_PATH = "/.well-known/openid-configuration"

READY_TIMEOUT_S = 5.0
"""A database that has not responded by then counts as down."""

_METHODS = ("GET", "HEAD")

_questions: Sharing[bool] = Sharing()
"""Anonymous callers may ask, so concurrent requests share one check of the databases."""


async def _look() -> bool:
    # Tasks may have to wait for a thread, but calls should not.
    state = find_pool_states().get("SYNC_THREADS")
    if state is not None and state.is_exhausted:
        return False
    try:
        async with asyncio.timeout(READY_TIMEOUT_S):
            return not await run_in_pool(find_database_fault)
    except TimeoutError:
        return False


class HealthView(EndpointView):
    """The view of the health check: 200, or 503 if the databases do not respond or lack tables."""

    def __init__(self) -> None:
        super().__init__(serve_health)

    async def __call__(self, request: HttpRequest, **url_kwargs: Any) -> HttpResponse:
        return await _respond(request.method or "", request.META.get("QUERY_STRING", ""))


async def serve_health(scope: Any, _receive: Any, send: Any) -> None:
    """Respond to a health check over ASGI, as the view does."""
    response = await _respond(scope["method"], scope.get("query_string", b"").decode("latin-1"))
    headers = [(name.lower().encode(), value.encode()) for name, value in response.items()]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": response.content})


async def _respond(method: str, query: str) -> HttpResponse:
    if method not in _METHODS:
        status, text = 405, "method not allowed"
    elif "ready" not in parse_qs(query, keep_blank_values=True) or await _questions.ask(
        "ready", _look
    ):
        status, text = 200, "ok"
    else:
        status, text = 503, "unavailable"
    body = encode({"status": text})
    headers = {
        "Content-Type": "application/json",
        "Cache-Control": "no-store",
        "Content-Length": str(len(body)),
        **({"Allow": ", ".join(_METHODS)} if status == 405 else {}),
    }
    return HttpResponse(b"" if method == "HEAD" else body, status=status, headers=headers)


def patterns_of(server: BaseServer) -> list[URLPattern]:
    """Return the URL patterns of a server: its endpoint, that for some toolsets, and health, each in both slash forms, and the stylesheet of pages."""
    make_page = partial(render_page, server)
    view = MCPView(server, require_authorization_servers, make_page)
    health = HealthView()
    try:
        has_legacy_sse = server.options.legacy_sse
    except ImproperlyConfigured:
        # An exception here would end manage.py check before it reports the wrong setting.
        has_legacy_sse = False
    narrowed = NarrowedView(server, require_authorization_servers, make_page)
    return [
        path("mcp", view, name="endpoint"),
        path("mcp/", view),
        path(f"mcp{NARROWED_ROUTE}", narrowed, name="toolsets"),
        path(f"mcp{NARROWED_ROUTE}/", narrowed),
        path("mcp/health", health, name="health"),
        path("mcp/health/", health),
        style_pattern("mcp/"),
        *(each for part in load_parts("site.urls") for each in part.patterns_of(server)),
        *(legacy_patterns_of(server) if has_legacy_sse else ()),
    ]


def legacy_patterns_of(server: BaseServer) -> list[URLPattern]:
    """Return the URL patterns of HTTP+SSE: one to open a stream and one to post to, each for some toolsets too."""
    stream = LegacyStreamConsumer.as_asgi(server=server)
    message = LegacyMessageConsumer.as_asgi(server=server)
    narrowed = f"sse{NARROWED_ROUTE}"
    return [
        path("sse", EndpointView(stream, server), name="sse"),
        path("messages", EndpointView(message), name="messages"),
        path(narrowed, EndpointView(stream, server), name="sse-toolsets"),
        path(f"{narrowed}/messages", EndpointView(message), name="messages-toolsets"),
    ]


_starts: list[str] = []
_pages: list[str] = []
"""The starts of the paths that the application of `site_of` answers, and whole paths."""


def serves_path(path: str) -> bool:
    """Return whether the application of `site_of` answers a path. Its URLconf has more than those."""
    path = f"{path.removesuffix('/')}/"
    return path in _pages or path.startswith(tuple(_starts))


def site_of(server: MCPServer) -> ASGIApp:
    """Return the application beside the endpoint of a server, and make this module the process's URLconf.

    It serves the metadata of the protected resource, if an authenticator names authorization servers;
    this site's own authorization server with the login page, if its tokens are accepted; and the token
    of a directory, if there is one.
    """
    site = import_module(site_settings.ROOT_URLCONF) if has_urlconf() else None
    urlpatterns[:] = [
        path("", server.urls),
        *patterns(),
        *_without_servers(getattr(site, "urlpatterns", ())),
    ]
    site_settings.ROOT_URLCONF = __name__
    starts: list[str] = [] if settings.OPENAI_APPS_CHALLENGE is None else [f"{CHALLENGE_PATH}/"]
    for part in load_parts("site.urls"):
        beside, at_root = part.patterns_of(server), part.root_patterns()
        starts += [f"/{str(each.pattern).rstrip('/')}/" for each in (*beside, *at_root)]
    pages: list[str] = []
    if authenticators_of(server):
        starts.append(f"{METADATA_PATH}/")
    if any(authenticator.is_of_this_site for authenticator in authenticators_of(server)):
        starts += [f"{SERVER_PATH}/", f"{OPENID_PATH}/", f"/{settings.OAUTH_PREFIX}"]
        starts.append(CONNECT_PATH)
        login = urlsplit(resolve_url(site_settings.LOGIN_URL))
        if not login.netloc:
            pages.append(f"{login.path.rstrip('/')}/")
    _starts[:], _pages[:] = starts, pages
    handler = ASGIHandler()
    forced_prefix: str = site_settings.FORCE_SCRIPT_NAME or ""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await reject_websocket(scope, receive, send)
            return
        if scope["type"] != "http":
            # `django_mcp_application` speaks for it in a lifespan.
            return
        prefix = forced_prefix or scope.get("root_path") or ""
        is_answered = serves_path(scope["path"].removeprefix(prefix))
        await (handler if is_answered else not_found)(scope, receive, send)

    return serve


def _without_servers(found: Any) -> Iterator[Any]:
    for pattern in found:
        if isinstance(pattern, URLResolver):
            inside = list(_without_servers(pattern.url_patterns))
            yield URLResolver(
                pattern.pattern, inside, pattern.default_kwargs, pattern.app_name, pattern.namespace
            )
        elif not isinstance(pattern.callback, EndpointView):
            yield pattern
