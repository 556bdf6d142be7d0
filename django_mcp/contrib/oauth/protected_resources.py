"""What of this site tokens are for: its MCP servers, and which scope each of their entries needs.

It imports nothing of django-oauth-toolkit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from django.urls import get_script_prefix

from django_mcp.auth.addresses import canonical_uri, origin_of
from django_mcp.auth.permissions import offer_to
from django_mcp.endpoints.well_known import find_issuers, find_root_path, find_server

if TYPE_CHECKING:
    from django.http import HttpRequest

    from django_mcp.server.server import MCPServer

__all__ = [
    "find_default_resource",
    "find_server_of",
    "needs_of",
    "takes_tokens_of",
]


def find_default_resource(request: HttpRequest) -> str | None:
    """Return the resource of clients that name none, as those of the oldest revisions do.

    It is the one that the metadata at the root is about.
    """
    path = find_root_path()
    if path is None:
        return None
    return origin_of(request) + get_script_prefix().rstrip("/") + path.rstrip("/")


def find_server_of(resource: str, request: HttpRequest) -> MCPServer | None:
    """Return the server whose endpoint a resource indicator names; None: no server's."""
    canonical = canonical_uri(resource)
    start = origin_of(request) + get_script_prefix().rstrip("/")
    if canonical is None or not canonical.startswith(f"{start}/"):
        return None
    return find_server(unquote(canonical.removeprefix(start)))


def takes_tokens_of(issuer: str, resource: str, request: HttpRequest) -> bool:
    """Return whether a resource indicator is exactly an endpoint that takes an issuer's tokens."""
    # Escapes are resolved on the way to a server, but not where a token's audience is compared.
    server = find_server_of(resource, request) if unquote(resource) == resource else None
    return server is not None and issuer in find_issuers(server, request)


def needs_of(servers: Iterable[MCPServer], user: Any) -> Mapping[str, list[str]]:
    """Return which entries need each scope, as titles, of those that the user may see."""
    found: dict[str, list[str]] = {}
    for server in servers:
        offer = offer_to(user, server.derived.requirements)
        for entry in server.registry.entries():
            for scope in offer.scopes_of(entry) if offer.includes(entry) else ():
                found.setdefault(scope, []).append(str(entry.title or entry.name))
    return found
