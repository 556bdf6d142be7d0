"""Send change notifications to the client of a pipe."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django_mcp.protocol.records import Record
from django_mcp.server.delivery.client_streams import run_stream
from django_mcp.server.streams.stream import Change, Ending, PushStream, StreamKind
from django_mcp.server.streams.upkeep import notify_lists

if TYPE_CHECKING:
    from django_mcp.protocol.revisions import Revision
    from django_mcp.server.exchange.connection import ConnectionState
    from django_mcp.server.exchange.exchange import Exchange
    from django_mcp.server.server import MCPServer
    from django_mcp.transports.stdio.pipes import LineWriter

_FINAL = frozenset({Ending.CLOSED, Ending.PRINCIPAL})
"""Reasons that end the connection, since a client cannot reconnect to a pipe."""


class ChangeNotifier(Record):
    """Keeps the one stream of a pipe whose connection is initialized.

    A client that reads too slowly misses changes. Once it reads again, it is notified of everything
    that may have changed, because it cannot open another stream.

    Args:
        server: the server whose changes are sent.
        exchange: that of the client, which determines what it may see.
        connection, revision: of the client.
        close: ends the connection.
    """

    _server: MCPServer
    _exchange: Exchange
    _connection: ConnectionState
    _revision: Revision
    _writer: LineWriter
    _close: Callable[[], None]
    _stream: PushStream | None = None
    _task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def set_principal(self, principal: Any) -> None:
        """Replace the principal of the stream."""
        self._exchange.principal = principal
        if self._stream is not None:
            self._stream.principal = principal

    def end(self) -> None:
        """Stop sending notifications."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        stream = self._make_stream()
        while True:
            reason = await run_stream(self._server, self._exchange, stream)
            if reason in _FINAL:
                self._close()
            if reason is not Ending.SLOW:
                return
            await self._writer.wait_until_empty()
            stream = self._make_stream()
            self._notify_all(stream)

    def _make_stream(self) -> PushStream:
        connection = self._connection
        stream = self._stream = PushStream(
            kind=StreamKind.STDIO,
            server_name=self._server.name,
            sink=self._writer,
            principal=self._exchange.principal,
            uris=set(connection.subscriptions or ()),
            client_info=connection.client_info,
            revision_name=self._revision.name,
            # It lasts as long as the pipe.
            closes_s=math.inf,
        )
        connection.stream_id = stream.id
        return stream

    def _notify_all(self, stream: PushStream) -> None:
        notify_lists(self._server.features(self._exchange), stream)
        for uri in sorted(stream.uris):
            stream.notify(Change(server=self._server.name, uri=uri))
