"""How long a client may cache a result, and whether it may be shared.

A hint can make a result `public` only if it is the same for everybody.
Source: 2026-07-28 server/utilities/caching.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django_mcp.protocol.results import CacheHint
from django_mcp.registry.entries import ResourceEntry, TemplateEntry
from django_mcp.server.exchange.call import Call
from django_mcp.server.services.services import Services

_NO_CACHING = CacheHint()


def list_cache_fields(server: Services, call: Call) -> Mapping[str, Any]:
    """Return the caching fields of a list or of `server/discover`, if the revision has them."""
    if not call.rules.methods[call.method].is_cacheable:
        return {}
    # Texts in the language of the caller are not for others.
    is_alike = not server.derived.has_lazy_texts
    return _fields(server, call, call.options.list_cache.get(call.method), is_alike=is_alike)


def read_cache_fields(
    server: Services, call: Call, entry: ResourceEntry | TemplateEntry, own: CacheHint | None
) -> Mapping[str, Any]:
    """Return the caching fields of a read resource, if the revision has them.

    Args:
        own: the handler's hint for this result; the handler knows whether it depends on the caller.
    """
    if not call.rules.methods[call.method].is_cacheable:
        return {}
    if call.is_resubmit:
        # It may contain the client's answers.
        return _fields(server, call, None, is_alike=False)
    access = entry.access
    scopes = access.scopes or call.exchange.visible.scopes_of(entry)
    is_open = not (access.permission or access.listed_if or scopes or access.check)
    is_alike = is_open and (own is not None or not entry.handler.injections)
    return _fields(server, call, own or entry.cache, is_alike=is_alike)


def _fields(
    server: Services, call: Call, hint: CacheHint | None, *, is_alike: bool
) -> Mapping[str, Any]:
    hint = hint or _NO_CACHING
    is_public = (
        hint.scope == "public"
        and is_alike
        and server.is_public
        and call.exchange.visible.variant is None
    )
    return {"ttlMs": hint.ttl_ms, "cacheScope": "public" if is_public else "private"}
