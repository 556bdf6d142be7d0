"""Serve one client on the pipes of this process: every line an exchange, all of them at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from django_mcp.protocol.errors import INVALID_REQUEST, Refusal
from django_mcp.protocol.messages import encode_error
from django_mcp.server.connection import ConnectionState
from django_mcp.server.exchange import ANONYMOUS, Exchange
from django_mcp.server.push import Ending, PushStream, StreamKind
from django_mcp.transports.stdio.pipes import LineReader, LineWriter, TooLong

if TYPE_CHECKING:
    from django_mcp.server.server import MCPServer

__all__ = ["LineSink", "serve"]

logger = logging.getLogger("django_mcp")

FINISH_S = 2.0
"""How long calls may go on after the end of input, and output be written. Ours."""

MAX_RUNNING = 4096
"""Exchanges that run at once; further lines wait to be read."""


class LineSink:
    """A `Sink` on the one pipe there is: messages of all exchanges go the same way."""

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer

    async def send(self, message: bytes, event_id: str | None = None) -> None:
        """See `Sink.send`; a pipe has no events."""
        await self._writer.write(message)

    async def prime(self, event_id: str | None) -> None:
        """See `Sink.prime`: there is nothing to open."""

    async def hang_up(self, retry_ms: int) -> None:
        """See `Sink.hang_up`: the pipe is not closed before its end."""


class Pipe:
    """One client's connection, from its first line to its last."""

    def __init__(
        self,
        server: MCPServer,
        reader: LineReader,
        writer: LineWriter,
        find_principal: Callable[[], Awaitable[Any]] | None,
    ) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer
        self._sink = LineSink(writer)
        self._find_principal = find_principal
        self._connection = ConnectionState()
        self._connection.data = {}
        self._running: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(MAX_RUNNING)
        self._principal: Any = ANONYMOUS

    async def run(self) -> None:
        """Answer lines until there are no more, or the client has gone."""
        gone = asyncio.ensure_future(self._writer.broken.wait())
        reading = asyncio.ensure_future(self._read())
        try:
            await asyncio.wait((gone, reading), return_when=asyncio.FIRST_COMPLETED)
            if self._running and not self._writer.is_broken:
                await asyncio.wait(self._running, timeout=FINISH_S)
        finally:
            for task in (gone, reading, *self._running):
                task.cancel()
            self._end_stream()
            await asyncio.gather(gone, reading, *self._running, return_exceptions=True)
            await self._writer.flush(FINISH_S)

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            line = await self._reader.next()
            if line is None:
                return
            await self._slots.acquire()
            task = loop.create_task(self._serve(line))
            self._running.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._slots.release()

    async def _serve(self, line: bytes | type[TooLong]) -> None:
        try:
            answer = await self._answer(line)
            if answer is not None:
                await self._writer.write(answer)
            self._begin_stream()
        except Exception:
            logger.exception("Could not serve a line")

    async def _answer(self, line: bytes | type[TooLong]) -> bytes | None:
        if isinstance(line, type):
            limit = self._server.options.max_body_bytes
            message = f"The line is too long: at most {limit} bytes are read"
            return encode_error(None, Refusal(code=INVALID_REQUEST, message=message))
        if self._find_principal is not None:
            self._principal = await self._find_principal()
        exchange = Exchange(
            body=line,
            connection=self._connection,
            sink=self._sink,
            can_stream=True,
            principal=self._principal,
        )
        return (await self._server.answer(exchange)).body

    def _begin_stream(self) -> None:
        """Tell of changes from now on, once a handshake has settled that the client hears of them."""
        connection, server = self._connection, self._server
        revision = connection.revision
        if connection.stream is not None or revision is None or not connection.is_initialized:
            return
        connection.stream = PushStream(
            kind=StreamKind.STDIO,
            server_name=server.name,
            sink=self._sink,
            principal=self._principal,
            client_info=connection.client_info,
            revision_name=revision.name,
        )
        server.hub.attach(connection.stream)

    def _end_stream(self) -> None:
        stream = self._connection.stream
        if stream is not None:
            self._server.hub.detach(stream)
            stream.end(Ending.CLIENT)


async def serve(
    server: MCPServer,
    reading: int,
    writing: int,
    *,
    find_principal: Callable[[], Awaitable[Any]] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serve the client at the other end of two pipes; returns when it has gone, or at `stop`.

    Args:
        server: whose tools, resources and prompts.
        reading, writing: file descriptors.
        find_principal: says on whose behalf each message is; None: nobody's.
        stop: ends it, with what runs cancelled.
    """
    pipe = Pipe(
        server,
        LineReader(reading, server.options.max_body_bytes),
        LineWriter(writing),
        find_principal,
    )
    running = asyncio.ensure_future(pipe.run())
    stopping = asyncio.ensure_future((stop or asyncio.Event()).wait())
    await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    running.cancel()
    await asyncio.gather(running, stopping, return_exceptions=True)
    await server.hub.stop()
