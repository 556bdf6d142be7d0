"""Serve one client on the pipes of this process, with each line as an exchange of its own."""

from __future__ import annotations

import asyncio
import math
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from django_mcp.log import logger
from django_mcp.protocol.errors import invalid_request
from django_mcp.protocol.messages import encode_error, find_id
from django_mcp.server.delivery.open_streams import run_stream
from django_mcp.server.engine import Engine
from django_mcp.server.exchange.answers import count_answer, release_answers
from django_mcp.server.exchange.caller import ANONYMOUS, Caller
from django_mcp.server.exchange.channel import Channel
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.pending import ANSWER_DROPPED, PART_BYTES
from django_mcp.server.exchange.timers import TaskTimers
from django_mcp.server.exchange.visibility import Narrowing
from django_mcp.server.streams.stream import Change, Ending, PushStream, StreamKind
from django_mcp.server.streams.upkeep import notify_lists
from django_mcp.sessions.core.memory_data import MemoryData
from django_mcp.transports.stdio.pipes import Line, LineReader, LineWriter, size_of

FINISH_S = 1.0
"""How long calls may continue after the end of input."""

CANCEL_S = 0.5
FLUSH_S = 0.5
"""Time for cancelled calls to end, and for the client to read the rest."""

GOODBYE_S = 0.1
"""Time for streams to send their end when the process is stopped."""

RECHECK_S = 1.0
"""How often the client's authorization is checked while it sends nothing.

What runs is then cancelled within the promised two seconds.
"""

MAX_RUNNING = 1024
MAX_RUNNING_BYTES = 64 * 1024 * 1024
"""Size of the lines that are served at once; further lines wait."""

FindPrincipal = Callable[[], Awaitable[Any]]
"""Returns the principal for a message, or raises `Revoked`."""

_FINAL = frozenset({Ending.CLOSED, Ending.PRINCIPAL})
"""Reasons that end the connection, since a client cannot reconnect to a pipe."""


class Revoked(Exception):
    """The user or token of the connection is no longer accepted, which ends the connection."""


