"""HTTP+SSE, the transport of 2024-11-05: a URL that keeps a stream open, and a URL to post to.

The connection lasts as long as its stream. If a message arrives in another process than the
stream's, the hub passes it on.

Source: 2024-11-05 basic/transports "HTTP with SSE".
"""

from __future__ import annotations

import asyncio
import time
import uuid
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from msgspec import Struct, field, json
from msgspec.structs import replace

from django_mcp.log import logger
from django_mcp.protocol.errors import INVALID_REQUEST, Refusal, invalid_request, try_later
from django_mcp.protocol.headers import LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID, Headers
from django_mcp.protocol.messages import (
    Batch,
    Malformed,
    Message,
    Request,
    decode_message,
    encode_error,
)
from django_mcp.protocol.records import Record
from django_mcp.server.delivery.open_streams import count_stream, run_stream
from django_mcp.server.engine import Engine
from django_mcp.server.exchange.answers import release_answers
from django_mcp.server.exchange.caller import key_of
from django_mcp.server.exchange.channel import Channel
from django_mcp.server.exchange.exchange import Exchange, Reply, refusal_reply
from django_mcp.server.exchange.quotas import Limits, QuotaMeter, QuotaScope
from django_mcp.server.exchange.session import Closing, Session
from django_mcp.server.exchange.visibility import Allowed
from django_mcp.server.ports import StoreUnavailable
from django_mcp.server.request_checks import UNKNOWN_SESSION, find_session
from django_mcp.server.services import ServerHub
from django_mcp.server.streams.process_messages import ProcessMessage
from django_mcp.server.streams.stream import PushStream, StreamKind
from django_mcp.transports.http.consumer import EntryPoint, MCPConsumer
from django_mcp.transports.http.narrowing import TOOLSETS_VARIABLE
from django_mcp.transports.http.replies import error_reply
from django_mcp.transports.http.sink import StreamSink

TOKEN = "session_id"  # noqa: S105 - the name of a query parameter

SSE = "sse"
"""The transport name that its sessions are stored with."""

MAX_PASSED_BYTES = 30 * 1024
"""Largest message that is passed to another process directly; JSON may double it."""

KEPT_S = 60.0
"""How long a larger message is kept for that process."""

MAX_STREAM_RUNNING = 100
MAX_STREAM_BYTES = 16 * 1024 * 1024
"""Number and size of one connection's requests that are served at a time."""

LIMITS = Limits(own_count=1000, own_bytes=64 * 1024 * 1024, count=10_000, bytes=256 * 1024 * 1024)
"""The same for all connections of one caller in a process, and for all in it."""

_requests = QuotaMeter()
_others = QuotaMeter()
"""Count the requests being served in this process, and the other messages: a request may wait for these."""

_passed = QuotaMeter()
_passed_until_s = 0.0
"""Counts the messages that this process passed to others in the last `KEPT_S`, which may be stored for so long."""

_connections: dict[str, _Connection] = {}
"""The connections whose streams are in this process, by the keys of their sessions."""

_TOO_MANY = {
    scope: try_later(
        "Too many messages are being served: send this one again later",
        2,
        code=INVALID_REQUEST,
        status=scope.value,
    )
    for scope in QuotaScope
}

_UNREACHABLE = try_later(
    "The stream is at another process, which cannot be reached now: try again", 2
)

_FEWER_RIGHTS = invalid_request(
    "These credentials do not have all the rights of those that opened the stream, or are sent to another "
    "address: open a stream with them",
    403,
)

MAX_QUERY_FIELDS = 100
"""Fields of a query that are read."""


class ForwardedMessage(ProcessMessage, tag="forwarded"):
    """A client's message for the stream of its session, or a reference to where it is stored.

    The rights of its request are a line before it.
    """

    session: str
    text: str = ""
    reference: str | None = None


