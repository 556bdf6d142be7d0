"""The two endpoints of HTTP+SSE: one keeps a stream open, the other receives messages for it.

The connection lasts as long as its stream. If a message arrives in another process than the
stream's, the hub passes it on.

Source: 2024-11-05 basic/transports "HTTP with SSE".
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from django_mcp.protocol.errors import INTERNAL_ERROR, INVALID_REQUEST, Refusal
from django_mcp.protocol.headers import LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID, Headers
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.messages import (
    Batch,
    Malformed,
    Message,
    Request,
    decode_message,
    encode_error,
)
from django_mcp.server.delivery.standalone import refuse_stream, run_stream
from django_mcp.server.exchange.connection import Closing, ConnectionState, Session
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.server.exchange.quotas import Limits, QuotaMeter, Scope, quota_key_of
from django_mcp.server.services.ports import StoreUnavailable
from django_mcp.server.services.session_lookup import NO_STORE, UNKNOWN_SESSION, find_session
from django_mcp.server.streams.stream import Ending, PushStream, StreamKind

if TYPE_CHECKING:
    from django_mcp.server.server import MCPServer
    from django_mcp.transports.http.sink import StreamSink

__all__ = ["TOKEN", "keep_stream", "take_message"]

logger = logging.getLogger("django_mcp")

TOKEN = "session_id"  # noqa: S105 - the name of a query parameter

SSE = "sse"
"""The transport name that its sessions are stored with."""

MAX_PASSED_BYTES = 30 * 1024
"""Largest message that is passed to another process directly; JSON may double it. Our own limit."""

KEPT_S = 60.0
"""How long a larger message is kept for that process. Our own limit."""


MAX_STREAM_RUNNING = 100
MAX_STREAM_BYTES = 16 * 1024 * 1024
"""Number and size of one connection's requests that are served at a time. Our own limit."""

LIMITS = Limits(own_count=1000, own_bytes=64 * 1024 * 1024, count=10_000, bytes=256 * 1024 * 1024)
"""The same for all connections of one principal or address in a process, and for all in it."""


class QueueSink:
    """A `Sink` for the calls of a connection, which share the bounded queue of its stream.

    If the queue is full because the client does not read, the stream ends; see `PushStream.offer`.
    """

    __slots__ = ("_stream",)

    def __init__(self, stream: PushStream) -> None:
        self._stream = stream

    def answer(self, message: bytes) -> None:
        """Queue the response to a call, which is its last message."""
        self._stream.offer(message)

    async def send(self, message: bytes, event_id: str | None = None) -> None:
        """See `Sink.send`; returns when the queue is empty or the stream has ended."""
        if self._stream.offer(message):
            await self._stream.drain()

    async def prime(self, event_id: str | None) -> None:
        """See `Sink.prime`; the stream is open already."""

    async def hang_up(self, retry_ms: int) -> None:
        self._stream.end(Ending.CLOSED)


class _StreamContext(NamedTuple):
    """What serves a connection.

    Attributes:
        exchange: that of the GET that opened the stream.
        running: the size of each message that is being served.
    """

    server: MCPServer
    sink: QueueSink
    exchange: Exchange
    quota_key: str
    running: dict[asyncio.Task[None], int]


_stream_contexts: WeakKeyDictionary[Session, _StreamContext] = WeakKeyDictionary()
"""What serves each connection whose stream is in this process."""

_reading: set[asyncio.Task[None]] = set()

_meter = QuotaMeter(LIMITS)
"""Counts the messages being served in this process."""


async def keep_stream(
    server: MCPServer, exchange: Exchange, sink: StreamSink, messages_url: str
) -> Reply:
    """Open a stream, send the client the URL to post to, and serve it until it disconnects.

    Args:
        server: the server of the endpoint.
        exchange: that of the GET; its principal owns the connection.
        sink: the stream.
        messages_url: the URL to post to; the token is added to its query.
    """
    refusal = refuse_stream(server, exchange)
    if refusal is not None:
        return _refuse(refusal)
    principal_key = getattr(exchange.principal, "key", None)
    key = uuid.uuid4().hex
    session = Session.of(key, server.name, principal_key, ConnectionState(), transport=SSE)
    try:
        token = await server.sessions.open(session, exchange)
    except StoreUnavailable:
        token = NO_STORE
    if isinstance(token, Refusal):
        return _refuse(token)
    server.connection_observer.session_opened(session)
    exchange.connection = session
    server.hub.on("legacy", _receive_forwarded(server))
    stream = PushStream(
        kind=StreamKind.LEGACY,
        server_name=server.name,
        sink=sink,
        principal=exchange.principal,
        uris=await server.sessions.read_subscriptions(session),
        session=session,
    )
    quota_key = quota_key_of(principal_key, exchange.address)
    _stream_contexts[session] = _StreamContext(server, QueueSink(stream), exchange, quota_key, {})
    try:
        joiner = "&" if "?" in messages_url else "?"
        await sink.point(f"{messages_url}{joiner}{TOKEN}={token}")
        await run_stream(server, exchange, stream)
    finally:
        _stream_contexts.pop(session, None)
        # Cleanup has to finish although the disconnect cancels this task.
        await asyncio.shield(_end(server, session))
    return Reply(200)


async def _end(server: MCPServer, session: Session) -> None:
    await server.sessions.end(session.key, Closing.STREAM)
    server.hub.end_session(session.key)


