"""`initialize`, `ping`, `server/discover` and `logging/setLevel`."""

from __future__ import annotations

import logging
import uuid
from typing import Any

from django_mcp.protocol.errors import FAULT, Refusal, invalid_params
from django_mcp.protocol.headers import SESSION_ID
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.levels import LOG_LEVELS
from django_mcp.server.exchange.connection import ConnectionState, Session
from django_mcp.server.exchange.exchange import Reply, key_of
from django_mcp.server.handlers.context import Context
from django_mcp.server.services.ports import StoreUnavailable

logger = logging.getLogger("django_mcp")


async def initialize(ctx: Context[Any]) -> bytes | Refusal:
    """Answer `initialize`. Source: 2025-11-25 basic/lifecycle "Initialization"."""
    server, revision = ctx.server, ctx.rules
    result: JSONObject = {
        "protocolVersion": revision.name,
        "capabilities": server.capabilities_for(revision, ctx.exchange),
        "serverInfo": server.implementation(revision),
        **_instructions(ctx),
    }
    return server.encode_result(result, revision)


def _instructions(ctx: Context[Any]) -> JSONObject:
    found = ctx.options.instructions
    return {} if found is None else {"instructions": str(found)}


async def complete_handshake(ctx: Context[Any], reply: Reply) -> Reply | Refusal:
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


async def _open_session(ctx: Context[Any], reply: Reply) -> Reply | Refusal:
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


async def _store(ctx: Context[Any], kept: ConnectionState) -> None:
    settled = ctx.connection.settled()
    if not isinstance(kept, Session):
        kept.update(settled)
        return
    # HTTP+SSE opens the session and its stream before the handshake.
    for stream in ctx.server.hub.streams_of(kept.key):
        stream.client_info, stream.revision_name = ctx.client_info, ctx.revision
    await ctx.server.sessions.update(kept, settled)


async def ping(ctx: Context[Any]) -> bytes | Refusal:
    """Answer `ping`."""
    return ctx.server.encode_result({}, ctx.rules)


async def discover(ctx: Context[Any]) -> bytes | Refusal:
    """Answer `server/discover`. Source: 2026-07-28 server/discover."""
    server, revision = ctx.server, ctx.rules
    result: JSONObject = {
        "supportedVersions": server.revisions.stateless_names,
        "capabilities": server.capabilities_for(revision, ctx.exchange),
        **_instructions(ctx),
        **server.list_cache_fields(ctx),
    }
    return server.encode_result(result, revision)


async def set_level(ctx: Context[Any]) -> bytes | Refusal:
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
