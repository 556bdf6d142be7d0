"""The consumers of HTTP+SSE."""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import parse_qs, quote

from django_mcp.protocol.errors import INVALID_REQUEST, Refusal
from django_mcp.protocol.headers import Headers
from django_mcp.protocol.messages import encode_error
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.transports.http.consumer import MCPConsumer
from django_mcp.transports.http.entries import Entry
from django_mcp.transports.legacy_sse.driver import TOKEN, keep_stream, take_message

__all__ = ["LegacyMessageConsumer", "LegacyStreamConsumer"]

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
        return partial(_in_order, self.server, self._sink, url)


class LegacyMessageConsumer(MCPConsumer):
    """Receive a client's messages: `POST .../messages?session_id=...`."""

    def _allowed_methods(self, headers: Headers) -> bytes:
        return b"POST, OPTIONS"

    def _find_entry(self, method: str) -> Entry:
        scope: Any = self.scope
        if method != "POST":
            return partial(_not_allowed, b"POST, OPTIONS")
        query = scope.get("query_string", b"").decode("latin-1")
        return partial(_take, self.server, _find_token(query))


def _find_token(query: str) -> str:
    """Return the last token in a query, or "" if there is none or the query has too many fields."""
    try:
        return parse_qs(query, max_num_fields=MAX_QUERY_FIELDS).get(TOKEN, [""])[-1]
    except ValueError:
        return ""


async def _in_order(server: Any, sink: Any, url: str, exchange: Exchange) -> Reply:
    return await keep_stream(server, exchange, sink, url)


async def _take(server: Any, token: str, exchange: Exchange) -> Reply:
    return await take_message(server, exchange, token)


async def _not_allowed(verbs: bytes, _exchange: Exchange) -> Reply:
    refusal = Refusal(code=INVALID_REQUEST, message="Method not allowed")
    return Reply(405, encode_error(None, refusal), ((b"allow", verbs),))
