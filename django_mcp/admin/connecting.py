"""Where the servers of this site are, and what to put into each client to use them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import get_script_prefix

from django_mcp.auth.addresses import origin_of
from django_mcp.management.commands.mcp_config import WHERE, over_http
from django_mcp.mounting import find_mounts
from django_mcp.protocol.json import encode_pretty
from django_mcp.transports.http.view import MCPView

__all__ = ["Endpoint", "find_endpoints"]


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One server at one address.

    Attributes:
        name: of the server.
        url: its endpoint.
        clients: name of the client, its configuration, and where it wants it.
    """

    name: str
    url: str
    clients: list[tuple[str, str, str]]


def find_endpoints(request: HttpRequest) -> list[Endpoint]:
    """Return every endpoint with a fixed address, once each."""
    found: dict[int, Endpoint] = {}
    origin = origin_of(request) + get_script_prefix().rstrip("/")
    for mount in find_mounts():
        if not mount.is_fixed or not isinstance(mount.view, MCPView):
            continue
        server: Any = mount.view.server
        found.setdefault(id(server), _describe(server.public_name, origin + mount.path))
    return list(found.values())


def _describe(name: str, url: str) -> Endpoint:
    clients = []
    for client, where in WHERE.items():
        key = "servers" if client == "vscode" else "mcpServers"
        entry = {key: {name: over_http(client, url)}}
        clients.append((client, encode_pretty(entry), where))
    return Endpoint(name=name, url=url, clients=clients)
