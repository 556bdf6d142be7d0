"""What the two URLs of HTTP+SSE do: one keeps a stream open, the other takes messages for it.

The connection lives and dies with its stream. A message may arrive at another process than the
stream is at; the hub takes it there.

Source: 2024-11-05 basic/transports "HTTP with SSE".
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.messages import Malformed, decode_message, encode_error
from django_mcp.server.connection import ConnectionState
from django_mcp.server.exchange import Exchange, Reply, Sink
from django_mcp.server.interfaces import StoreUnavailable
from django_mcp.server.push import PushStream, StreamKind
from django_mcp.server.sessions import NO_STORE, UNKNOWN_SESSION, Closing, Session, find_session
from django_mcp.server.standing import refuse_stream, run_stream

if TYPE_CHECKING:
    from django_mcp.server.server import MCPServer
    from django_mcp.transports.http.sink import StreamSink

__all__ = ["TOKEN", "keep_stream", "take_message"]

logger = logging.getLogger("django_mcp")

TOKEN = "session_id"  # noqa: S105 - the name of a query parameter

_ways: WeakKeyDictionary[Session, tuple[MCPServer, Sink, Any]] = WeakKeyDictionary()
"""How to serve the connections whose streams are in this process."""

_running: set[asyncio.Task[None]] = set()


async def keep_stream(
    server: MCPServer, exchange: Exchange, sink: StreamSink, messages_url: str
) -> Reply:
    """Open a stream, tell the client where to post, and serve it until it leaves.

    Args:
        server: whose.
        exchange: of the GET; its principal owns the connection.
        sink: the stream.
        messages_url: where the client posts; the token is added to its query.
    """
    refusal = refuse_stream(server, exchange)
    if refusal is not None:
        return _refuse(refusal)
    principal_key = getattr(exchange.principal, "key", None)
    key = uuid.uuid4().hex
    session = Session(key, server.name, principal_key, ConnectionState(), transport="sse")
    try:
        token = await server.sessions.open(session, exchange)
    except StoreUnavailable:
        token = NO_STORE
    if isinstance(token, Refusal):
        return _refuse(token)
    server.connection_observer.session_opened(session)
    exchange.connection = session
    _ways[session] = (server, sink, exchange.principal)
    server.hub.on("legacy", _take_passed_on(server))
    stream = PushStream(
        kind=StreamKind.LEGACY,
        server_name=server.name,
        sink=sink,
        principal=exchange.principal,
        uris=await server.sessions.read_subscriptions(session),
        session=session,
    )
    try:
        joiner = "&" if "?" in messages_url else "?"
        await sink.point(f"{messages_url}{joiner}{TOKEN}={token}")
        await run_stream(server, exchange, stream)
    finally:
        _ways.pop(session, None)
        # Cleanup has to finish although the client's leaving cancels this task.
        await asyncio.shield(_end(server, session))
    return Reply(200)


async def _end(server: MCPServer, session: Session) -> None:
    await server.sessions.end(session.key, Closing.STREAM)
    server.hub.end_session(session.key)


async def take_message(server: MCPServer, exchange: Exchange, token: str) -> Reply:
    """Take a message for the stream that `token` belongs to; its answer goes there."""
    try:
        session = await find_session(server, exchange, token)
    except StoreUnavailable:
        return _refuse(NO_STORE)
    if session is None:
        return _refuse(UNKNOWN_SESSION)
    message = decode_message(exchange.body)
    if isinstance(message, Malformed):
        return Reply(400, encode_error(message.id, message.refusal))
    if session in _ways:
        _serve(session, exchange.body)
    else:
        server.join_hub().tell("legacy", session=session.key, body=exchange.body.decode())
    return Reply(202)


def _take_passed_on(server: MCPServer) -> Any:
    def take(message: JSONObject) -> None:
        session = server.hub.sessions.get(message["session"])
        if session is not None and session in _ways:
            _serve(session, message["body"].encode())

    return take


def _serve(session: Session, body: bytes) -> None:
    task = asyncio.get_running_loop().create_task(_answer(session, body))
    _running.add(task)
    task.add_done_callback(_running.discard)


async def _answer(session: Session, body: bytes) -> None:
    server, sink, principal = _ways[session]
    exchange = Exchange(
        body=body, connection=session, sink=sink, can_stream=True, principal=principal
    )
    try:
        reply = await server.answer(exchange)
        if reply.body is not None:
            await sink.send(reply.body)
    except Exception:
        logger.exception("Could not serve a message")


def _refuse(refusal: Refusal) -> Reply:
    return Reply(refusal.status or 400, encode_error(None, refusal), refusal.headers)
