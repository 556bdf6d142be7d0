"""The endpoints of this site's servers, and the configuration of each client for them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q
from django.http import HttpRequest
from django.urls import get_script_prefix
from django.utils import timezone

from django_mcp.admin.texts import inert
from django_mcp.auth.addresses import origin_of
from django_mcp.endpoints.client_config import WHERE, needs_key, over_http
from django_mcp.endpoints.mounts import find_mounts
from django_mcp.models import APIKey
from django_mcp.protocol.json import encode_pretty
from django_mcp.servers import MCPServer
from django_mcp.transports.http.view import MCPView

__all__ = ["Endpoint", "OwnKey", "find_endpoints", "find_own_keys"]

KEYS_SHOWN = 50


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One server at one URL.

    Attributes:
        name: of the server.
        url: its endpoint.
        clients: the client's name, its configuration, and where to put it.
    """

    name: str
    url: str
    clients: list[tuple[str, str, str]]


@dataclass(frozen=True, kw_only=True)
class OwnKey:
    """What the page shows of one of the user's keys besides its prefix."""

    name: str
    expires_at: datetime | None
    last_used_at: datetime | None


def find_endpoints(request: HttpRequest) -> list[Endpoint]:
    """Return every endpoint with a fixed URL, without duplicates."""
    found: dict[int, Endpoint] = {}
    origin = origin_of(request) + get_script_prefix().rstrip("/")
    for mount in find_mounts():
        if not mount.is_fixed or not isinstance(mount.view, MCPView):
            continue
        server: Any = mount.view.server
        found.setdefault(id(server), _describe(server, origin + mount.path))
    return list(found.values())


def find_own_keys(user: Any) -> list[tuple[str, OwnKey]]:
    """Return the user's own valid keys, newest first, each with what may be shown of it."""
    if not user.has_perm("django_mcp.view_apikey"):
        return []
    keys = APIKey.objects.filter(
        Q(expires_at=None) | Q(expires_at__gt=timezone.now()), user=user, revoked_at=None
    )
    return [
        (
            f"mcp_{key.prefix}_…",
            OwnKey(
                name=inert(key.name, 80),
                expires_at=key.expires_at,
                last_used_at=key.last_used_at,
            ),
        )
        for key in keys.order_by("-created_at")[:KEYS_SHOWN]
    ]


def _describe(server: MCPServer, url: str) -> Endpoint:
    name, is_keyed, clients = server.public_name, needs_key(server), []
    for client, where in WHERE.items():
        key = "servers" if client == "vscode" else "mcpServers"
        entry = {key: {name: over_http(client, url, needs_key=is_keyed)}}
        clients.append((client, encode_pretty(entry), str(where)))
    return Endpoint(name=name, url=url, clients=clients)
