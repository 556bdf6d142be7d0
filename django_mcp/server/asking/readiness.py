"""Wait until a client has said that its handshake is over: it is asked nothing before."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from django_mcp.protocol.asks import Ask
from django_mcp.server.exchange.connection import ConnectionState, Session
from django_mcp.server.exchange.rounds import CannotAsk
from django_mcp.server.services.ports import SessionStore

WITHIN_S = 3.0
"""How long `initialized` may take that was sent before the call, or at its side. Our own limit."""

POLL_S = 0.2


async def await_initialized(
    connection: ConnectionState, store: SessionStore, asks: Mapping[str, Ask]
) -> None:
    """Return as soon as a client may be asked something.

    The notification travels by itself: it may come after the call, or to another process.

    Raises:
        CannotAsk: it has not come.

    Source: 2025-11-25 basic/lifecycle "Initialization": pings and log messages only before it.
    """
    if connection.is_initialized:
        return
    try:
        async with asyncio.timeout(WITHIN_S):
            while not await _is_initialized(connection, store):  # noqa: ASYNC110 - by anybody
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise CannotAsk(
            "This needs to ask you something, and a client can be asked only when it has sent "
            "notifications/initialized.",
            next((ask.capability for ask in asks.values()), {}),
        ) from None


async def _is_initialized(connection: ConnectionState, store: SessionStore) -> bool:
    if isinstance(connection, Session) and not connection.is_initialized:
        # Reading it again brings the object up to date.
        await store.get(connection.key)
    return connection.is_initialized
