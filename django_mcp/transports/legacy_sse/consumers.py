"""The consumers of HTTP+SSE, and the views that stand for them in a URLconf."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote

from django.http import HttpRequest, HttpResponse

from django_mcp.protocol.headers import Headers
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.transports.http.consumer import Entry, MCPConsumer
from django_mcp.transports.http.replies import error_reply
from django_mcp.transports.http.view import EndpointView
from django_mcp.transports.legacy_sse.driver import TOKEN, keep_stream, take_message

if TYPE_CHECKING:
    from django_mcp.server.server import MCPServer

MAX_QUERY_FIELDS = 100
"""Fields of a query that are read. Our own limit."""


class LegacyStreamConsumer(MCPConsumer):
    """Keep a client's stream open: `GET .../sse`."""

    def _allowed_methods(self, headers: Headers) -> bytes:
        return b"GET, OPTIONS"

    def _find_entry(self, method: str) -> Entry:
        scope: Any = self.scope
        if method != "GET" or self._sink is None:
            return partial(_not_allowed, b"GET, OPTIONS")
        query = scope.get("query_string", b"").decode("latin-1")
        path = quote(scope["path"].removesuffix("/").removesuffix("sse")) + "messages"
        url = f"{path}?{query}" if query else path
        return partial(keep_stream, self.server, self._sink, url)


class LegacyMessageConsumer(MCPConsumer):
    """Receive a client's messages: `POST .../messages?session_id=...`."""

    def _allowed_methods(self, headers: Headers) -> bytes:
        return b"POST, OPTIONS"

    def _find_entry(self, method: str) -> Entry:
        scope: Any = self.scope
        if method != "POST":
            return partial(_not_allowed, b"POST, OPTIONS")
        query = scope.get("query_string", b"").decode("latin-1")
        return partial(take_message, self.server, _find_token(query))


def _find_token(query: str) -> str:
    """Return the last token in a query, or "" if there is none or the query has too many fields."""
    try:
        return parse_qs(query, max_num_fields=MAX_QUERY_FIELDS).get(TOKEN, [""])[-1]
    except ValueError:
        return ""


async def _not_allowed(verbs: bytes, _exchange: Exchange) -> Reply:
    return error_reply(405, "Method not allowed", ((b"allow", verbs),))


class LegacyView(EndpointView):
    """Report that HTTP+SSE needs ASGI routing, where there is none.

    Args:
        server: the server of the endpoint.
        consumer: the one that serves the URL over ASGI.
    """

    def __init__(self, server: MCPServer, consumer: type[MCPConsumer]) -> None:
        super().__init__(consumer.as_asgi(server=server))

    async def __call__(self, request: HttpRequest, **url_kwargs: Any) -> HttpResponse:
        """Return status 501."""
        reply = error_reply(501, "HTTP+SSE is served by django_mcp_application only")
        return HttpResponse(reply.body, status=reply.status, content_type="application/json")
