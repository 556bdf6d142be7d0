"""The URL patterns of one server, and its health check for load balancers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from django.core.exceptions import ImproperlyConfigured
from django.db import Error, connections
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path

from django_mcp.endpoints.well_known import require_authorization_servers
from django_mcp.execution.threads import find_pool_states, run_in_pool
from django_mcp.process import Sharing
from django_mcp.protocol.json import encode
from django_mcp.transports.http.view import EndpointView, MCPView
from django_mcp.transports.legacy_sse import (
    LegacyMessageConsumer,
    LegacyStreamConsumer,
    LegacyView,
)

if TYPE_CHECKING:
    from django_mcp.server.server import MCPServer

READY_TIMEOUT_S = 5.0
"""A database that has not responded by then counts as down. Our own limit."""

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
            return await run_in_pool(_ask_databases)
    except TimeoutError:
        return False


def _ask_databases() -> bool:
    try:
        for connection in connections.all():
            if connection.settings_dict["ENGINE"] == "django.db.backends.dummy":
                continue
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1" + connection.features.bare_select_suffix)
    except Error:
        return False
    return True


class HealthView(EndpointView):
    """The view of the health check: 200, or 503 if the databases do not respond."""

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


def patterns_of(server: MCPServer) -> list[URLPattern]:
    """Return the URL patterns of a server: its endpoint and its health, each in both slash forms."""
    view, health = MCPView(server, require_authorization_servers), HealthView()
    return [
        path("mcp", view, name="endpoint"),
        path("mcp/", view),
        path("mcp/health", health, name="health"),
        path("mcp/health/", health),
        *(legacy_patterns_of(server) if _has_legacy_sse(server) else ()),
    ]


def _has_legacy_sse(server: MCPServer) -> bool:
    try:
        return server.options.legacy_sse
    except ImproperlyConfigured:
        # An exception here would end manage.py check before it reports the wrong setting.
        return False


def legacy_patterns_of(server: MCPServer) -> list[URLPattern]:
    """Return the URL patterns of HTTP+SSE: one to open a stream, and one to post to."""
    return [
        path("sse", LegacyView(server, LegacyStreamConsumer), name="sse"),
        path("messages", LegacyView(server, LegacyMessageConsumer), name="messages"),
    ]
