"""Send change notifications to the client of a pipe."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from django_mcp.server.streams.stream import LISTS, Change, Ending, PushStream, StreamKind

if TYPE_CHECKING:
    from django_mcp.server.exchange.exchange import Exchange, Sink
    from django_mcp.server.server import MCPServer

__all__ = ["ChangeNotifier"]

_FINAL = frozenset({Ending.CLOSED, Ending.PRINCIPAL})
"""Reasons that end the connection, since a client cannot reconnect to a pipe."""


class ChangeNotifier:
    """Keeps the one stream of a pipe whose connection is initialized.

    A client that reads too slowly misses changes. Once it reads again, it is notified of everything
    that may have changed, because it cannot open another stream.

    Args:
        server: the server whose changes are sent.
        exchange: that of the client, which determines what it may see.
        sink: the pipe.
        wait_for_room: waits until the client has read what was written.
        close: ends the connection.
    """

    def __init__(
        self,
        server: MCPServer,
        exchange: Exchange,
        sink: Sink,
        wait_for_room: Callable[[], Awaitable[None]],
        close: Callable[[], None],
    ) -> None:
        self._server = server
        self._exchange = exchange
        self._sink = sink
        self._wait_for_room = wait_for_room
        self._close = close
        self._task = asyncio.get_running_loop().create_task(self._run(self._open(set())))

    def set_principal(self, principal: Any) -> None:
        """Replace the principal of the stream."""
        self._exchange.principal = principal
        stream = self._stream
        if stream is not None:
            stream.principal = principal

    def end(self) -> None:
        """Stop sending notifications."""
        self._task.cancel()
        stream = self._stream
        if stream is not None:
            stream.end(Ending.CLIENT)

    @property
    def _stream(self) -> PushStream | None:
        connection = self._exchange.connection
        stream_id = None if connection is None else connection.stream_id
        return None if stream_id is None else self._server.hub.streams.get(stream_id)

    def _subscriptions(self) -> set[str]:
        connection = self._exchange.connection
        return set() if connection is None else connection.subscriptions or set()

    def _open(self, uris: set[str]) -> PushStream:
        server, exchange, connection = self._server, self._exchange, self._exchange.connection
        if connection is None or connection.revision is None:
            raise ValueError("the connection is not initialized")
        stream = PushStream(
            kind=StreamKind.STDIO,
            server_name=server.name,
            sink=self._sink,
            principal=exchange.principal,
            uris=uris,
            client_info=connection.client_info,
            revision_name=connection.revision.name,
        )
        stream.exchange = exchange
        # It lasts as long as the pipe.
        stream.closes_s = math.inf
        connection.stream_id = stream.id
        connection.subscriptions = uris
        server.join_hub().attach(stream)
        server.connection_observer.stream_opened(stream)
        return stream

    async def _run(self, stream: PushStream) -> None:
        while True:
            reason = Ending.CLIENT
            try:
                reason = await stream.run()
            finally:
                self._server.hub.detach(stream)
                self._server.connection_observer.stream_closed(stream, reason.value)
            if reason in _FINAL:
                self._close()
            if reason is not Ending.SLOW:
                return
            await self._wait_for_room()
            stream = self._open(self._subscriptions())
            self._notify_all(stream)

    def _notify_all(self, stream: PushStream) -> None:
        features, name = self._server.features(self._exchange), self._server.name
        changes = [Change(server=name, list=each) for each in LISTS if each in features]
        changes += [Change(server=name, uri=uri) for uri in sorted(stream.uris)]
        for change in changes:
            stream.tell(change)