class Rights(Struct, frozen=True, omit_defaults=True):
    """What the credentials of a request are for, apart from what their user may do."""

    scopes: frozenset[str] | None = None
    """None: all."""
    allowed: Allowed | None = None
    """The only entries; None: all."""
    resource: str | None = None
    """The host and path of the stream; None: it has none."""
    tenant: str = ""
    """Of the request, once middleware has named it. Where middleware runs again for a message, it need not be equal."""

    def cover(self, other: Rights) -> bool:
        """Return whether these are for the same stream, and have all the rights of others."""
        if self.scopes is not None:
            # Loads the settings, which importing a server must not.
            from django_mcp.auth.scopes import are_covered

            if other.scopes is None or not are_covered(other.scopes, self.scopes):
                return False
        is_for_all = self.allowed is None or (
            other.allowed is not None and self.allowed.covers(other.allowed)
        )
        return is_for_all and self.resource == other.resource


def rights_of(exchange: Exchange) -> Rights:
    """Return the rights of a request for a stream, or of one with a message for it."""
    caller = exchange.caller
    auth = getattr(caller.principal, "auth", None)
    return Rights(
        scopes=None if auth is None or auth.has_all_scopes else auth.scopes,
        allowed=None if auth is None else auth.allowed,
        resource=None if caller.build_request is None else _find_resource(caller.build_request()),
        tenant=caller.tenant,
    )


def _find_resource(request: Any) -> str | None:
    from django.core.exceptions import DisallowedHost

    from django_mcp.auth.addresses import resource_of

    with suppress(DisallowedHost):
        resource = resource_of(request)
        # Processes may be reached at ports of their own. The path has no escapes any more.
        path = resource.partition("://")[2].partition("/")[2]
        return f"{urlsplit(resource).hostname}/{path}"
    return None


class _Connection(Record):
    """One client's connection, and the `Sink` of its calls, which share the queue of its stream.

    If the queue is full because the client does not read, the stream ends; see `PushStream.offer`. Its
    exchange is that of the GET that opened the stream.
    """

    _server: Engine
    _exchange: Exchange
    _session: Session
    _stream: PushStream
    rights: Rights
    """Those of the stream, with which its messages are served."""
    _running: dict[asyncio.Task[None], int] = field(default_factory=dict)

    async def send(self, message: bytes) -> None:
        """See `Sink.send`; returns when the queue is empty or the stream has ended."""
        if self._stream.offer(message):
            await self._stream.drain()

    def serve(self, message: Message | Batch, body: bytes, source: Exchange) -> Refusal | None:
        """Start to serve a message; return an error if too many are being served."""
        is_request, size = isinstance(message, Request | Batch), len(body)
        # As it is now: the exchange may get another principal.
        quota_key = self._exchange.caller.quota_key
        if is_request:
            sizes = [call for call in self._running.values() if call]
            if len(sizes) >= MAX_STREAM_RUNNING or (sizes and sum(sizes) + size > MAX_STREAM_BYTES):
                return _TOO_MANY[QuotaScope.OWN]
        meter = _requests if is_request else _others
        scope = meter.take(LIMITS, quota_key, size, share=self._server.options.anonymous_share)
        if scope is not None:
            return _TOO_MANY[scope]
        task = asyncio.get_running_loop().create_task(self._answer(body, source))
        self._running[task] = size if is_request else 0

        def end(task: asyncio.Task[None]) -> None:
            del self._running[task]
            meter.give_back(quota_key, size)

        task.add_done_callback(end)
        return None

    def serve_forwarded(self, text: bytes) -> None:
        """Serve a message that another process received; an error is sent on the stream."""
        line, _, body = text.partition(b"\n")
        message = decode_message(body, self._server.options.max_body_values)
        rights = json.decode(line, type=Rights)
        # It is served with the headers of the stream, so at the stream's tenant.
        if rights.tenant == self.rights.tenant and rights.cover(self.rights):
            refusal = self.serve(message, body, self._exchange)
        else:
            refusal = _FEWER_RIGHTS
        if refusal is not None:
            request_id = message.id if isinstance(message, Request) else None
            self._stream.offer(encode_error(request_id, refusal))

    async def serve_stored(self, reference: str) -> None:
        """Serve a message that another process received and stored."""
        try:
            text = await self._server.ports.states.take(self._session.key, reference)
        except Exception:
            logger.exception("Could not read a message that was passed on")
            return
        if text is not None:
            self.serve_forwarded(text)

    async def _answer(self, body: bytes, source: Exchange) -> None:
        """Respond to a message on the stream, as part of an HTTP request.

        That is the request that brought it or, if another process received it, the stream's own.
        """
        if not self._stream.is_open:
            return
        headers = Headers([] if source.headers is None else list(source.headers.by_name.items()))
        # Those of Streamable HTTP have no meaning here.
        for name in (PROTOCOL_VERSION, SESSION_ID, LAST_EVENT_ID):
            headers.discard(name)
        exchange = Exchange(
            body=body,
            headers=headers,
            connection=self._session,
            # Another process does not pass on what the headers of the message said.
            caller=replace(
                source.caller,
                principal=self._exchange.caller.principal,
                narrowing=self._exchange.caller.narrowing,
            ),
            channel=Channel(can_stream=True, sink=self, counts_answers=True),
        )
        try:
            try:
                reply = await self._server.answer(exchange)
            finally:
                # From here on the stream counts it.
                release_answers(exchange)
            if reply.body is not None and not reply.is_dispensable:
                self._stream.offer(reply.body)
        except Exception:
            logger.exception("Could not serve a message")


