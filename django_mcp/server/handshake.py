"""The end of a handshake: what it settled is written where it outlives the request."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING, Any

from django_mcp.protocol.errors import FAULT, Refusal
from django_mcp.protocol.headers import SESSION_ID
from django_mcp.server.exchange.connection import ConnectionState, Session
from django_mcp.server.exchange.exchange import Reply
from django_mcp.server.services.ports import StoreUnavailable
from django_mcp.server.services.session_lookup import NO_STORE

if TYPE_CHECKING:
    from django_mcp.server.handlers.context import Context

logger = logging.getLogger("django_mcp")


async def complete_handshake(ctx: Context[Any], reply: Reply) -> Reply | Refusal:
    """Return the reply to an `initialize`, with the id of the session where it opens one.

    Or why the handshake failed: what it settled could not be kept.
    """
    kept = ctx.exchange.connection
    try:
        if kept is not None:
            await _settle(ctx, kept)
        elif ctx.exchange.headers is not None and ctx.server.keeps_sessions:
            return await _open_session(ctx, reply)
    except StoreUnavailable:
        return NO_STORE
    except Exception:
        logger.exception("Could not answer %s", ctx.method)
        return FAULT
    return reply


async def _open_session(ctx: Context[Any], reply: Reply) -> Reply | Refusal:
    server, exchange = ctx.server, ctx.exchange
    principal_key = getattr(exchange.principal, "key", None)
    session = Session.of(uuid.uuid4().hex, server.name, principal_key, ctx.connection)
    token = await server.sessions.open(session, exchange)
    if isinstance(token, Refusal):
        return token
    if not exchange.is_buffered:
        # It looks after what is never heard of again.
        server.join_hub()
    server.connection_observer.session_opened(session)
    reply.headers = ((SESSION_ID.encode(), token.encode()),)
    return reply


async def _settle(ctx: Context[Any], kept: ConnectionState) -> None:
    settled = ctx.connection
    kept.revision = settled.revision
    kept.client_info = settled.client_info
    kept.client_capabilities = settled.client_capabilities
    kept.log_level = settled.log_level
    if isinstance(kept, Session):
        # It was opened by its stream, before anything was known of the client.
        for stream in ctx.server.hub.streams_of(kept.key):
            stream.client_info, stream.revision_name = kept.client_info, ctx.revision
        await ctx.server.sessions.settle(kept)
