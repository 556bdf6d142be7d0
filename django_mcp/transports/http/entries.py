"""Which of the server's three entries an HTTP verb goes to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from django_mcp.server.exchange import Exchange, Reply
from django_mcp.transports.http.guard import Clearance
from django_mcp.transports.http.replies import refuse

if TYPE_CHECKING:
    from django_mcp.server.server import MCPServer

__all__ = ["Entry", "find_entry", "refuse_at_door"]

Entry: TypeAlias = Callable[[Exchange], Awaitable[Reply]]


def find_entry(server: MCPServer, method: str | None) -> Entry:
    """Return the entry for a verb that the guard let through."""
    if method == "POST":
        return server.answer
    return server.open_stream if method == "GET" else server.end_session


def refuse_at_door(server: MCPServer, method: str | None, clearance: Clearance) -> Reply | None:
    """Return why a request goes no further than its headers, or the answer to a preflight."""
    reply = clearance.reply
    if reply is None:
        if method == "GET" and server.keeps_sessions and not clearance.may_stream:
            return refuse(406, "Accept must admit text/event-stream")
        return None
    if reply.status == 405:
        return Reply(405, reply.body, ((b"allow", server.verbs),))
    return reply
