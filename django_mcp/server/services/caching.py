"""How long a client may keep an answer, and whether others may be given the same.

An answer is `private` unless it is the same for everybody: what a hint says of it counts only then.
Source: 2026-07-28 server/utilities/caching.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django_mcp.protocol.results import CacheHint
from django_mcp.registry.entries import Entry

if TYPE_CHECKING:
    from django_mcp.server.exchange.call import Call
    from django_mcp.server.services.services import Services

__all__ = ["list_cache_fields", "read_cache_fields"]

_NO_CACHING = CacheHint()


def list_cache_fields(server: Services, call: Call, method: str) -> Mapping[str, Any]:
    """Return the caching fields of a list or of what is discovered; none before they were known."""
    if not call.rules.methods[call.method].is_cacheable:
        return {}
    # Texts in the language of the caller are not for others.
    is_alike = not server.derived.has_lazy_texts
    return _fields(server, call, call.options.list_cache.get(method), is_alike=is_alike)


def read_cache_fields(
    server: Services, call: Call, entry: Entry, own: CacheHint | None, hint: CacheHint | None
) -> Mapping[str, Any]:
    """Return the caching fields of what was read; none before they were known.

    Args:
        server: the server.
        call: the request.
        entry: what was read.
        own: what its handler says of this very answer; it knows whether it looked at the caller.
        hint: what was said when it was registered.
    """
    if not call.rules.methods[call.method].is_cacheable:
        return {}
    if call.is_resubmit:
        # It holds what this client answered.
        return _fields(server, call, None, is_alike=False)
    access = entry.access
    scopes = access.scopes or call.exchange.offer.scopes_of(entry)
    is_open = not (access.permission or scopes or access.check)
    is_alike = is_open and (own is not None or not entry.handler.injections)
    return _fields(server, call, own or hint, is_alike=is_alike)


def _fields(
    server: Services, call: Call, hint: CacheHint | None, *, is_alike: bool
) -> Mapping[str, Any]:
    hint = hint or _NO_CACHING
    is_public = (
        hint.scope == "public"
        and is_alike
        and server.is_public
        and call.exchange.offer.variant is None
    )
    return {"ttlMs": hint.ttl_ms, "cacheScope": "public" if is_public else "private"}
