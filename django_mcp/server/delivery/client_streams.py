"""The streams that a client opens: that of a call, which it can resume, and those that receive changes.

Of a call's stream only requests to the client and the response are recorded, and have an id; progress
and log messages are not. An id is sent at once, and recording follows in batches, so a quick call
costs little.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from django_mcp.protocol.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    Refusal,
    invalid_request,
    try_later,
)
from django_mcp.protocol.headers import LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID
from django_mcp.protocol.json import JSONDecodeError, decode, encode
from django_mcp.protocol.messages import RequestId, encode_error, is_request_id
from django_mcp.protocol.records import Record
from django_mcp.protocol.revisions import find_revision
from django_mcp.server.exchange.admission import check_version
from django_mcp.server.exchange.exchange import EventStream, Exchange, Reply, refusal_reply
from django_mcp.server.exchange.pending import PendingBytes
from django_mcp.server.exchange.quotas import Limits, QuotaScope
from django_mcp.server.exchange.session import Closing, Session
from django_mcp.server.exchange.visibility import NONE_VISIBLE
from django_mcp.server.ports import Event, Resumption, StoreUnavailable
from django_mcp.server.request_checks import NO_SESSION_ID, UNKNOWN_SESSION, find_session
from django_mcp.server.services import Services
from django_mcp.server.streams.stream import Ending, PushStream, StreamKind
from django_mcp.server.streams.upkeep import notify_lists, ping_later

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
        return self._has_hung_up or self._exchange.is_disconnected

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
        self.id = start + _mark(start, self._session)
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
        if self._exchange.waits_for_thread:
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
        found = f"{self.id}-{self._number}"
        request_id = encode(self._request_id).decode() if self._request_id is not None else ""
        # With the request's id any process can answer, should this one die.
        is_plain = request_id.isascii() and request_id.isprintable()
        return f"{found}-{request_id}" if is_plain and 0 < len(request_id) <= 200 else found


def _mark(start: str, session: Session) -> str:
    """Return the end of a stream's id, by which any process knows that it is of this session."""
    # Not a secret: with an invented id a client learns only that it has no such call.
    return hashlib.sha256(f"{start} {session.key}".encode()).hexdigest()[:16]


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
    found = _split_id(last_id, session)
    sink = exchange.event_stream
    if found is None or sink is None:
        return refusal_reply(_UNKNOWN_ID)
    stream_id, number, request_id = found
    resumption = await server.ports.events.read(stream_id, session, number)
    if resumption is None and request_id is None:
        return None
    waited_s = 0.0
    pending = PendingBytes(exchange.quota_key, server.options)
    with server.hub.followers.follow(stream_id) as follower, closing(pending):
        while True:
            events = _events_of(resumption)
            # The client sends the id of the last event that it got, and gets the rest later.
            if pending.add(sum(len(each.message) for each in events)) is not None:
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
                await sink.send(message)
            resumption = await _read_on(server, session, stream_id, number)


def _split_id(last_id: str, session: Session) -> tuple[str, int, str | None] | None:
    """Return the stream, the number and the request of an event id; None: it is not of this session."""
    match = _ID.fullmatch(last_id)
    # An id without a request may be of a standalone stream, which cannot be resumed.
    if match is None or (match[3] is not None and match[1][16:] != _mark(match[1][:16], session)):
        return None
    return match[1], int(match[2]), match[3]


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
        found = decode(request_id or "")
    except JSONDecodeError:
        found = None
    if not is_request_id(found):
        return Reply(200)
    refusal = Refusal(code=INTERNAL_ERROR, message="The call was lost: its process has ended")
    return Reply(200, encode_error(found, refusal))


_UNKNOWN_ID = invalid_request("Unknown Last-Event-ID")


RETRY_MS = 1000
"""When a client should reconnect after the server closed its stream."""


async def open_stream(server: Services, exchange: Exchange) -> Reply:
    """Open the standalone stream of a session, or resume that of a call; return when it has ended.

    Source: 2025-11-25 basic/transports "Listening for Messages from the Server".
    """
    exchange.cancels_on_disconnect = True
    try:
        session = await _join(server, exchange, needs_stream=True)
        if not isinstance(session, Session):
            return session
        last_id = exchange.headers.get(LAST_EVENT_ID) if exchange.headers is not None else None
        if last_id:
            with count_stream(server, exchange) as refusal:
                if refusal is not None:
                    return refusal_reply(refusal, 503)
                reply = await resume(server, exchange, session, last_id)
            if reply is not None:
                return reply
        uris = await server.ports.sessions.read_subscriptions(session)
    except StoreUnavailable as error:
        return refusal_reply(error.to_refusal())
    sink, revision = exchange.event_stream, session.revision
    if sink is None or revision is None:
        return not_allowed(server, exchange)
    stream = PushStream(
        kind=StreamKind.STANDALONE,
        server_name=server.name,
        sink=sink,
        principal=exchange.principal,
        uris=uris,
        session=session,
        client_info=session.client_info,
        revision_name=revision.name,
    )
    await server.join_hub().wait_for_bus()
    with count_stream(server, exchange) as refusal:
        if refusal is not None:
            return refusal_reply(refusal, 503)
        # A client waits until the stream is open before it goes on.
        await sink.prime(f"{stream.id}-0" if revision.primes_streams else None)
    reason = await run_stream(server, exchange, stream)
    comes_back = reason in (Ending.AGE, Ending.SHUTDOWN, Ending.SLOW)
    if comes_back and revision.primes_streams:
        await sink.hang_up(RETRY_MS)
    return Reply(200)


