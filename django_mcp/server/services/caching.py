"""How long a client may keep an answer, and whether others may be given the same.

An answer is `private` unless it is the same for everybody: what a hint says of it counts only then.
Source: 2026-07-28 server/utilities/caching.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django_mcp.protocol.results import CacheHint
from django_mcp.registry import hints
from django_mcp.registry.entries import Entry
from django_mcp.registry.registry import Registry
from django_mcp.server.options import Options

if TYPE_CHECKING:
    from django_mcp.server.handlers.context import Context

__all__ = ["has_lazy_texts", "list_cache_fields", "read_cache_fields"]

_NO_CACHING = CacheHint()


def list_cache_fields(ctx: Context[Any], method: str) -> Mapping[str, Any]:
    """Return the caching fields of a list or of what is discovered; none before they were known."""
    if not ctx.rules.methods[ctx.method].is_cacheable:
        return {}
    # Texts in the language of the caller are not for others.
    is_alike = not ctx.server.derived.has_lazy_texts
    return _fields(ctx, ctx.options.list_cache.get(method), is_alike=is_alike)


def read_cache_fields(
    ctx: Context[Any], entry: Entry, own: CacheHint | None, hint: CacheHint | None
) -> Mapping[str, Any]:
    """Return the caching fields of what was read; none before they were known.

    Args:
        ctx: the request.
        entry: what was read.
        own: what its handler says of this very answer; it knows whether it looked at the caller.
        hint: what was said when it was registered.
    """
    if not ctx.rules.methods[ctx.method].is_cacheable:
        return {}
    if ctx.is_resubmit:
        # It holds what this client answered.
        return _fields(ctx, None, is_alike=False)
    access = entry.access
    scopes = access.scopes or ctx.exchange.offer.scopes_of(entry)
    is_open = not (access.permission or scopes or access.check)
    is_alike = is_open and (own is not None or not entry.handler.injections)
    return _fields(ctx, own or hint, is_alike=is_alike)


def _fields(ctx: Context[Any], hint: CacheHint | None, *, is_alike: bool) -> Mapping[str, Any]:
    hint = hint or _NO_CACHING
    server = ctx.server
    is_public = (
        hint.scope == "public"
        and is_alike
        and server.is_public
        and ctx.exchange.offer.variant is None
    )
    return {"ttlMs": hint.ttl_ms, "cacheScope": "public" if is_public else "private"}


def has_lazy_texts(registry: Registry, options: Options) -> bool:
    """Tell whether anything that is listed or discovered is translated for the caller."""
    texts = [options.title, options.description, options.instructions]
    for entry in _entries(registry):
        texts += (entry.title, entry.description)
    for tool in registry.tools.values():
        if tool.has_lazy_texts:
            return True
    for prompt in registry.prompts.values():
        for argument in prompt.arguments:
            texts += (argument.title, argument.description)
    return any(map(hints.is_lazy, texts))


def _entries(registry: Registry) -> list[Entry]:
    return [
        *registry.tools.values(),
        *registry.resources.values(),
        *registry.templates.values(),
        *registry.prompts.values(),
    ]
