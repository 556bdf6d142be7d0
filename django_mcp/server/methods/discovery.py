"""Methods that a client calls first: the handshake, `server/discover`, the lists, the log level and pings.

The response of a list depends on the revision, the language and the visible entries. It is cached,
encoded, until the registry or the options change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from django_mcp.protocol.byte_ranges import decode_cursor, encode_cursor
from django_mcp.protocol.errors import Refusal, invalid_params
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.levels import LOG_LEVELS
from django_mcp.protocol.revisions import lower
from django_mcp.registry.entries import Entry, ToolEntry
from django_mcp.server.exchange.caller import ANONYMOUS
from django_mcp.server.exchange.session import Session
from django_mcp.server.extension import Extension, ask
from django_mcp.server.ports import Today
from django_mcp.server.services import ServedCall
from django_mcp.server.setting import LIST_METHODS


async def initialize(call: ServedCall) -> bytes | Refusal:
    """Answer `initialize`. Source: 2025-11-25 basic/lifecycle "Initialization"."""
    server, revision = call.server, call.rules
    result: JSONObject = {
        "protocolVersion": revision.name,
        "capabilities": server.capabilities_for(
            revision, call.exchange, call.connection.client_info
        ),
        "serverInfo": server.implementation(revision),
        **_instructions(call, _find_today(call)),
    }
    return server.encode_result(result, revision)


def _find_today(call: ServedCall) -> Today | None:
    """Return the day that the instructions name, if they do."""
    ports = call.server.ports
    return ports.find_today(ports.clock()) if call.options.date_in_instructions else None


def _instructions(call: ServedCall, today: Today | None) -> JSONObject:
    texts = []
    visible = call.exchange.caller.visible
    # Those of the site are for the whole server, and may name what restricted credentials do not see.
    if call.options.instructions is not None and visible.allowed is None:
        texts.append(str(call.options.instructions))
    toolsets = _find_toolsets(call)
    if len(toolsets) > 1:
        how = _HOW_OVER_HTTP if call.exchange.headers is not None else _HOW_OVER_STDIO
        texts.append(f"Toolsets: {', '.join(toolsets)}. To see only some of them, {how}.")
    told = (ask(each, "find_instructions", None, call) for each in call.derived.instructing)
    texts += filter(None, told)
    if today is not None:
        texts.append(today.text)
    return {"instructions": "\n\n".join(texts)} if texts else {}


_HOW_OVER_HTTP = (
    "send their names in the header X-MCP-Toolsets, or add /x/ and their names to the address"
)
_HOW_OVER_STDIO = "start the server with --toolset"


def _find_toolsets(call: ServedCall) -> list[str]:
    """Return the toolsets that a client can ask for: those in which its principal sees something."""
    derived, visible = call.derived, call.exchange.caller.visible
    requirements = derived.requirements
    if len(requirements.all_toolsets) < 2:
        return []
    key = (visible.granted, visible.allowed)
    toolsets = derived.toolsets.get(key)
    if toolsets is None:
        if len(derived.toolsets) >= MAX_CACHED:
            derived.toolsets.clear()
        toolsets = derived.toolsets[key] = visible.find_toolsets(requirements)
    return toolsets


async def ping(call: ServedCall) -> bytes | Refusal:
    """Answer `ping`."""
    return call.server.encode_result({}, call.rules)


async def discover(call: ServedCall) -> bytes | Refusal:
    """Answer `server/discover`. Source: 2026-07-28 server/discover."""
    server, revision, today = call.server, call.rules, _find_today(call)
    result: JSONObject = {
        "supportedVersions": server.revisions.stateless_names,
        "capabilities": server.capabilities_for(
            revision, call.exchange, call.connection.client_info
        ),
        **_instructions(call, today),
        **server.list_cache_fields(call, today),
    }
    return server.encode_result(result, revision)


async def set_level(call: ServedCall) -> bytes | Refusal:
    """Answer `logging/setLevel`; it has no effect without a connection that lasts.

    Source: 2025-11-25 server/utilities/logging "Setting Log Level".
    """
    level = call.params.get("level")
    if type(level) is not str or level not in LOG_LEVELS:
        return invalid_params(f"level must be one of {', '.join(LOG_LEVELS)}")
    if isinstance(call.connection, Session):
        await call.server.ports.sessions.update(call.connection, {"log_level": level})
    else:
        call.connection.log_level = level
    return call.server.encode_result({}, call.rules)


MAX_CACHED = 256
"""Responses that are cached of each kind."""

MAX_NARROWED_BYTES = 8 * 1024 * 1024
"""Size of those to clients that narrow the server, of which anybody can ask for any number."""

INVALID_CURSOR = invalid_params("Invalid cursor: list again from the start")


async def list_entries(call: ServedCall) -> bytes | Refusal:
    """Answer one of the four list methods."""
    server = call.server
    after = None
    cursor = call.params.get("cursor")
    if cursor is not None:
        after = decode_cursor(cursor, call.method, server.ports.signer.unsign)
        if after is None:
            return INVALID_CURSOR
    derived = call.derived
    describing: Sequence[Extension] = ()
    if derived.describing:
        describing = tuple(
            extension for extension in derived.describing if extension.is_active(call)
        )
    # What an extension adds may be in any language.
    is_translated = derived.has_lazy_texts or describing
    key = (
        call.method,
        call.rules.name,
        after,
        server.ports.find_language() if is_translated else None,
        call.exchange.caller.visible.variant,
        describing,
    )
    caller = call.exchange.caller
    if caller.narrowing is None:
        cache = derived.lists
    else:
        cache = derived.narrowed_lists[caller.principal is not ANONYMOUS]
    encoded = cache.get(key)
    if encoded is None:
        result = _page(call, after, describing)
        if isinstance(result, Refusal):
            return result
        encoded = server.encode_result(result, call.rules)
        is_full = len(cache) >= MAX_CACHED
        if caller.narrowing is not None:
            kept_bytes = sum(map(len, list(cache.values())))
            is_full = is_full or kept_bytes + len(encoded) > MAX_NARROWED_BYTES
        if is_full:
            cache.clear()
        cache[key] = encoded
    return encoded


def _page(
    call: ServedCall, after: str | None, describing: Sequence[Extension]
) -> JSONObject | Refusal:
    server, result_key = call.server, LIST_METHODS[call.method]
    attribute = "templates" if result_key == "resourceTemplates" else result_key
    registered: Mapping[str, Entry] = getattr(server.registry, attribute)
    visible = [
        (key, entry)
        for key, entry in registered.items()
        if call.exchange.caller.visible.includes(entry)
        and (not isinstance(entry, ToolEntry) or entry.is_listed)
    ]
    if attribute == "tools" and any(tool.is_only_listed for tool in server.registry.tools.values()):
        visible = [each for each in visible if getattr(each[1], "is_only_listed", False)]
    start = 0
    if after is not None:
        start = next((number for number, (key, _) in enumerate(visible, 1) if key == after), 0)
        if start == 0:
            # It is no longer in the list.
            return INVALID_CURSOR
    size = server.options.page_size or len(visible)
    page = visible[start : start + size]
    result: JSONObject = {result_key: [_describe(call, entry, describing) for _, entry in page]}
    if start + size < len(visible):
        result["nextCursor"] = encode_cursor(call.method, page[-1][0], server.ports.signer.sign)
    result = lower(call.method, result, call.rules)
    return {**result, **server.list_cache_fields(call)}


def _describe(call: ServedCall, entry: Entry, describing: Sequence[Extension]) -> JSONObject:
    """Return an entry in wire form; a tool with the scopes that it needs, where ChatGPT looks for them."""
    scopes: tuple[str, ...] = ()
    if isinstance(entry, ToolEntry):
        wire = entry.with_output(call.options.output_schemas).to_wire(partial(_sees, call))
        scopes = call.exchange.caller.visible.scopes_of(entry)
    else:
        wire = entry.to_wire()
    if scopes:
        schemes = [{"type": "oauth2", "scopes": list(scopes)}]
        meta = {"securitySchemes": schemes, **wire.get("_meta", {})}
        wire = {**wire, "securitySchemes": schemes, "_meta": meta}
    for extension in describing:
        wire = _merge(wire, ask(extension, "describe", {}, entry, call.rules))
    return wire


def _sees(call: ServedCall, name: str) -> bool:
    """Return whether the caller sees a tool."""
    tool = call.server.registry.tools.get(name)
    return tool is not None and call.exchange.caller.visible.includes(tool)


def _merge(wire: JSONObject, fields: Mapping[str, Any]) -> JSONObject:
    """Return the wire form of an entry with the fields of an extension, which replace none."""
    fields = {
        name: value
        for name, value in fields.items()
        if name not in wire or name in ("_meta", "annotations")
    }
    merged = {**wire, **fields}
    for name in ("_meta", "annotations"):
        if name in fields and name in wire:
            merged[name] = {**wire[name], **fields[name]}
    return merged