async def keep_stream(
    server: Engine, sink: StreamSink, messages_url: str, exchange: Exchange
) -> Reply:
    """Open a stream, send the client the URL to post to, and serve it until it disconnects."""
    session = Session(
        key=uuid.uuid4().hex,
        server_name=server.name,
        principal_key=key_of(exchange.caller.principal),
        transport=SSE,
        opened_s=server.ports.clock(),
    )
    with ExitStack() as counted:
        refusal = counted.enter_context(count_stream(server, exchange))
        if refusal is not None:
            return refusal_reply(refusal)
        try:
            token: str | Refusal = await server.ports.sessions.open(session, exchange)
        except StoreUnavailable as error:
            token = error.to_refusal()
        if isinstance(token, Refusal):
            return refusal_reply(token)
        server.ports.connection_observer.session_opened(session)
        exchange.connection = session
        server.hub.on(ForwardedMessage, partial(_receive_forwarded, server.hub))
        try:
            stream = PushStream(
                kind=StreamKind.LEGACY,
                server_name=server.name,
                sink=sink,
                principal=exchange.caller.principal,
                uris=await server.ports.sessions.read_subscriptions(session),
                session=session,
            )
            rights = rights_of(exchange)
            _connections[session.key] = _Connection(server, exchange, session, stream, rights)
            joiner = "&" if "?" in messages_url else "?"
            await sink.point(f"{messages_url}{joiner}{TOKEN}={token}")
            # From here on the hub counts it.
            counted.close()
            await run_stream(server, exchange, stream)
        finally:
            _connections.pop(session.key, None)
            # Cleanup has to finish although the disconnect cancels this task.
            await asyncio.shield(_end(server, session))
    return Reply(200)


async def _end(server: Engine, session: Session) -> None:
    try:
        await server.ports.sessions.end([session.key], Closing.STREAM)
    finally:
        # Its calls have nobody to answer to, even if the store cannot be reached.
        server.hub.end_session(session.key)


async def take_message(server: Engine, token: str, exchange: Exchange) -> Reply:
    """Receive a message for the stream of `token`, on which its response is sent."""
    message = decode_message(exchange.body, server.options.max_body_values)
    try:
        session = await find_session(server, exchange, token, transport=SSE)
        if session is None:
            return refusal_reply(UNKNOWN_SESSION)
        if isinstance(message, Malformed):
            exchange.connection = session
            return await server.operations.take(server, message, exchange)
        connection = _connections.get(session.key)
        if connection is not None:
            if not rights_of(exchange).cover(connection.rights):
                return refusal_reply(_FEWER_RIGHTS)
            refusal = connection.serve(message, exchange.body, exchange)
            return Reply(202) if refusal is None else refusal_reply(refusal)
        if not await server.ports.sessions.has_stream(session):
            # The process that held the stream was killed.
            return refusal_reply(UNKNOWN_SESSION)
    except StoreUnavailable as error:
        return refusal_reply(error.to_refusal())
    # The process of the stream knows neither the address nor the headers of this request.
    return await server.within_middleware(partial(_forward, server, session), exchange)


