"""The stream of server-sent events to one client over ASGI, and the watch that notices its disconnect."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from enum import Enum
from functools import partial
from types import coroutine
from typing import Any, TypeAlias

from django_mcp.execution.outages import Warner
from django_mcp.execution.threads import caller_address
from django_mcp.protocol import sse
from django_mcp.protocol.records import Record
from django_mcp.server.exchange.channel import Channel
from django_mcp.server.exchange.exchange import Reply
from django_mcp.server.exchange.pending import PART_BYTES
from django_mcp.server.exchange.timers import TaskTimers
from django_mcp.transports.http.replies import STREAM_HEADERS, RawHeaders

Receive: TypeAlias = Callable[[], Awaitable[Any]]
"""The ASGI callable that gives the next message from the client."""

Send: TypeAlias = Callable[[Any], Awaitable[None]]
"""The ASGI callable that sends a message; it waits while the client is slow, if the server can."""


_slow = Warner()


class Fate(Enum):
    """What became of a part of a response."""

    SENT = "it was sent"
    CLOSED = "its client did not read it, so the connection was closed"
    LEFT = "its client did not read it, and the server keeps what it has of it until the client has gone"


async def send_parts(
    send: Send,
    data: bytes,
    timeout_s: float,
    *,
    is_last: bool,
    begin: Callable[[], Awaitable[None]] | None = None,
) -> Fate:
    """Send a part of a response's body; a client that does not read it is disconnected.

    It is sent in pieces of `PART_BYTES`, each within `timeout_s`. The end of a large body follows once
    the client has read nearly all of it.

    Args:
        send: waits while the client is slow.
        is_last: it is the end of the body.
        begin: sends what begins the response, if that is to be sent too.
    """
    size = len(data)
    has_end = is_last and size > PART_BYTES
    more_body = has_end or not is_last
    try:
        if begin is not None:
            await _end_in_time(begin().__await__(), timeout_s)
        for at in range(0, size or 1, PART_BYTES):
            part = data[at : at + PART_BYTES]
            message = {"type": "http.response.body", "body": part, "more_body": more_body}
            await _end_in_time(send(message).__await__(), timeout_s)
        if has_end:
            end = {"type": "http.response.body", "body": b""}
            await _end_in_time(send(end).__await__(), timeout_s)
    except _NotRead:
        return await _give_up(send)
    return Fate.SENT


class _NotRead(Exception):
    """A client did not read a part of a response in time."""


async def _give_up(send: Send) -> Fate:
    """Disconnect a client that did not read."""
    text = "Disconnected clients that did not read their answers, such as one at %s"
    _slow.warn(text, caller_address.get() or "an unknown address")
    return Fate.CLOSED if await _disconnect(send) else Fate.LEFT


def _advance(sending: Any) -> Any:
    """Run what is awaited until it waits, and return what it waits for; None: it has ended.

    Most messages are sent without waiting. A timer, a lock and a coroutine for each of them would take
    twice as long as sending it.
    """
    try:
        return next(sending) or _TURN
    except StopIteration:
        return None


_TURN = object()
"""In place of the `None` by which a coroutine gives others a turn."""


@coroutine
def _end_in_time(
    sending: Any, timeout_s: float, waits_for: Any = None
) -> Generator[Any, Any, None]:
    """Await the iterator of an awaitable, for so many seconds at most.

    Args:
        waits_for: what `_advance` returned, if the iterator was advanced already.

    Raises:
        _NotRead: it did not end in time.
    """
    if waits_for is None:
        waits_for = _advance(sending)
    if waits_for is None:
        return
    limit = TaskTimers.of_current_task().limit(timeout_s)
    try:
        while True:
            try:
                yield None if waits_for is _TURN else waits_for
            except BaseException as error:  # noqa: BLE001 - it is raised where it belongs
                waits_for = sending.throw(error)
            else:
                waits_for = next(sending)
    except StopIteration:
        return
    except asyncio.CancelledError:
        if not limit.is_ours():
            raise
        raise _NotRead from None
    finally:
        limit.cancel()


async def _disconnect(send: Send) -> bool:
    """Close the connection of a response at once, if its server and no middleware made `send`; return whether.

    Otherwise the server closes it when the application returns, after what it has buffered was read.
    """
    transport = _find_transport(_find_owner(send))
    aborts = [getattr(transport, name, None) for name in ("abort", "abortConnection")]
    for abort in filter(None, aborts):
        abort()
    # Only then does the server know that nobody waits for the rest.
    for _ in range(2):
        await asyncio.sleep(0)
    return any(aborts)


def has_gone(send: Send) -> bool:
    """Return whether the connection of a response is closed, if its server and no middleware made `send`.

    uvicorn tells only the latest request of a connection that its client has gone. Where a client sent
    more requests before the first was answered, this makes it tell the first as well.
    """
    owner = _find_owner(send)
    is_closing = getattr(_find_transport(owner), "is_closing", None)
    if is_closing is None or not is_closing():
        return False
    if hasattr(owner, "disconnected"):
        owner.disconnected = True
    return True


def _find_owner(send: Send) -> Any:
    """Return the server's object that a `send` belongs to; None if it is not known."""
    bound: Any = send
    return bound.args[0] if type(bound) is partial else getattr(bound, "__self__", None)


