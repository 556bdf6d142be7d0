"""The server's entry point for each HTTP method."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.transports.http.guard import Clearance
from django_mcp.transports.http.replies import error_reply

if TYPE_CHECKING:
    from django_mcp.server.server import MCPServer

__all__ = ["Entry", "find_entry", "check_head"]

Entry: TypeAlias = Callable[[Exchange], Awaitable[Reply]]


def find_entry(server: MCPServer, method: str | None) -> Entry:
    """Return the entry point for a method that the guard accepted."""
    if method == "POST":
        return server.answer
    return server.open_stream if method == "GET" else server.end_session


def check_head(
    server: MCPServer,
    method: str | None,
    clearance: Clearance,
    allowed_methods: Callable[[], bytes],
) -> Reply | None:
    """Return an error reply or a preflight response, or None if the request may continue.

    Args:
        server: the server of the endpoint.
        method: the HTTP method.
        clearance: the guard's result.
        allowed_methods: returns the value of the `Allow` header.
    """
    reply = clearance.reply
    if reply is None:
        if method == "GET" and server.keeps_sessions and not clearance.may_stream:
            return error_reply(406, "Accept must admit text/event-stream")
        return None
    is_about_verbs = reply.status == 405 or any(name == b"allow" for name, _ in reply.headers)
    if is_about_verbs:
        return Reply(reply.status, reply.body, ((b"allow", allowed_methods()),))
    return reply
