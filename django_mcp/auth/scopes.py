"""The scopes that servers name, and those that a token covers if a broad one implies narrower ones.

Source: 2026-07-28 basic/authorization: servers honour hierarchies of scopes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import chain

from django_mcp.conf import settings
from django_mcp.process import reset_on
from django_mcp.server.server import BaseServer

NOT_OF_RESOURCES = frozenset({"offline_access"})
"""Scopes about refreshing, which no resource requires (2026-07-28 basic/authorization)."""


def named_scopes(servers: Iterable[BaseServer]) -> list[str]:
    """Return the scopes that the entries of servers name: sorted, each once."""
    needed = (server.engine.derived.requirements.scopes.values() for server in servers)
    scopes = set(chain.from_iterable(chain.from_iterable(needed)))
    return sorted(scopes - NOT_OF_RESOURCES)


def baseline_scopes(server: BaseServer) -> list[str]:
    """Return the scopes that clients of a server request at first (RFC 9728 `scopes_supported`)."""
    chosen = settings.OAUTH_BASE_SCOPES
    if chosen is None:
        return named_scopes([server])
    return [scope for scope in chosen if scope not in NOT_OF_RESOURCES]


def are_covered(wanted: Iterable[str], held: frozenset[str]) -> bool:
    """Return whether scopes cover all that are wanted, directly or by `SCOPE_IMPLIES`."""
    return held.issuperset(wanted) or expand_scopes(held).issuperset(wanted)


@lru_cache(maxsize=1024)
def expand_scopes(held: frozenset[str]) -> frozenset[str]:
    """Return scopes with all that they imply, also in several steps."""
    implied = settings.SCOPE_IMPLIES or {}
    expanded, waiting = set(held), list(held)
    while waiting:
        for scope in implied.get(waiting.pop(), ()):
            if scope not in expanded:
                expanded.add(scope)
                waiting.append(scope)
    return frozenset(expanded)


reset_on(expand_scopes.cache_clear, settings=("DJANGO_MCP",))
