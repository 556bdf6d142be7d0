"""The four lists: what is offered to this principal, page by page.

An answer depends on the revision, the language and what the principal may see; it is kept encoded
until the registry or the options change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django_mcp.protocol import cursor
from django_mcp.protocol.errors import INVALID_PARAMS, Refusal
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.revisions import lower
from django_mcp.protocol.tasks import NEVER, SUPPORT
from django_mcp.registry.entries import Entry, ToolEntry
from django_mcp.server.services.caching import list_cache_fields

if TYPE_CHECKING:
    from django_mcp.server.handlers.context import Context


@dataclass(frozen=True, kw_only=True, slots=True)
class ListKind:
    """One of the lists: its method, and the attribute of the registry that holds its entries."""

    method: str
    attribute: str
    result_key: str


_TOOLS = ListKind(method="tools/list", attribute="tools", result_key="tools")
_RESOURCES = ListKind(method="resources/list", attribute="resources", result_key="resources")
_TEMPLATES = ListKind(
    method="resources/templates/list", attribute="templates", result_key="resourceTemplates"
)
_PROMPTS = ListKind(method="prompts/list", attribute="prompts", result_key="prompts")


async def list_tools(ctx: Context[Any]) -> bytes | Refusal:
    """Answer `tools/list`."""
    return _list(ctx, _TOOLS)


async def list_resources(ctx: Context[Any]) -> bytes | Refusal:
    """Answer `resources/list`."""
    return _list(ctx, _RESOURCES)


async def list_templates(ctx: Context[Any]) -> bytes | Refusal:
    """Answer `resources/templates/list`."""
    return _list(ctx, _TEMPLATES)


async def list_prompts(ctx: Context[Any]) -> bytes | Refusal:
    """Answer `prompts/list`."""
    return _list(ctx, _PROMPTS)


def _list(ctx: Context[Any], kind: ListKind) -> bytes | Refusal:
    server = ctx.server
    after = None
    if "cursor" in ctx.params:
        after = cursor.decode(ctx.params["cursor"], kind.method, server.sealer.unseal)
        if after is None:
            return _invalid_cursor()
    key = (
        kind.method,
        ctx.revision,
        after,
        server.language.current(),
        ctx.exchange.offer.variant,
    )
    cache = server.list_cache()
    encoded = cache.get(key)
    if encoded is None:
        result = _page(ctx, kind, after)
        if isinstance(result, Refusal):
            return result
        encoded = server.encode_result(result, ctx.rules)
        cache.put(key, encoded)
    return encoded


def _page(ctx: Context[Any], kind: ListKind, after: str | None) -> JSONObject | Refusal:
    server = ctx.server
    offer = ctx.exchange.offer
    registered: Mapping[str, Entry] = getattr(server.registry, kind.attribute)
    visible = [(key, entry) for key, entry in registered.items() if offer.includes(entry)]
    start = 0
    if after is not None:
        start = _position_after(after, (key for key, _ in visible))
        if start == 0:
            return _invalid_cursor()
    size = server.options.page_size or len(visible)
    page = visible[start : start + size]
    result: JSONObject = {kind.result_key: [entry.to_wire() for _, entry in page]}
    if ctx.rules.tasks is not None and ctx.rules.tasks.by_client:
        _tell_tasks(result[kind.result_key], page)
    if start + size < len(visible):
        result["nextCursor"] = cursor.encode(kind.method, page[-1][0], server.sealer.seal)
    result = lower(kind.method, result, ctx.rules)
    return {**result, **list_cache_fields(ctx.server, ctx, kind.method)}


def _tell_tasks(wires: list[JSONObject], page: Iterable[tuple[str, Entry]]) -> None:
    """Say of each tool whether its call can be made a task."""
    for wire, (_, entry) in zip(wires, page, strict=True):
        if isinstance(entry, ToolEntry) and entry.task != NEVER:
            wire["execution"] = {"taskSupport": SUPPORT[entry.task]}


def _position_after(last: str, keys: Iterable[str]) -> int:
    """Return the index behind `last`; 0 when it is gone, and with it our place in the list."""
    for index, key in enumerate(keys):
        if key == last:
            return index + 1
    return 0


def _invalid_cursor() -> Refusal:
    return Refusal(code=INVALID_PARAMS, message="Invalid cursor: list again from the start")