async def run_stream(server: Services, exchange: Exchange, stream: PushStream) -> Ending:
    """Keep a stream open until its end, and return why it ended."""
    exchange.cancels_on_disconnect = True
    stream.exchange = exchange
    stream.quota_key = exchange.quota_key
    stream.pending = PendingBytes(stream.quota_key, server.options)
    stream.rights = exchange.visible
    if stream.rights is NONE_VISIBLE:
        # Only if that is known without a query.
        stream.rights = server.ports.access.find_visible(exchange, server.derived.requirements)
    hub = server.join_hub()
    hub.attach(stream)
    ping_later(hub, stream)
    session = stream.session
    if server.options.tell_lists_at_start and session is not None and not session.was_told_lists:
        session.was_told_lists = True
        notify_lists(server.derived.features, stream)
    reason = Ending.CLIENT
    try:
        server.ports.connection_observer.stream_opened(stream)
        reason = await stream.run()
        return reason
    finally:
        server.hub.detach(stream)
        server.ports.connection_observer.stream_closed(stream, reason.value)


def check_stream_limits(server: Services, exchange: Exchange) -> Refusal | None:
    """Return the refusal of one more stream, or None."""
    hub, options = server.hub, server.options
    limits = Limits(own_count=options.max_streams_per_principal, count=options.max_streams)
    scope = hub.quotas.find_reached(limits, exchange.quota_key, 0, share=options.anonymous_share)
    if scope is QuotaScope.OWN:
        message = (
            "You have as many streams open as MAX_STREAMS_PER_PRINCIPAL allows: close one first"
        )
    elif scope is not None or hub.is_closing:
        scope, message = QuotaScope.ALL, "No further stream can be opened here now: try again later"
    else:
        return None
    return try_later(message, code=INVALID_REQUEST, status=scope.value)


@contextmanager
def count_stream(server: Services, exchange: Exchange) -> Iterator[Refusal | None]:
    """Count a request as an open stream while the block runs, unless a limit is reached; yield the refusal then."""
    meter, key = server.join_hub().quotas, exchange.quota_key
    refusal = check_stream_limits(server, exchange)
    count = 1 if refusal is None else 0
    meter.add(key, 0, count=count)
    try:
        yield refusal
    finally:
        meter.give_back(key, 0, count=count)


async def end_session(server: Services, exchange: Exchange) -> Reply:
    """End a session with its calls and streams.

    Source: 2025-11-25 basic/transports "Session Management".
    """
    try:
        session = await _join(server, exchange, needs_stream=False)
        if not isinstance(session, Session):
            return session
        was_open = await server.ports.sessions.end([session.key], Closing.CLIENT)
    except StoreUnavailable as error:
        return refusal_reply(error.to_refusal())
    if was_open:
        hub = server.hub if exchange.is_buffered else server.join_hub()
        hub.end_session(session.key)
        # After the response, the client may use the id at another process.
        await hub.flush()
    return Reply(204)


async def _join(server: Services, exchange: Exchange, *, needs_stream: bool) -> Session | Reply:
    headers = exchange.headers
    can_stream = exchange.can_stream and not exchange.is_buffered
    if headers is None or not server.keeps_sessions or (needs_stream and not can_stream):
        return not_allowed(server, exchange)
    revision = find_revision(headers.get(PROTOCOL_VERSION))
    if revision is not None and revision.is_stateless:
        return not_allowed(server, exchange)
    refusal = check_version(headers, server.revisions)
    token = headers.get(SESSION_ID)
    if refusal is None and token is None:
        refusal = NO_SESSION_ID
    if refusal is not None:
        return refusal_reply(refusal)
    session = await find_session(server, exchange, token or "")
    if session is None:
        return refusal_reply(UNKNOWN_SESSION)
    exchange.connection = session
    return session


def not_allowed(server: Services, exchange: Exchange) -> Reply:
    """Return the response to an HTTP method that is not supported here or in that revision."""
    allowed = server.allowed_methods(exchange.headers, can_push=not exchange.is_buffered)
    message, headers = "Use POST: this MCP endpoint is for AI clients", ((b"allow", allowed),)
    return refusal_reply(Refusal(code=INVALID_REQUEST, message=message, headers=headers), 405)
