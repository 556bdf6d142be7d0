"""What of this site tokens are for: its MCP servers, and which scope each of their entries needs.

It is told by the doors above (`connect`), and imports nothing of django-oauth-toolkit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from django.urls import get_script_prefix

from django_mcp.auth.addresses import canonical_uri, origin_of
from django_mcp.auth.permissions import offer_to
from django_mcp.conf import settings

if TYPE_CHECKING:
    from django.http import HttpRequest

    from django_mcp.server.server import MCPServer

__all__ = [
    "baseline_scopes",
    "connect",
    "find_default_resource",
    "find_server_of",
    "named_scopes",
    "needs_of",
    "takes_tokens_of",
]

NOT_OF_RESOURCES = frozenset({"offline_access"})
"""About refreshing, so no resource asks for it (2026-07-28 basic/authorization)."""


def _nowhere(_path: str) -> MCPServer | None:
    return None


def _without_path() -> str | None:
    return None


def _nobody(_server: MCPServer, _request: HttpRequest) -> Iterable[str]:
    return ()


_all_servers: Callable[[], Iterable[MCPServer]] = list
_find_server: Callable[[str], MCPServer | None] = _nowhere
_find_root_path: Callable[[], str | None] = _without_path
_find_issuers: Callable[[MCPServer, HttpRequest], Iterable[str]] = _nobody


def connect(
    *,
    all_servers: Callable[[], Iterable[MCPServer]],
    find_server: Callable[[str], MCPServer | None],
    find_root_path: Callable[[], str | None],
    find_issuers: Callable[[MCPServer, HttpRequest], Iterable[str]],
) -> None:
    """Say which servers there are, which a path leads to, where the root's is, whose tokens one takes."""
    global _all_servers, _find_server, _find_root_path, _find_issuers
    _all_servers, _find_server = all_servers, find_server
    _find_root_path, _find_issuers = find_root_path, find_issuers


def find_default_resource(request: HttpRequest) -> str | None:
    """Return the resource of clients that name none, as those of the oldest revisions do.

    It is the one that the metadata at the root is about.
    """
    path = _find_root_path()
    if path is None:
        return None
    return origin_of(request) + get_script_prefix().rstrip("/") + path.rstrip("/")


def find_server_of(resource: str, request: HttpRequest) -> MCPServer | None:
    """Return the server whose endpoint a resource indicator names; None: no server's."""
    canonical = canonical_uri(resource)
    start = origin_of(request) + get_script_prefix().rstrip("/")
    if canonical is None or not canonical.startswith(f"{start}/"):
        return None
    return _find_server(unquote(canonical.removeprefix(start)))


def takes_tokens_of(issuer: str, resource: str, request: HttpRequest) -> bool:
    """Return whether a resource indicator is exactly an endpoint that takes an issuer's tokens."""
    # Escapes are resolved on the way to a server, but not where a token's audience is compared.
    server = find_server_of(resource, request) if unquote(resource) == resource else None
    return server is not None and issuer in _find_issuers(server, request)


def named_scopes(server: MCPServer | None = None) -> list[str]:
    """Return the scopes that the entries of one server, or of all, name: sorted, each once."""
    servers = _all_servers() if server is None else [server]
    needed = (each.derived.requirements.scopes.values() for each in servers)
    found = set(chain.from_iterable(chain.from_iterable(needed)))
    return sorted(found - NOT_OF_RESOURCES)


def baseline_scopes(server: MCPServer) -> list[str]:
    """Return what clients of a server are told to ask for at first (RFC 9728 `scopes_supported`)."""
    chosen = settings.OAUTH_BASE_SCOPES
    if chosen is None:
        return named_scopes(server)
    return [scope for scope in chosen if scope not in NOT_OF_RESOURCES]


def needs_of(servers: Iterable[MCPServer], user: Any) -> Mapping[str, list[str]]:
    """Return which entries need each scope, as titles, of those that the user may see."""
    found: dict[str, list[str]] = {}
    for server in servers:
        offer = offer_to(user, server.derived.requirements)
        for entry in server.registry.entries():
            for scope in offer.scopes_of(entry) if offer.includes(entry) else ():
                found.setdefault(scope, []).append(str(entry.title or entry.name))
    return found
