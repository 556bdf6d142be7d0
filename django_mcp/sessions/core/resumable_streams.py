"""The stream of a call of a session, which the client can resume.

`dispatch_in_session` gets every message over HTTP that may belong to a session.

Of the stream only requests to the client and the response are recorded, and have an id; progress
and log messages are not. An id is sent at once, and recording follows in batches, so a quick call
costs little.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections.abc import Sequence
from contextlib import closing

from django_mcp.protocol.errors import (
    INTERNAL_ERROR,
    Refusal,
    invalid_request,
)
from django_mcp.protocol.json import JSONDecodeError, decode, encode
from django_mcp.protocol.messages import (
    Batch,
    Message,
    Request,
    RequestId,
    encode_error,
    is_request_id,
)
from django_mcp.protocol.records import Record
from django_mcp.server.exchange.answers import send_ahead
from django_mcp.server.exchange.channel import EventStream
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.exchange import Exchange, Reply, refusal_reply
from django_mcp.server.exchange.pending import PendingBytes
from django_mcp.server.exchange.session import Session
from django_mcp.server.exchange.timers import TaskTimers
from django_mcp.server.ports import Dispatch, Event, Resumption, StoreUnavailable
from django_mcp.server.request_checks import load_session
from django_mcp.server.services import ServedCall, Services

PRIME_AFTER_S = 0.5
"""A call that has sent nothing for this long opens its stream, so that it can be resumed."""

POLL_S = 2.0
LOOK_S = 0.5
GRACE_S = 1.5
"""How long the end of a stream may take to be recorded after its call has ended."""

_ID = re.compile(r"([0-9a-f]{32})-([0-9]{1,9})(?:-(.{1,200}))?", re.DOTALL)


class ResumableSink(Record):
    """A `Sink` in front of an event stream, for one exchange of a session."""

    _server: Services
    _session: Session
    _exchange: Exchange
    _wire: EventStream
    _request_id: RequestId | None
    _number: int = -1
    _has_hung_up: bool = False
    _priming: asyncio.TimerHandle | None = None
    id: str = ""

    @property
    def is_detached(self) -> bool:
        """Whether the client does not read the stream any more."""
        return self._has_hung_up or self._exchange.channel.is_disconnected

    async def send(self, message: bytes, *, is_recorded: bool = False) -> None:
        """Send a message; one that is recorded is sent again to a client that has missed it."""
        event_id = await self._open()
        if is_recorded and self._number >= 0:
            event_id = self._record(message, is_last=False)
        if not self.is_detached:
            await self._wire.send(message, event_id)
        elif self._number >= 0 and not is_recorded:
            self._server.hub.followers.show(self.id, message)

    async def _open(self) -> str | None:
        """Begin the numbering of events, if the revision has that; return the id for the first event.

        Where the revision opens streams with an id and no message, that is sent, and None returned.
        """
        revision = self._session.revision
        if self._number >= 0 or revision is None or not revision.has_event_ids:
            return None
        self._number = 0
        start = secrets.token_hex(8)
        self.id = start + _mark(start, self._session, self._exchange)
        self._server.ports.events.open(self.id, self._session)
        if not revision.primes_streams:
            return self._event_id()
        await self._wire.prime(self._event_id())
        return None

    async def prime(self) -> None:
        """Open the stream with an id and no message, if the revision has that, and once only."""
        revision = self._session.revision
        if revision is not None and revision.primes_streams:
            await self._open()

    def prime_soon(self) -> None:
        """Prime the stream, without waiting for it, once its call does not wait for a thread any more."""
        if self._exchange.channel.waits_for_thread:
            # The response would begin with 200, and it may still become 503.
            loop = asyncio.get_running_loop()
            self._priming = loop.call_later(PRIME_AFTER_S, self.prime_soon)
            return
        self._server.hub.spawn(self.prime())

    def stop_priming(self) -> None:
        """Do not prime the stream later."""
        if self._priming is not None:
            self._priming.cancel()
            self._priming = None

    async def hang_up(self, retry_ms: int) -> None:
        """Close the connection while the call goes on; the client resumes the stream."""
        revision = self._session.revision
        if self.is_detached or revision is None or not revision.primes_streams:
            return
        await self.prime()
        self._has_hung_up = True
        await self._wire.hang_up(retry_ms)

    def abandon(self) -> None:
        """End the stream without a response."""
        if self._number >= 0:
            self._server.ports.events.close(self.id, self._session)

    def finish(self, reply: Reply) -> None:
        """Record the response, if the client can resume, and set its id."""
        if reply.body is None or reply.is_dispensable:
            self.abandon()
        elif self._number >= 0:
            reply.event_id = self._record(reply.body, is_last=True)

    def _record(self, message: bytes, *, is_last: bool) -> str:
        self._number += 1
        event = Event(number=self._number, message=message, is_last=is_last)
        self._server.ports.events.append(self.id, self._session, event)
        if self.is_detached:
            self._server.hub.followers.wake(self.id, everywhere=True)
        return self._event_id()

    def _event_id(self) -> str:
        event_id = f"{self.id}-{self._number}"
        request_id = encode(self._request_id).decode() if self._request_id is not None else ""
        # With the request's id any process can answer, should this one die.
        is_plain = request_id.isascii() and request_id.isprintable()
        return f"{event_id}-{request_id}" if is_plain and 0 < len(request_id) <= 200 else event_id


def _mark(start: str, session: Session, exchange: Exchange) -> str:
    """Return the suffix that ties the id of a stream to its session and tenant."""
    # Not a secret: with an invented id a client learns only that it has no such call.
    text = f"{start} {session.key} {exchange.caller.tenant}"
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


async def _read_on(
    server: Services, session: Session, stream_id: str, number: int
) -> Resumption | None:
    try:
        return await server.ports.events.read(stream_id, session, number)
    except StoreUnavailable:
        # Until the store is available again, nothing new is known.
        return Resumption(events=(), is_running=True)


def _events_of(resumption: Resumption | None) -> Sequence[Event]:
    return () if resumption is None else resumption.events


async def resume(
    server: Services, exchange: Exchange, session: Session, last_id: str
) -> Reply | None:
    """Send what the client of a broken stream has missed, and continue the stream until its call ends.

    None: the stream was not that of a call, so there is nothing to continue.
    Source: 2025-11-25 basic/transports "Resumability and Redelivery".
    """
    id_parts = _split_id(last_id, session, exchange)
    sink = exchange.channel.event_stream
    if id_parts is None or sink is None:
        return refusal_reply(_UNKNOWN_ID)
    stream_id, number, request_id, is_own = id_parts
    resumption = await server.ports.events.read(stream_id, session, number)
    if request_id is None and (resumption is None or not is_own):
        return None
    waited_s = 0.0
    pending = PendingBytes(exchange.caller.quota_key, server.options)
    with server.hub.followers.follow(stream_id) as follower, closing(pending):
        while True:
            events = _events_of(resumption)
            # The client sends the id of the last event that it got, and gets the rest later.
            if pending.add(sum(len(event.message) for event in events)) is not None:
                return Reply(200)
            for event in events:
                number = event.number
                event_id = "-".join(filter(None, (stream_id, str(number), request_id)))
                if event.is_last:
                    return Reply(200, event.message, event_id=event_id)
                await sink.send(event.message, event_id)
            pending.close()
            is_running = resumption is not None and resumption.is_running
            if is_running:
                waited_s = 0.0
            elif waited_s >= GRACE_S:
                return await _find_end(server, session, stream_id, number, request_id)
            else:
                waited_s += LOOK_S
            for message in await follower.wait(POLL_S if is_running else LOOK_S):
                await send_ahead(exchange, message, server.options, sink.send)
            resumption = await _read_on(server, session, stream_id, number)


def _split_id(
    last_id: str, session: Session, exchange: Exchange
) -> tuple[str, int, str | None, bool] | None:
    """Return the stream, the number and the request of an event id, and whether it is of this session and tenant.

    None: it is of no stream that is known here. An id without a request may be of a standalone stream, which cannot
    be resumed.
    """
    match = _ID.fullmatch(last_id)
    if match is None:
        return None
    is_own = match[1][16:] == _mark(match[1][:16], session, exchange)
    return (match[1], int(match[2]), match[3], is_own) if is_own or match[3] is None else None


async def _find_end(
    server: Services, session: Session, stream_id: str, number: int, request_id: str | None
) -> Reply:
    """Return the end of a stream without recorded events behind event `number`."""
    resumption = await server.ports.events.read(stream_id, session, 0)
    events = _events_of(resumption)
    if events and events[-1].is_last:
        # The client has the response, or names an event that does not exist.
        return Reply(200) if number <= events[-1].number else refusal_reply(_UNKNOWN_ID)
    try:
        request_id_read = decode(request_id or "")
    except JSONDecodeError:
        request_id_read = None
    if not is_request_id(request_id_read):
        return Reply(200)
    refusal = Refusal(code=INTERNAL_ERROR, message="The call was lost: its process has ended")
    return Reply(200, encode_error(request_id_read, refusal))


_UNKNOWN_ID = invalid_request("Unknown Last-Event-ID")


async def dispatch_in_session(
    server: Services, message: Message | Batch, exchange: Exchange, dispatch: Dispatch
) -> Reply:
    """Dispatch a message that may belong to a session, so that a broken stream can be resumed.

    Args:
        dispatch: dispatches the message when its session is known.
    """
    try:
        refusal = await load_session(server, exchange, message)
    except StoreUnavailable as error:
        refusal = error.to_refusal()
    if refusal is not None:
        return refusal_reply(refusal, 400, message.id if isinstance(message, Request) else None)
    session: ConnectionState | None = exchange.connection
    if not isinstance(session, Session):
        return await dispatch(server, message, exchange)
    if not exchange.channel.is_buffered:
        # Other processes may cancel what runs here.
        server.join_hub()
    sink = exchange.channel.event_stream
    request_id = message.id if isinstance(message, Request) else None
    if sink is None or (request_id is None and not isinstance(message, Batch)):
        return await dispatch(server, message, exchange)
    stream = exchange.channel.sink = ResumableSink(server, session, exchange, sink, request_id)
    timers = exchange.channel.timers or TaskTimers.of_current_task()
    timer = timers.after(PRIME_AFTER_S, stream.prime_soon)
    try:
        reply = await dispatch(server, message, exchange)
    except BaseException:
        stream.abandon()
        raise
    finally:
        timer.cancel()
        stream.stop_priming()
        # Break the reference cycle, so that both are freed at once.
        exchange.channel.sink = sink
    stream.finish(reply)
    return reply


async def close_stream(call: ServedCall, retry_ms: int) -> None:
    """Close the connection of a call that goes on, if the client can resume its stream."""
    sink = call.exchange.channel.sink
    if isinstance(sink, ResumableSink):
        await sink.hang_up(retry_ms)
