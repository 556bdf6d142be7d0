"""`logging/setLevel`: the lowest level of the log messages that a client receives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mcp.protocol.errors import INVALID_PARAMS, Refusal
from django_mcp.protocol.levels import LOG_LEVELS
from django_mcp.server.exchange.connection import Session

if TYPE_CHECKING:
    from django_mcp.server.handlers.context import Context


async def set_level(ctx: Context[Any]) -> bytes | Refusal:
    """Keep the level on the connection; without one that lasts, it is accepted and forgotten.

    Source: 2025-11-25 server/utilities/logging "Setting Log Level".
    """
    level = ctx.params.get("level")
    if type(level) is not str or level not in LOG_LEVELS:
        return Refusal(code=INVALID_PARAMS, message=f"level must be one of {', '.join(LOG_LEVELS)}")
    ctx.connection.log_level = level
    if isinstance(ctx.connection, Session):
        await ctx.server.sessions.save(ctx.connection)
    return ctx.server.encode_result({}, ctx.rules)
