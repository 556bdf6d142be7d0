"""Which scopes a token covers, where a broad one stands for narrower ones.

Source: 2026-07-28 basic/authorization: servers honour hierarchies of scopes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from django.core.signals import setting_changed

from django_mcp.conf import settings

__all__ = ["are_covered", "expand_scopes"]


def are_covered(wanted: Iterable[str], held: frozenset[str]) -> bool:
    """Tell whether scopes stand for all that are wanted, by themselves or by `SCOPE_IMPLIES`."""
    return held.issuperset(wanted) or expand_scopes(held).issuperset(wanted)


@lru_cache(maxsize=1024)
def expand_scopes(held: frozenset[str]) -> frozenset[str]:
    """Return scopes with all that they imply, also in several steps."""
    implied = settings.SCOPE_IMPLIES or {}
    found, waiting = set(held), list(held)
    while waiting:
        for scope in implied.get(waiting.pop(), ()):
            if scope not in found:
                found.add(scope)
                waiting.append(scope)
    return frozenset(found)


def _forget(*, setting: str, **_kwargs: object) -> None:
    if setting == "DJANGO_MCP":
        expand_scopes.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_mcp.auth.scopes")
