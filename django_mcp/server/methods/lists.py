"""The four list methods: the entries that the principal can see, page by page.

A response depends on the revision, the language and the visible entries. It is cached, encoded,
until the registry or the options change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django_mcp.protocol import cursor
from django_mcp.protocol.errors import Refusal, invalid_params
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.revisions import lower
from django_mcp.protocol.tasks import NEVER, SUPPORT
from django_mcp.registry.entries import Entry, ToolEntry
from django_mcp.server.handlers.context import Context
from django_mcp.server.setting import LIST_METHODS

_ATTRIBUTES = {
    "tools": "tools",
    "resources": "resources",
    "resourceTemplates": "templates",
    "prompts": "prompts",
}
"""The attribute of the registry that holds the entries of a list, by their key in its result."""

INVALID_CURSOR = invalid_params("Invalid cursor: list again from the start")

MAX_CACHED = 256
"""Responses that are cached. Our own limit."""


async def list_entries(ctx: Context[Any]) -> bytes | Refusal:
    """Answer one of the four list methods."""
    server = ctx.server
    after = None
    if "cursor" in ctx.params:
        after = cursor.decode(ctx.params["cursor"], ctx.method, server.sealer.unseal)
        if after is None:
            return INVALID_CURSOR
    key = (
        ctx.method,
        ctx.revision,
        after,
        server.find_language(),
        ctx.exchange.visible.variant,
    )
    cache = server.derived.lists
    encoded = cache.get(key)
    if encoded is None:
        result = _page(ctx, after)
        if isinstance(result, Refusal):
            return result
        if len(cache) >= MAX_CACHED:
            cache.clear()
        encoded = cache[key] = server.encode_result(result, ctx.rules)
    return encoded


def _page(ctx: Context[Any], after: str | None) -> JSONObject | Refusal:
    server, result_key = ctx.server, LIST_METHODS[ctx.method]
    registered: Mapping[str, Entry] = getattr(server.registry, _ATTRIBUTES[result_key])
    visible = [
        (key, entry) for key, entry in registered.items() if ctx.exchange.visible.includes(entry)
    ]
    start = 0
    if after is not None:
        start = next((number for number, (key, _) in enumerate(visible, 1) if key == after), 0)
        if start == 0:
            # It is no longer in the list.
            return INVALID_CURSOR
    size = server.options.page_size or len(visible)
    page = visible[start : start + size]
    result: JSONObject = {result_key: [entry.to_wire() for _, entry in page]}
    if ctx.rules.tasks is not None and ctx.rules.tasks.by_client:
        for wire, (_, entry) in zip(result[result_key], page, strict=True):
            if isinstance(entry, ToolEntry) and entry.task != NEVER:
                wire["execution"] = {"taskSupport": SUPPORT[entry.task]}
    if start + size < len(visible):
        result["nextCursor"] = cursor.encode(ctx.method, page[-1][0], server.sealer.seal)
    result = lower(ctx.method, result, ctx.rules)
    return {**result, **server.list_cache_fields(ctx)}