class Pipe:
    """One client's connection, from its first line to its last."""

    def __init__(
        self,
        server: Engine,
        reading: int,
        writing: int,
        find_principal: FindPrincipal | None,
        stop: asyncio.Event,
        narrowing: Narrowing | None = None,
    ) -> None:
        self._server = server
        self._stop = stop
        self._narrowing = narrowing
        self._loop = asyncio.get_running_loop()
        self._reader = LineReader(reading, server.options.max_body_bytes, self._take)
        self._writer = LineWriter(writing)
        self._find_principal = find_principal
        self._connection = ConnectionState()
        self._connection.data = MemoryData({})
        self._stream: PushStream | None = None
        self._origin: Exchange | None = None
        """Whose principal that of the stream is; None: the connection is not initialized."""
        self._notifying: asyncio.Task[None] | None = None
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
            self._waiting.clear()
            if stopping.done() and self._running:
                self._server.hub.end_streams(Ending.SHUTDOWN)
                await asyncio.wait(list(self._running), timeout=GOODBYE_S)
            if self._notifying is not None:
                self._notifying.cancel()
            left = [*others, *self._running]
            for task in left:
                task.cancel()
            # A handler may suppress its cancellation; it is not waited for any longer.
            await asyncio.wait(left, timeout=CANCEL_S)
            await self._writer.flush(FLUSH_S)

    async def _finish(self, over: set[asyncio.Future[Any]]) -> None:
        """Let what runs continue for a moment after the end of input."""
        until_s = self._loop.time() + FINISH_S
        while (self._running or self._waiting) and not any(call.done() for call in over):
            if not self._running:
                # Waiting lines start in the loop's next turn.
                await asyncio.sleep(0)
                continue
            left_s = until_s - self._loop.time()
            if left_s <= 0:
                break
            if not self._count_unanswered():
                break
            await asyncio.wait(
                (*self._running, *over), timeout=left_s, return_when=asyncio.FIRST_COMPLETED
            )
        count = self._count_unanswered()
        if count and not any(call.done() for call in over):
            what = "1 request is" if count == 1 else f"{count} requests are"
            logger.warning(
                "The input has ended, and %s not answered after %g s: cancelled", what, FINISH_S
            )

    def _count_unanswered(self) -> int:
        """Return how many requests run or wait. Streams do not count: they do not end by themselves."""
        hub = self._server.hub
        exchanges = {id(stream.exchange) for stream in hub.streams.values()}
        calls = [call.exchange for call in hub.calls.of(self._connection)]
        timers = (call.channel.timers for call in calls if id(call) in exchanges)
        listening = {timer.task for timer in timers if timer is not None}
        return len(self._waiting) + sum(task not in listening for task in self._running)

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
            if self._notifying is None and isinstance(line, bytes) and b"initialize" in line:
                # The lines after it may depend on it.
                self._initializing = task
        if released:
            self._reader.release(released)

    async def _serve(self, line: Line) -> None:
        try:
            if not isinstance(line, bytes):
                limit = self._server.options.max_body_bytes
                message = f"The line is too long: at most {limit} bytes are read"
                await self._writer.send(encode_error(None, invalid_request(message)))
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
                caller=Caller(principal=principal, narrowing=self._narrowing),
                channel=Channel(
                    sink=self._writer,
                    can_stream=True,
                    is_pipe=True,
                    timers=TaskTimers.of_current_task(),
                    counts_answers=True,
                ),
            )
            try:
                body = (await self._server.answer(exchange)).body
                if body is not None:
                    await self._send(exchange, body)
            finally:
                release_answers(exchange)
            connection = self._connection
            if self._notifying is None and connection.is_initialized and connection.revision:
                self._origin = exchange
                notify = self._notify(exchange, connection.revision.name)
                self._notifying = self._loop.create_task(notify)
        except Exception:
            logger.exception("Could not serve a line")
        finally:
            task = asyncio.current_task()
            # If it never waited, it is not there.
            if task in self._running:
                self._running_bytes -= self._running.pop(task)
                if task is self._initializing:
                    self._initializing = None
                if self._waiting:
                    self._loop.call_soon(self._begin)

    async def _send(self, exchange: Exchange, body: bytes) -> None:
        """Write an answer, or an error if too many large ones wait for the client."""
        if len(body) <= PART_BYTES:
            await self._writer.send(body)
            return
        scope = count_answer(exchange, len(body), self._server.options, is_whole=True)
        if scope is not None:
            body = encode_error(find_id(body), ANSWER_DROPPED[scope])
        await self._writer.send(body)

    # -- the stream

    async def _notify(self, exchange: Exchange, revision_name: str) -> None:
        """Keep the one stream of the pipe, from the time when the connection is initialized.

        A client that reads too slowly misses changes. Once it reads again, it is notified of everything
        that may have changed, because it cannot open another stream.
        """
        server, connection = self._server, self._connection
        reason: Ending | None = None
        while reason in (None, Ending.SLOW):
            stream = self._stream = PushStream(
                kind=StreamKind.STDIO,
                server_name=server.name,
                sink=self._writer,
                principal=exchange.caller.principal,
                uris=set(connection.subscriptions or ()),
                client_info=connection.client_info,
                revision_name=revision_name,
                # It lasts as long as the pipe.
                closes_s=math.inf,
            )
            connection.stream_id = stream.id
            if reason is Ending.SLOW:
                notify_lists(server.features(exchange), stream)
                for uri in sorted(stream.uris):
                    stream.notify(Change(server=server.name, uri=uri))
            reason = await run_stream(server, exchange, stream)
            if reason is Ending.SLOW:
                await self._writer.is_empty.wait()
        if reason in _FINAL:
            self._ended.set()

    # -- the principal

    async def _look(self, find_principal: FindPrincipal) -> Any:
        """Return the principal, or None once the connection has to end."""
        try:
            principal = await find_principal()
        except Revoked as error:
            logger.warning("%s", error)
            self._stop.set()
            return None
        if self._origin is not None:
            self._origin.caller.principal = principal
        if self._stream is not None:
            self._stream.principal = principal
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
    server: Engine,
    reading: int,
    writing: int,
    *,
    find_principal: FindPrincipal | None = None,
    stop: asyncio.Event | None = None,
    narrowing: Narrowing | None = None,
) -> None:
    """Serve the client at the other end of two pipes until it disconnects or `stop` is set.

    Without `find_principal` it is anonymous. With `narrowing` it sees only a part of the server.
    """
    try:
        stop = stop or asyncio.Event()
        await Pipe(server, reading, writing, find_principal, stop, narrowing).run()
    finally:
        await server.hub.prepare_to_stop()
        await server.hub.stop()
