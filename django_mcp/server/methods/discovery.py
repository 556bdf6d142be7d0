"""What a client asks before it calls anything: the handshake, `server/discover`, the lists, the log level and pings.

The response of a list depends on the revision, the language and the visible entries. It is cached,
encoded, until the registry or the options change.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping

from django_mcp.protocol.errors import FAULT, Refusal, invalid_params
from django_mcp.protocol.headers import SESSION_ID
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.levels import LOG_LEVELS
from django_mcp.protocol.parts import decode_cursor, encode_cursor
from django_mcp.protocol.revisions import lower
from django_mcp.protocol.tasks import NEVER, SUPPORT
from django_mcp.registry.entries import Entry, ToolEntry
from django_mcp.server.exchange.connection import ConnectionState, Session
from django_mcp.server.exchange.exchange import Reply, key_of
from django_mcp.server.handlers.context import Context
from django_mcp.server.services.ports import StoreUnavailable
from django_mcp.server.setting import LIST_METHODS

logger = logging.getLogger("django_mcp")


async def initialize(ctx: Context) -> bytes | Refusal:
    """Answer `initialize`. Source: 2025-11-25 basic/lifecycle "Initialization"."""
    server, revision = ctx.server, ctx.rules
    result: JSONObject = {
        "protocolVersion": revision.name,
        "capabilities": server.capabilities_for(revision, ctx.exchange),
        "serverInfo": server.implementation(revision),
        **_instructions(ctx),
    }
    return server.encode_result(result, revision)


def _instructions(ctx: Context) -> JSONObject:
    found = ctx.options.instructions
    return {} if found is None else {"instructions": str(found)}


async def complete_handshake(ctx: Context, reply: Reply) -> Reply | Refusal:
    """Store what an `initialize` has settled; return the reply, with the id of a new session."""
    kept = ctx.exchange.connection
    try:
        if kept is not None:
            await _store(ctx, kept)
        elif ctx.exchange.headers is not None and ctx.server.keeps_sessions:
            return await _open_session(ctx, reply)
    except StoreUnavailable as error:
        return error.to_refusal()
    except Exception:
        logger.exception("Could not answer %s", ctx.method)
        return FAULT
    return reply


async def _open_session(ctx: Context, reply: Reply) -> Reply | Refusal:
    server, exchange = ctx.server, ctx.exchange
    principal_key = key_of(exchange.principal)
    session = Session.of(uuid.uuid4().hex, server.name, principal_key, ctx.connection)
    token = await server.sessions.open(session, exchange)
    if isinstance(token, Refusal):
        return token
    if not exchange.is_buffered:
        # The hub ends sessions that expire.
        server.join_hub()
    server.connection_observer.session_opened(session)
    reply.headers = ((SESSION_ID.encode(), token.encode()),)
    return reply


async def _store(ctx: Context, kept: ConnectionState) -> None:
    settled = ctx.connection.settled()
    if not isinstance(kept, Session):
        kept.update(settled)
        return
    # HTTP+SSE opens the session and its stream before the handshake.
    for stream in ctx.server.hub.streams_of(kept.key):
        stream.client_info, stream.revision_name = ctx.client_info, ctx.revision
    await ctx.server.sessions.update(kept, settled)


async def ping(ctx: Context) -> bytes | Refusal:
    """Answer `ping`."""
    return ctx.server.encode_result({}, ctx.rules)


async def discover(ctx: Context) -> bytes | Refusal:
    """Answer `server/discover`. Source: 2026-07-28 server/discover."""
    server, revision = ctx.server, ctx.rules
    result: JSONObject = {
        "supportedVersions": server.revisions.stateless_names,
        "capabilities": server.capabilities_for(revision, ctx.exchange),
        **_instructions(ctx),
        **server.list_cache_fields(ctx),
    }
    return server.encode_result(result, revision)


async def set_level(ctx: Context) -> bytes | Refusal:
    """Answer `logging/setLevel`; it has no effect without a connection that lasts.

    Source: 2025-11-25 server/utilities/logging "Setting Log Level".
    """
    level = ctx.params.get("level")
    if type(level) is not str or level not in LOG_LEVELS:
        return invalid_params(f"level must be one of {', '.join(LOG_LEVELS)}")
    changes = {"log_level": level}
    if isinstance(ctx.connection, Session):
        await ctx.server.sessions.update(ctx.connection, changes)
    else:
        ctx.connection.update(changes)
    return ctx.server.encode_result({}, ctx.rules)


INVALID_CURSOR = invalid_params("Invalid cursor: list again from the start")

MAX_CACHED = 256
"""Responses that are cached. Our own limit."""


async def list_entries(ctx: Context) -> bytes | Refusal:
    """Answer one of the four list methods."""
    server = ctx.server
    after = None
    if "cursor" in ctx.params:
        after = decode_cursor(ctx.params["cursor"], ctx.method, server.sealer.unseal)
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


def _page(ctx: Context, after: str | None) -> JSONObject | Refusal:
    server, result_key = ctx.server, LIST_METHODS[ctx.method]
    attribute = "templates" if result_key == "resourceTemplates" else result_key
    registered: Mapping[str, Entry] = getattr(server.registry, attribute)
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
        result["nextCursor"] = encode_cursor(ctx.method, page[-1][0], server.sealer.seal)
    result = lower(ctx.method, result, ctx.rules)
    return {**result, **server.list_cache_fields(ctx)}