async def take_message(server: MCPServer, exchange: Exchange, token: str) -> Reply:
    """Receive a message for the stream of `token`, on which its response is sent."""
    message = decode_message(exchange.body, server.options.max_body_values)
    try:
        session = await find_session(server, exchange, token, transport=SSE)
        if session is None:
            return _refuse(UNKNOWN_SESSION)
        if isinstance(message, Malformed):
            return Reply(message.refusal.status or 400, encode_error(message.id, message.refusal))
        if session in _stream_contexts:
            refusal = _serve(session, message, exchange.body, exchange)
            return Reply(202) if refusal is None else _refuse(refusal)
        if not await server.sessions.has_stream(session):
            # The process that held the stream was killed.
            return _refuse(UNKNOWN_SESSION)
    except StoreUnavailable:
        return _refuse(NO_STORE)
    return await _forward(server, session, exchange.body, exchange.address)


async def _forward(server: MCPServer, session: Session, body: bytes, address: str | None) -> Reply:
    """Send a message to the stream's process, and return an error if that fails."""
    bus = server.join_hub().bus
    if not bus.is_shared:
        return _refuse(_UNREACHABLE)
    message: JSONObject = {"kind": "legacy", "session": session.key}
    try:
        if len(body) <= MAX_PASSED_BYTES:
            message["body"] = body.decode()
        else:
            until_s = server.clock() + KEPT_S
            message["kept"] = await server.states.keep(
                session.key, body, until_s, quota_key_of(session.principal_key, address)
            )
        await bus.send(message)
    except Exception as error:  # noqa: BLE001 - what they raise is their libraries' business
        # The client gets an error, and what failed logs why.
        logger.info("Could not pass a message on to its stream: %r", error)
        return _refuse(_UNREACHABLE)
    return Reply(202)


def _receive_forwarded(server: MCPServer) -> Any:
    def take(message: JSONObject) -> None:
        session = server.hub.sessions.get(message["session"])
        context = _stream_contexts.get(session) if session is not None else None
        if session is None or context is None:
            return
        if "kept" in message:
            reading = asyncio.get_running_loop().create_task(
                _serve_stored(session, context, message["kept"])
            )
            _reading.add(reading)
            reading.add_done_callback(_reading.discard)
        else:
            _serve_forwarded(session, context, message["body"].encode())

    return take


async def _serve_stored(session: Session, context: _StreamContext, reference: str) -> None:
    try:
        body = await context.server.states.take(session.key, reference)
    except Exception:
        logger.exception("Could not read a message that was passed on")
        return
    if body is not None:
        _serve_forwarded(session, context, body)


def _serve_forwarded(session: Session, context: _StreamContext, body: bytes) -> None:
    """Serve a message that another process received; an error is sent on the stream."""
    message = decode_message(body, context.server.options.max_body_values)
    refusal = _serve(session, message, body, context.exchange)
    if refusal is not None:
        request_id = message.id if isinstance(message, Request) else None
        context.sink.answer(encode_error(request_id, refusal))


def _serve(
    session: Session, message: Message | Batch, body: bytes, source: Exchange
) -> Refusal | None:
    """Start to serve a message; return an error if too many are being served."""
    context = _stream_contexts.get(session)
    if context is None:
        return UNKNOWN_SESSION
    # Other messages are served at once, since a request may wait for them.
    count, size = int(isinstance(message, Request | Batch)), len(body)
    if count:
        scope = _take_room(context, size)
        if scope is not None:
            return _TOO_MANY[scope]
    task = asyncio.get_running_loop().create_task(_answer(session, body, source))
    context.running[task] = size * count

    def end(task: asyncio.Task[None]) -> None:
        del context.running[task]
        if count:
            _meter.give_back(context.quota_key, size)

    task.add_done_callback(end)
    return None


def _take_room(context: _StreamContext, size: int) -> Scope | None:
    """Count a message as being served; return the scope of the limit that does not allow it."""
    sizes = [each for each in context.running.values() if each]
    if len(sizes) >= MAX_STREAM_RUNNING or (sizes and sum(sizes) + size > MAX_STREAM_BYTES):
        return Scope.OWN
    return _meter.take(
        context.quota_key, size, anonymous_share=context.server.options.anonymous_share
    )


async def _answer(session: Session, body: bytes, source: Exchange) -> None:
    """Respond to a message on its stream, as part of an HTTP request.

    That is the request that brought it or, if another process received it, the stream's own.
    """
    context = _stream_contexts.get(session)
    if context is None:
        return
    exchange = Exchange(
        body=body,
        headers=_without_rules(source.headers),
        principal=context.exchange.principal,
        address=source.address,
        can_stream=True,
        build_request=source.build_request,
        sink=context.sink,
        url_kwargs=source.url_kwargs,
        connection=session,
    )
    exchange.gate = source.gate
    try:
        reply = await context.server.answer(exchange)
        if reply.body is not None and not reply.is_dispensable:
            context.sink.answer(reply.body)
    except Exception:
        logger.exception("Could not serve a message")


def _without_rules(headers: Headers | None) -> Headers:
    """Return the headers without those of Streamable HTTP, which have no meaning here."""
    found = Headers([] if headers is None else list(headers.by_name.items()))
    for name in (PROTOCOL_VERSION, SESSION_ID, LAST_EVENT_ID):
        found.discard(name)
    return found


def _refuse(refusal: Refusal) -> Reply:
    return Reply(refusal.status or 400, encode_error(None, refusal), refusal.headers)


_TOO_MANY = {
    scope: Refusal(
        code=INVALID_REQUEST,
        message="Too many requests are being answered: wait for the answer to one of them",
        status=scope.value,
        headers=((b"retry-after", b"2"),),
    )
    for scope in Scope
}
_UNREACHABLE = Refusal(
    code=INTERNAL_ERROR,
    message="The stream is at another process, which cannot be reached now: try again",
    status=503,
    headers=((b"retry-after", b"2"),),
)
