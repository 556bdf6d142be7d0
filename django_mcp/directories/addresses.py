"""The address that a directory gives to clients."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from django.urls import get_script_prefix

from django_mcp.conf import settings
from django_mcp.endpoints.mounts import find_path
from django_mcp.servers import MCPServer

_LOCAL = ("localhost", "local", "internal", "invalid", "test", "example", "home.arpa")
"""The ends of names that no other machine, or nobody at all, can look up (RFC 6761, RFC 6762, RFC 8375)."""


def public_url_of(server: MCPServer) -> str | None:
    """Return the URL of a server's endpoint from `PUBLIC_URL` and the URLconf; None: one of them lacks it."""
    path = find_path(server)
    if settings.PUBLIC_URL is None or path is None:
        return None
    return settings.PUBLIC_URL + get_script_prefix().rstrip("/") + path


def client_address(server: MCPServer, url: str) -> str:
    """Return the URL by which clients know an endpoint that may be examined at another one, on its own machine."""
    return url if find_obstacle(url) is None else public_url_of(server) or url


def find_obstacle(url: str) -> str | None:
    """Return why clients on the internet would not reach a URL, as the end of "It ..."; None: they may."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return "is no URL"
    if parts.scheme != "https":
        return "is not https"
    if port not in (None, 443):
        return f"names the port {port}, and clients of directories use 443"
    if not _is_public(host):
        return f"has the host {host!r}, which only machines of yours reach"
    return None


def _is_public(host: str) -> bool:
    try:
        return ip_address(host).is_global
    except ValueError:
        return "." in host and not host.endswith(tuple(f".{end}" for end in _LOCAL))