def _find_transport(owner: Any) -> Any:
    # That of Daphne's request; uvicorn's cycle has the transport itself.
    return getattr(getattr(owner, "channel", owner), "transport", None)


class StreamSink(Record):
    """An `EventStream` that writes to an ASGI `send`.

    The response starts with the first message, so until then it may become plain JSON with another
    status. What is sent after `finish`, or after the client has disconnected, is dropped without an
    error. Several tasks may send at once: each message arrives whole, in the order of the calls.
    """

    _send: Send
    _headers: RawHeaders
    _timeout_s: float
    is_finished: bool = False
    """Whether what is sent from now on is dropped."""
    fate: Fate = Fate.SENT
    """What became of the last message."""
    _lock: asyncio.Lock | None = None
    _writers: int = 0
    """How many writers have the lock or wait for it. It looks free before the first that waits gets it."""
    has_started: bool = False
    last_sent_s: float = 0.0
    """When something was last sent, by `time.monotonic`: the loop's clock costs a system call more."""

    async def send(self, message: bytes, event_id: str | None = None) -> None:
        await self._write(sse.event(message, id=event_id))

    async def prime(self, event_id: str | None) -> None:
        await self._write(sse.COMMENT if event_id is None else sse.priming(event_id))

    async def hang_up(self, retry_ms: int) -> None:
        await self._write(sse.retry(retry_ms), is_last=True)

    async def keep_alive(self) -> None:
        """Send a comment, so that proxies do not close the connection as idle."""
        await self._write(sse.COMMENT)

    async def point(self, uri: str) -> None:
        """Send the event that tells a client of HTTP+SSE where to post its messages."""
        await self._write(sse.endpoint(uri))

    async def finish(self, reply: Reply) -> None:
        """Send the response, if there is one, and end the stream."""
        if not self.has_started:
            self._headers = (*self._headers, *reply.headers)
        body = reply.body
        is_silent = body is None or reply.is_dispensable
        data = b"" if is_silent else sse.event(body or b"", id=reply.event_id)
        await self._write(data, is_last=True)

    async def _write(self, data: bytes, *, is_last: bool = False) -> None:
        rest = None
        is_simple = self.has_started and len(data) <= PART_BYTES
        if is_simple and not self._writers and not self.is_finished:
            self.is_finished = is_last
            message = {"type": "http.response.body", "body": data, "more_body": not is_last}
            sending = waits_for = None
            try:
                sending = self._send(message).__await__()
                waits_for = _advance(sending)
            except (OSError, RuntimeError) as error:
                self._lose_client(error)
            if waits_for is None:
                self.last_sent_s = time.monotonic()
                return
            rest = _end_in_time(sending, self._timeout_s, waits_for)
        lock = self._lock
        if lock is None:
            lock = self._lock = asyncio.Lock()
        self._writers += 1
        try:
            # With a rest this does not wait: there was no other writer, and none has run since.
            async with lock:
                if rest is not None:
                    await self._send_in_time(rest)
                elif not self.is_finished:
                    await self._write_alone(data, is_last=is_last)
        finally:
            self._writers -= 1

    async def _write_alone(self, data: bytes, *, is_last: bool) -> None:
        self.is_finished = is_last
        begin = None
        if not self.has_started:
            self._send, begin = wait_for_room(self._send), self._begin
        await self._send_in_time(
            send_parts(self._send, data, self._timeout_s, is_last=is_last, begin=begin)
        )

    async def _send_in_time(self, sending: Awaitable[Fate | None]) -> None:
        try:
            self.fate = await sending or Fate.SENT
        except _NotRead:
            self.fate = await _give_up(self._send)
        except (OSError, RuntimeError) as error:
            self._lose_client(error)
        self.is_finished |= self.fate is not Fate.SENT
        self.last_sent_s = time.monotonic()

    def _lose_client(self, error: OSError | RuntimeError) -> None:
        """End the stream after an error by which a server reports a closed connection; raise any other."""
        # Servers of ASGI 2.4 may raise an OSError; uvloop raises a RuntimeError.
        if not isinstance(error, OSError) and not self.has_lost_client:
            raise error
        self.is_finished = True

    @property
    def has_lost_client(self) -> bool:
        """Whether the connection is closed, as far as that can be seen without its server's help."""
        return has_gone(self._send)

    async def _begin(self) -> None:
        await self._send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [*STREAM_HEADERS, *self._headers],
            }
        )
        self.has_started = True


