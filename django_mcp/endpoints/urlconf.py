"""The URL patterns of one server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.urls import URLPattern, path

from django_mcp.endpoints.health import HealthView
from django_mcp.endpoints.well_known import require_authorization_servers
from django_mcp.transports.http.view import make_view
from django_mcp.transports.legacy_sse.views import LegacyView

if TYPE_CHECKING:
    from django_mcp.server.server import MCPServer

__all__ = ["legacy_patterns_of", "patterns_of"]


def patterns_of(server: MCPServer) -> list[URLPattern]:
    """Return the URL patterns of a server: its endpoint and its health, each in both slash forms."""
    view, health = make_view(server, require_authorization_servers), HealthView()
    return [
        path("mcp", view, name="endpoint"),
        path("mcp/", view),
        path("mcp/health", health, name="health"),
        path("mcp/health/", health),
        *(legacy_patterns_of(server) if server.options.legacy_sse else ()),
    ]


def legacy_patterns_of(server: MCPServer) -> list[URLPattern]:
    """Return the URL patterns of HTTP+SSE: one to open a stream, and one to post to."""
    return [
        path("sse", LegacyView(server, takes_messages=False), name="sse"),
        path("messages", LegacyView(server, takes_messages=True), name="messages"),
    ]
