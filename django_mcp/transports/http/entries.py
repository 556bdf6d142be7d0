"""Which of the server's three entries an HTTP verb goes to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from django_mcp.server.exchange import Exchange, Reply

if TYPE_CHECKING:
    from django_mcp.server.server import MCPServer

__all__ = ["Entry", "find_entry"]

Entry: TypeAlias = Callable[[Exchange], Awaitable[Reply]]


def find_entry(server: MCPServer, method: str | None) -> Entry:
    """Return the entry for a verb that the guard let through."""
    if method == "POST":
        return server.answer
    return server.open_stream if method == "GET" else server.end_session
