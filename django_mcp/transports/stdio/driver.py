"""Serve one client on the pipes of this process, with each line as an exchange of its own."""

from __future__ import annotations

import asyncio
import logging
import math
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from django_mcp.protocol.errors import INVALID_REQUEST, Refusal
from django_mcp.protocol.messages import encode_error
from django_mcp.protocol.records import Record
from django_mcp.protocol.revisions import Revision
from django_mcp.server.delivery.client_streams import run_stream
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.exchange import ANONYMOUS, Exchange
from django_mcp.server.exchange.session_data import MemoryData
from django_mcp.server.exchange.timers import TaskTimers
from django_mcp.server.server import MCPServer
from django_mcp.server.streams.stream import Change, Ending, PushStream, StreamKind
from django_mcp.server.streams.upkeep import notify_lists
from django_mcp.transports.stdio.pipes import Line, LineReader, LineWriter, size_of

logger = logging.getLogger("django_mcp")

FINISH_S = 1.0
"""How long calls may continue after the end of input. Our own limit."""

CANCEL_S = 0.5
FLUSH_S = 0.5
"""Time for cancelled calls to end, and for the client to read the rest. Our own limit."""

GOODBYE_S = 0.1
"""Time for streams to send their end when the process is stopped. Our own limit."""

RECHECK_S = 1.0
"""How often the client's authorization is checked while it sends nothing. Our own limit.

What runs is then cancelled within the promised two seconds.
"""

MAX_RUNNING = 1024
MAX_RUNNING_BYTES = 64 * 1024 * 1024
"""Size of the lines that are served at once; further lines wait. Our own limit."""

FindPrincipal = Callable[[], Awaitable[Any]]
"""Returns the principal for a message, or raises `Revoked`."""

_FINAL = frozenset({Ending.CLOSED, Ending.PRINCIPAL})
"""Reasons that end the connection, since a client cannot reconnect to a pipe."""


class Revoked(Exception):
    """The user or token of the connection is no longer accepted, which ends the connection."""


