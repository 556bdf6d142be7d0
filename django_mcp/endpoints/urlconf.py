"""The URL patterns of one server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.core.exceptions import ImproperlyConfigured
from django.urls import URLPattern, path

from django_mcp.endpoints.health import HealthView
from django_mcp.endpoints.well_known import require_authorization_servers
from django_mcp.transports.http.view import MCPView
from django_mcp.transports.legacy_sse import (
    LegacyMessageConsumer,
    LegacyStreamConsumer,
    LegacyView,
)

if TYPE_CHECKING:
    from django_mcp.server.server import MCPServer


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