async def _forward(server: Engine, session: Session, exchange: Exchange) -> Reply:
    """Send a message to the stream's process, and return an error if that fails."""
    bus = server.join_hub().bus
    if not bus.is_shared:
        return refusal_reply(_UNREACHABLE)
    text = json.encode(rights_of(exchange)) + b"\n" + exchange.body
    quota_key = exchange.caller.quota_key
    scope = _count_passed(quota_key, len(text), server.options.anonymous_share)
    if scope is not None:
        return refusal_reply(_TOO_MANY[scope])
    try:
        if len(text) <= MAX_PASSED_BYTES:
            message = ForwardedMessage(session=session.key, text=text.decode())
        else:
            until_s = server.ports.clock() + KEPT_S
            reference = await server.ports.states.keep(session.key, text, until_s, quota_key)
            message = ForwardedMessage(session=session.key, reference=reference)
        await bus.send(message.to_wire())
    except Exception as error:  # noqa: BLE001 - what they raise is their libraries' business
        # The client gets an error, and what failed logs why.
        logger.info("Could not pass a message on to its stream: %r", error)
        return refusal_reply(_UNREACHABLE)
    return Reply(202)


def _count_passed(quota_key: str, size: int, anonymous_share: float) -> QuotaScope | None:
    global _passed, _passed_until_s
    now_s = time.monotonic()
    if now_s >= _passed_until_s:
        _passed, _passed_until_s = QuotaMeter(), now_s + KEPT_S
    return _passed.take(LIMITS, quota_key, size, share=anonymous_share)


def _receive_forwarded(hub: ServerHub, message: ForwardedMessage) -> None:
    connection = _connections.get(message.session)
    if connection is None:
        return
    if message.reference is not None:
        hub.spawn(connection.serve_stored(message.reference))
    else:
        connection.serve_forwarded(message.text.encode())


class _LegacyConsumer(MCPConsumer):
    """Serves one of the two URLs, by one method."""

    _allowed = b""

    def _allowed_methods(self, headers: Headers) -> bytes:
        return self._allowed

    async def _refuse(self, _exchange: Exchange) -> Reply:
        return error_reply(405, "Method not allowed", ((b"allow", self._allowed),))


class LegacyStreamConsumer(_LegacyConsumer):
    """Keep a client's stream open: `GET .../sse`."""

    _allowed = b"GET, OPTIONS"

    def _find_entry_point(self, method: str) -> EntryPoint:
        scope: Any = self.scope
        if method != "GET" or self._sink is None:
            return self._refuse
        query = scope.get("query_string", b"").decode("latin-1")
        start = scope["path"].removesuffix("/")
        # A stream for some toolsets has a path of its own to post to, since a token is for its resource alone.
        is_narrowed = TOOLSETS_VARIABLE in (scope.get("url_route") or {}).get("kwargs", {})
        start = f"{start}/" if is_narrowed else start.removesuffix("sse")
        path = f"{quote(start)}messages"
        url = f"{path}?{query}" if query else path
        keep = partial(keep_stream, self.server, self._sink, url)
        return partial(self.server.within_middleware, keep)


class LegacyMessageConsumer(_LegacyConsumer):
    """Receive a client's messages: `POST .../messages?session_id=...`."""

    _allowed = b"POST, OPTIONS"

    def _find_entry_point(self, method: str) -> EntryPoint:
        scope: Any = self.scope
        if method != "POST":
            return self._refuse
        query = scope.get("query_string", b"").decode("latin-1")
        try:
            tokens = parse_qs(query, max_num_fields=MAX_QUERY_FIELDS).get(TOKEN, [""])
        except ValueError:
            # The query has too many fields.
            tokens = [""]
        return partial(take_message, self.server, tokens[-1])