def wait_for_room(send: Send) -> Send:
    """Return a `send` for one large or streamed response that waits while the client is slow.

    Daphne's `send` never waits: Twisted buffers what the client has not read. It asks the registered
    producer to pause when its buffer is full (64 KiB), and to resume when it is empty. Other servers'
    `send` waits itself. Behind a middleware, Daphne's `send` and its request cannot be found.
    """
    if type(send) is not partial or not send.args:
        return send
    request = send.args[0]
    if not callable(getattr(request, "registerProducer", None)):
        return send
    return _Producer(send, request).send


class _Producer:
    """Send the messages of one response as a push producer of Twisted (`IPushProducer`)."""

    def __init__(self, send: Send, request: Any) -> None:
        self._send = send
        self._request = request
        self._is_registered = False
        self._has_room = asyncio.Event()
        self._has_room.set()

    @property
    def channel(self) -> Any:
        """The HTTP connection; None: it is closed."""
        return self._request.channel

    async def send(self, message: Any) -> None:
        # A closed connection has no channel.
        is_connected = self._request.channel is not None
        if message["type"] == "http.response.start":
            if is_connected and self._request.producer is None:
                self._request.registerProducer(self, True)
                self._is_registered = True
        elif not message.get("more_body"):
            # Nothing that has to wait follows, and Twisted requires this before the end.
            if self._is_registered and is_connected:
                self._request.unregisterProducer()
            self.stopProducing()
        await self._send(message)
        await self._has_room.wait()

    def pauseProducing(self) -> None:  # noqa: N802 - Twisted's name
        self._has_room.clear()

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        self._has_room.set()

    def stopProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Let senders continue: the connection is closed, and what is sent now is dropped."""
        self._is_registered = False
        self._has_room.set()


class Watch(Record):
    """Detect a disconnect, and send comments in long silences, while a call runs.

    Call `close` when the call is done.
    """

    _channel: Channel
    _receive: Receive
    _sink: StreamSink | None
    _keepalive_s: float
    _on_gone: Callable[[], None]
    _begun_s: float = 0.0
    _alive: asyncio.Task[None] | None = None
    _silence: asyncio.TimerHandle | None = None
    _task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._wait_until_gone())
        if self._sink is not None:
            self._begun_s = time.monotonic()
            self._silence = loop.call_later(self._keepalive_s, self._look, self._sink)

    def close(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
        for task in (self._task, self._alive):
            if task is not None:
                task.cancel()
        # A cancelled task keeps its frame, which refers to this object: avoid the reference cycle.
        self._task = self._alive = None

    async def _wait_until_gone(self) -> None:
        try:
            message = await self._receive()
            while message["type"] != "http.disconnect":
                # Nothing else can follow the body; if it does, the loop must not be blocked.
                await asyncio.sleep(0)
                message = await self._receive()
        except OSError:
            pass
        self._end()

    def _end(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
        self._channel.is_disconnected = True
        self._on_gone()

    def _look(self, sink: StreamSink) -> None:
        """Send a comment if the silence is too long, and schedule the next look."""
        if sink.has_lost_client:
            self._end()
            return
        loop = asyncio.get_running_loop()
        quiet_s = time.monotonic() - max(self._begun_s, sink.last_sent_s)
        if quiet_s >= self._keepalive_s:
            quiet_s = 0.0
            if self._channel.waits_for_thread and not sink.has_started:
                # A comment would begin the response with 200, and this may still become 503.
                self._silence = loop.call_later(self._keepalive_s, self._look, sink)
                return
            if self._alive is None or self._alive.done():
                # If the last comment still waits, the client is slow and needs no other.
                self._alive = loop.create_task(sink.keep_alive())
        self._silence = loop.call_later(self._keepalive_s - quiet_s, self._look, sink)