class ChangeNotifier(Record):
    """Keeps the one stream of a pipe whose connection is initialized.

    A client that reads too slowly misses changes. Once it reads again, it is notified of everything
    that may have changed, because it cannot open another stream.
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


class Pipe:
    """One client's connection, from its first line to its last."""

    def __init__(
        self,
        server: MCPServer,
        reading: int,
        writing: int,
        find_principal: FindPrincipal | None,
        stop: asyncio.Event,
    ) -> None:
        self._server = server
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._reader = LineReader(reading, server.options.max_body_bytes, self._take)
        self._writer = LineWriter(writing)
        self._find_principal = find_principal
        self._connection = ConnectionState()
        self._connection.data = MemoryData({})
        self._notifier: ChangeNotifier | None = None
        self._waiting: deque[Line] = deque()
        self._running: dict[asyncio.Task[None], int] = {}
        self._running_bytes = 0
        self._initializing: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Serve lines until the input ends, the client disconnects, or `stop` is set."""
        stopping = asyncio.ensure_future(self._stop.wait())
        gone = asyncio.ensure_future(self._writer.broken.wait())
        ended = asyncio.ensure_future(self._ended.wait())
        over: set[asyncio.Future[Any]] = {stopping, gone}
        others: list[asyncio.Future[Any]] = [stopping, gone, ended]
        if self._find_principal is not None:
            others.append(self._loop.create_task(self._recheck(self._find_principal)))
        self._reader.start()
        try:
            await asyncio.wait((*over, ended), return_when=asyncio.FIRST_COMPLETED)
            if not (stopping.done() or gone.done()):
                await self._finish(over)
        finally:
            await self._end(others, is_told=stopping.done())

    async def _finish(self, over: set[asyncio.Future[Any]]) -> None:
        """Let what runs continue for a moment after the end of input."""
        until_s = self._loop.time() + FINISH_S
        while (self._running or self._waiting) and not any(each.done() for each in over):
            if not self._running:
                # Waiting lines start in the loop's next turn.
                await asyncio.sleep(0)
                continue
            left_s = until_s - self._loop.time()
            if left_s <= 0:
                break
            # Streams do not end by themselves, and nobody waits for their messages.
            listening = self._listening()
            if not self._waiting and all(task in listening for task in self._running):
                break
            await asyncio.wait(
                (*self._running, *over), timeout=left_s, return_when=asyncio.FIRST_COMPLETED
            )

    def _listening(self) -> set[Any]:
        streams = self._server.hub.streams.values()
        exchanges = {id(each.exchange) for each in streams}
        running = self._server.hub.calls.of(self._connection)
        calls = (ctx.exchange.timers for ctx in running if id(ctx.exchange) in exchanges)
        return {timers.task for timers in calls if timers is not None}

    async def _end(self, others: Sequence[asyncio.Future[Any]], *, is_told: bool) -> None:
        self._waiting.clear()
        if is_told and self._running:
            self._server.hub.end_streams(Ending.SHUTDOWN)
            await asyncio.wait(list(self._running), timeout=GOODBYE_S)
        if self._notifier is not None:
            self._notifier.end()
        left = [*others, *self._running]
        for task in left:
            task.cancel()
        if left:
            # A handler may suppress its cancellation; it is not waited for any longer.
            await asyncio.wait(left, timeout=CANCEL_S)
        await self._writer.flush(FLUSH_S)

    # -- lines

    def _take(self, lines: Sequence[Line] | None) -> None:
        if lines is None:
            self._ended.set()
        else:
            self._waiting.extend(lines)
            self._begin()

    def _begin(self) -> None:
        """Start waiting lines while there is room for them."""
        waiting, released = self._waiting, 0
        while (
            waiting
            and self._initializing is None
            and len(self._running) < MAX_RUNNING
            and self._running_bytes <= MAX_RUNNING_BYTES
        ):
            line = waiting.popleft()
            size = size_of(line)
            released += size
            task = asyncio.Task(self._serve(line), loop=self._loop, **_EAGER)
            if task.done():
                continue
            self._running[task] = size
            self._running_bytes += size
            if self._notifier is None and isinstance(line, bytes) and b"initialize" in line:
                # The lines after it may depend on it.
                self._initializing = task
        if released:
            self._reader.release(released)

    def _done(self) -> None:
        task = asyncio.current_task()
        if task is None or task not in self._running:
            return
        self._running_bytes -= self._running.pop(task)
        if task is self._initializing:
            self._initializing = None
        if self._waiting:
            self._loop.call_soon(self._begin)

    async def _serve(self, line: Line) -> None:
        timers = TaskTimers.of_current_task()
        try:
            if not isinstance(line, bytes):
                limit = self._server.options.max_body_bytes
                message = f"The line is too long: at most {limit} bytes are read"
                refusal = Refusal(code=INVALID_REQUEST, message=message)
                await self._writer.send(encode_error(None, refusal))
                return
            # A client that does not read its responses gets no more work done.
            await self._writer.wait_for_room()
            find = self._find_principal
            principal = ANONYMOUS if find is None else await self._look(find)
            if principal is None:
                return
            exchange = Exchange(
                body=line,
                connection=self._connection,
                sink=self._writer,
                can_stream=True,
                principal=principal,
                timers=timers,
            )
            body = (await self._server.answer(exchange)).body
            if body is not None:
                await self._writer.send(body)
            connection = self._connection
            if self._notifier is None and connection.is_initialized and connection.revision:
                self._notifier = ChangeNotifier(
                    self._server,
                    exchange,
                    connection,
                    connection.revision,
                    self._writer,
                    self._ended.set,
                )
        except Exception:
            logger.exception("Could not serve a line")
        finally:
            self._done()

    # -- the principal

    async def _look(self, find_principal: FindPrincipal) -> Any:
        """Return the principal, or None once the connection has to end."""
        try:
            principal = await find_principal()
        except Revoked as error:
            logger.warning("%s", error)
            self._stop.set()
            return None
        if self._notifier is not None:
            self._notifier.set_principal(principal)
        return principal

    async def _recheck(self, find_principal: FindPrincipal) -> None:
        while True:
            await asyncio.sleep(RECHECK_S)
            if self._server.hub.streams or self._running:
                try:
                    await self._look(find_principal)
                except Exception:
                    logger.exception("Could not look up the principal of this connection")


_EAGER: Any = {"eager_start": True} if sys.version_info >= (3, 12) else {}
"""A task that never waits is done when it is made, where Python has that."""


async def serve(
    server: MCPServer,
    reading: int,
    writing: int,
    *,
    find_principal: FindPrincipal | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serve the client at the other end of two pipes until it disconnects or `stop` is set.

    Without `find_principal` it is anonymous.
    """
    try:
        await Pipe(server, reading, writing, find_principal, stop or asyncio.Event()).run()
    finally:
        await server.hub.stop()
