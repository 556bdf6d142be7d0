"""Create the stores of a server that are in the site's database."""

from __future__ import annotations

from typing import Any

from django_mcp.server.server import MCPServer
from django_mcp.sessions.answers import DatabaseAnswers
from django_mcp.sessions.events import DatabaseEvents
from django_mcp.sessions.store import DatabaseSessions

__all__ = ["make_stores"]


def make_stores(server: MCPServer) -> dict[str, Any]:
    """Return the stores for a server's sessions, by the names of its attributes."""
    return {
        "sessions": DatabaseSessions(
            lambda: server.name,
            lambda: server.hub,
            lambda: server.options,
            closed=server.session_closed,
        ),
        "answers": DatabaseAnswers(),
        "events": DatabaseEvents(),
    }
