"""The Channels consumer: one exchange over ASGI, from its headers to the last byte of its answer.

It is mounted in a `URLRouter` like any other consumer and goes its own way from there: Channels'
dispatch would take a channel from the layer, hop to a thread for each message, keep a body of any
size, and hear of a client's end only when the call is over. Here the call runs in the task the
ASGI server gave us, and a watch beside it sees the client go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

from channels.generic.http import AsyncHttpConsumer
from django.core.handlers.asgi import ASGIRequest

from django_mcp.protocol.headers import Headers
from django_mcp.protocol.records import Record
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.server.exchange.timers import Interrupt, TaskTimers
from django_mcp.transports.http.body import Receive, read_body
from django_mcp.transports.http.entries import Entry, find_entry, refuse_at_door
from django_mcp.transports.http.guard import Clearance, current_guard
from django_mcp.transports.http.replies import fault, json_headers, noted
from django_mcp.transports.http.sink import Send, StreamSink
from django_mcp.transports.http.watch import Watch
from django_mcp.transports.http.websocket import refuse_websocket

if TYPE_CHECKING:
    from django_mcp.server.server import MCPServer

__all__ = ["MCPConsumer"]

logger = logging.getLogger("django_mcp")

_NO_CLEARANCE = Clearance()

WATCH_AFTER_S = 0.1
"""A call is given this long before a task is spent on watching its client; most are done by then."""


class MCPConsumer(AsyncHttpConsumer):
    """Serve one MCP server over ASGI: `MCPConsumer.as_asgi(server=server)`.

    One consumer lives for one request. It never takes the channel layer and touches no database.
    """

    _clearance = _NO_CLEARANCE
    _exchange: Exchange | None = None
    _sink: StreamSink | None = None
    _has_started = False
    _released: asyncio.Future[None] | None = None
    _watching: Watch | None = None
    _gone: Interrupt | None = None

    def __init__(self, *, server: MCPServer) -> None:
        super().__init__()
        self.server = server
        self._timers = TaskTimers()

    def __call__(self, scope: Any, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        """Answer the request; done when all of it is sent, or nobody is there to send it to."""
        if scope["type"] == "websocket":
            return refuse_websocket(scope, receive, send)
        if scope["type"] != "http":
            raise ValueError(f"MCP is served over http, not over {scope['type']}")
        self.scope = scope
        self._receive = receive
        self._send = send
        return self._serve() if _lets_calls_finish(scope) else self._serve_apart()

    async def _serve(self) -> None:
        try:
            reply = await self._timers.drive(self._reply())
            if reply is not None:
                await self._respond(reply)
        except Exception:
            logger.exception("Could not serve a request")
            await self._give_up()

    async def _serve_apart(self) -> None:
        """Serve in a task of its own, for a call that has to outlive its client."""
        self._released = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._serve())
        _apart.add(task)
        task.add_done_callback(_apart.discard)
        try:
            await asyncio.wait((task, self._released), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait((task,))
            raise

    async def _reply(self) -> Reply | None:
        """Return the answer, or None when the client has gone."""
        scope, server = self.scope, self.server
        method = scope["method"]
        raw_headers: Any = scope["headers"]
        headers = Headers.from_asgi(raw_headers)
        options = server.options
        clearance = self._clearance = current_guard().examine(
            method, scope.get("scheme") or "http", headers, options.max_body_bytes
        )
        if clearance.reply is not None or method != "POST":
            allowed = partial(self._allowed_methods, headers)
            refusal = refuse_at_door(server, method, clearance, allowed)
            if refusal is not None:
                return noted(refusal)
        exchange = self._exchange = self._open_exchange(headers, clearance)
        authenticate = server.authenticate
        if authenticate is not None:
            exchange.build_request = _RequestBuilder(scope, b"")
            challenge = await authenticate(exchange)
            if challenge is not None:
                return challenge
        timers = exchange.timers = self._timers
        if method == "POST":
            body = await read_body(
                self._receive, options.max_body_bytes, options.body_timeout_s, timers
            )
            if not isinstance(body, bytes):
                return None if body is None else noted(body)
            exchange.body = body
            # A stream that this opens must not hold it for as long as it lasts.
            del body
        exchange.build_request = _RequestBuilder(scope, exchange.body)
        watching = timers.after(WATCH_AFTER_S, self._watch)
        try:
            return await self._find_entry()(exchange)
        except asyncio.CancelledError:
            if self._gone is None or not self._gone.is_ours():
                raise
            # Cancelled with the client gone.
            return None
        finally:
            watching.cancel()
            if self._watching is not None:
                self._watching.close()

    def _watch(self) -> None:
        if self._exchange is not None:
            keepalive_s = self.server.options.keepalive_s
            self._watching = Watch(
                self._exchange, self._receive, self._sink, keepalive_s, self._on_gone
            )

    def _open_exchange(self, headers: Headers, clearance: Clearance) -> Exchange:
        scope: Any = self.scope
        client = scope.get("client")
        route = scope.get("url_route")
        if clearance.may_stream:
            self._sink = StreamSink(self._send, clearance.headers)
        return Exchange(
            headers=headers,
            address=client[0] if client else None,
            can_stream=clearance.may_stream,
            sink=self._sink,
            url_kwargs=route["kwargs"] if route else {},
        )

    def _find_entry(self) -> Entry:
        return find_entry(self.server, self.scope["method"])

    def _allowed_methods(self, headers: Headers) -> bytes:
        return self.server.allowed_methods(headers)

    def _on_gone(self) -> None:
        exchange, self._gone = self._exchange, Interrupt(self._timers)
        is_ending = (
            exchange is not None
            and exchange.cancels_on_disconnect
            and exchange.interrupt(self._gone.fire)
        )
        if self._released is not None and not is_ending and not self._released.done():
            self._released.set_result(None)

    async def _respond(self, reply: Reply) -> None:
        exchange, sink = self._exchange, self._sink
        if exchange is not None and exchange.is_disconnected:
            return
        if sink is not None:
            if sink.has_started or (reply.status == 200 and self._clearance.must_stream):
                await sink.finish(reply)
                return
            sink.close()
        try:
            await self._send(
                {
                    "type": "http.response.start",
                    "status": reply.status,
                    "headers": json_headers(reply, self._clearance.headers),
                }
            )
            self._has_started = True
            await self._send({"type": "http.response.body", "body": reply.body or b""})
        except OSError:
            # How servers of ASGI 2.4 may say that the client has gone.
            return

    async def _give_up(self) -> None:
        """End what was begun, or say that nothing can be."""
        if self._sink is not None and self._sink.has_started:
            await self._sink.finish(Reply(200))
        elif not self._has_started:
            await self._respond(fault())


class _RequestBuilder(Record):
    """Build Django's request of an ASGI scope and a body."""

    scope: Any
    body: bytes

    def __call__(self) -> ASGIRequest:
        return ASGIRequest(self.scope, BytesIO(self.body))

    def forget_body(self) -> None:
        """See `Exchange.forget_body`."""
        self.body = b""


_apart: set[asyncio.Task[None]] = set()
"""Keeps the tasks that outlive their ASGI call from being collected."""


def _lets_calls_finish(scope: Any) -> bool:
    """Tell whether the ASGI server leaves a call alone after its client has gone.

    Daphne cancels it ten seconds later, with a warning. It is also the one that names no version
    of the HTTP specification, which then counts as 2.0.
    """
    return "spec_version" in scope.get("asgi", ())
