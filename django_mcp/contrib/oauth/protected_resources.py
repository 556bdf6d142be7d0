"""The protected resources of this site: its MCP servers, with the scopes of their entries.

It imports nothing of django-oauth-toolkit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from django.urls import get_script_prefix

from django_mcp.auth.addresses import canonical_uri, origin_of
from django_mcp.auth.permissions import visible_to
from django_mcp.endpoints.well_known import Endpoint, endpoint_at_path, find_issuers, find_root_path
from django_mcp.registry.entries import Entry, ToolEntry

if TYPE_CHECKING:
    from django.http import HttpRequest


def find_default_resource(request: HttpRequest) -> str | None:
    """Return the resource of clients that name none, as those of the oldest revisions do.

    It is the one in the metadata at the root.
    """
    path = find_root_path()
    if path is None:
        return None
    return origin_of(request) + get_script_prefix().rstrip("/") + path.rstrip("/")


def find_endpoint(resource: str, request: HttpRequest) -> Endpoint | None:
    """Return the endpoint that a resource indicator names, or None."""
    canonical = canonical_uri(resource)
    start = origin_of(request) + get_script_prefix().rstrip("/")
    if canonical is None or not canonical.startswith(f"{start}/"):
        return None
    return endpoint_at_path(unquote(canonical.removeprefix(start)))


def takes_tokens_of(issuer: str, resource: str, request: HttpRequest) -> bool:
    """Return whether a resource indicator is exactly an endpoint that accepts an issuer's tokens."""
    # A URL's escapes are resolved before a server, but not when a token's audience is compared.
    endpoint = find_endpoint(resource, request) if unquote(resource) == resource else None
    return endpoint is not None and issuer in find_issuers(endpoint.server, request)


def needs_of(endpoints: Iterable[Endpoint], user: Any) -> Mapping[str, list[str]]:
    """Return the titles of the entries of endpoints that a user can see and that need each scope."""
    needs: dict[str, list[str]] = {}
    for entry, scopes in _find_visible(endpoints, user):
        for scope in scopes:
            needs.setdefault(scope, []).append(str(entry.title or entry.name))
    return needs


def count_tools_without_scope(endpoints: Iterable[Endpoint], user: Any) -> int:
    """Return how many visible tools every token may call."""
    entries = _find_visible(endpoints, user)
    return sum(isinstance(entry, ToolEntry) and not scopes for entry, scopes in entries)


def _find_visible(
    endpoints: Iterable[Endpoint], user: Any
) -> Iterator[tuple[Entry, tuple[str, ...]]]:
    for server, narrowing in endpoints:
        requirements = server.engine.derived.requirements
        visible = visible_to(user, requirements)
        if narrowing is not None:
            visible = visible.narrowed(requirements, narrowing)
        for entry in server.registry.entries():
            if visible.includes(entry):
                yield entry, visible.scopes_of(entry)
