"""The Channels consumer, which serves one exchange over ASGI in the task of the ASGI server.

A watch beside it detects that the client has disconnected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from io import BytesIO
from typing import Any, TypeAlias

from channels.generic.http import AsyncHttpConsumer
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest
from msgspec.structs import replace

from django_mcp.execution.threads import caller_address
from django_mcp.log import logger
from django_mcp.protocol.headers import Headers
from django_mcp.protocol.messages import find_id
from django_mcp.protocol.records import Record
from django_mcp.server.exchange.answers import count_answer, release_answers
from django_mcp.server.exchange.caller import ANONYMOUS, Caller
from django_mcp.server.exchange.channel import Channel
from django_mcp.server.exchange.exchange import Exchange, Reply, refusal_reply
from django_mcp.server.exchange.pending import (
    ANSWER_DROPPED,
    BODY_REFUSED,
    PART_BYTES,
    PendingBytes,
)
from django_mcp.server.exchange.timers import Interrupt, TaskTimers, hold
from django_mcp.server.server import BaseServer
from django_mcp.transports.http import browsers
from django_mcp.transports.http.browsers import MakePage
from django_mcp.transports.http.guard import HeaderCheck, current_guard
from django_mcp.transports.http.narrowing import (
    READ_ONLY_HEADER,
    TOOLSETS_HEADER,
    TOOLSETS_VARIABLE,
    find_narrowing,
)
from django_mcp.transports.http.replies import (
    HTML_TYPE,
    JSON_TYPE,
    RawHeader,
    error_reply,
    internal_error,
    refusals,
    reject_websocket,
    too_large,
    whole_headers,
)
from django_mcp.transports.http.sink import (
    Fate,
    Receive,
    Send,
    StreamSink,
    Watch,
    has_gone,
    send_parts,
    wait_for_room,
)
from django_mcp.transports.http.trailers import (
    TRANSFER_ENCODING,
    keeps_apart,
    refuse_trailers,
)

EntryPoint: TypeAlias = Callable[[Exchange], Awaitable[Reply]]

WATCH_AFTER_S = 0.1
"""A client is watched only after this time, because most calls have finished by then."""

LEFT_BYTES = 1024 * 1024
"""What a server may keep of an answer that its client does not read; granian's default is 850 KiB."""

CLOSE = (b"connection", b"close")

_NOT_CHECKED = HeaderCheck()

ABOUT_FORM = frozenset({405, 406, 415})
"""Refusals of a verb or media type. A client without credentials learns first where to get some, since
clients look for the challenge with requests of any form (RFC 9728 section 5.1)."""


class MCPConsumer(AsyncHttpConsumer):
    """Serve one MCP server over ASGI: `MCPConsumer.as_asgi(server=server)`.

    Each request has its own consumer. It uses neither the channel layer nor a database.
    """

    _exchange: Exchange | None = None
    _sink: StreamSink | None = None
    _has_started = False
    _released: asyncio.Future[None] | None = None
    _gone: Interrupt | None = None
    _fate = Fate.SENT
    """What became of a large answer that is sent whole."""

    def __init__(self, *, server: BaseServer, make_page: MakePage | None = None) -> None:
        super().__init__()
        # Each request reads these, and Python finds them faster here than in the class.
        self._header_check = _NOT_CHECKED
        self._watching: Watch | None = None
        self._pending: PendingBytes | None = None
        """What counts of the request's body; None: nothing, since it is small."""
        self._make_page = make_page
        # One engine serves all of a request, also if settings change meanwhile.
        self.server = server.engine

    @classmethod
    def as_asgi(cls, **initkwargs: Any) -> Any:
        """Return the ASGI application: Channels' own without a coroutine for each request."""
        server, make_page = initkwargs["server"], initkwargs.get("make_page")

        def application(scope: Any, receive: Receive, send: Send) -> Awaitable[None]:
            return cls(server=server, make_page=make_page)(scope, receive, send)

        return application

    def __call__(self, scope: Any, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        """Respond to the request; returns when all is sent or the client has disconnected."""
        if scope["type"] == "websocket":
            return reject_websocket(scope, receive, send)
        if scope["type"] != "http":
            raise ValueError(f"MCP is served over http, not over {scope['type']}")
        self.scope = scope
        self._receive = receive
        self._send = send
        # Daphne cancels a call ten seconds after its client has gone, with a warning. It is also the
        # one server that names no version of the HTTP specification, which then counts as 2.0.
        cancels_calls = "spec_version" not in scope.get("asgi", ())
        return self._serve_apart() if cancels_calls else self._serve()

    async def _serve(self) -> None:
        try:
            raw_headers: Any = self.scope["headers"]
            headers = Headers(raw_headers)
            is_chunked = TRANSFER_ENCODING in headers.by_name
            reply = await (self._reply_to_chunked() if is_chunked else self._reply(headers))
            if reply is not None:
                body = reply.body
                if body is not None and len(body) > PART_BYTES:
                    reply = self._count_answer(reply, body)
                if reply.status < 400:
                    await self._respond(reply)
                else:
                    await self._send_refusal(reply)
        except Exception:
            logger.exception("Could not serve a request")
            await self._abort()
        finally:
            if self._pending is not None:
                self._pending.close()
            exchange, sink = self._exchange, self._sink
            if exchange is not None:
                channel = exchange.channel
                # Before `pending` is read, since a thread may still count its result.
                channel.counts_answers = False
                if channel.pending is not None or (sink is not None and sink.has_started):
                    self._release_answers(exchange)

    async def _send_refusal(self, reply: Reply) -> None:
        """Log and send a refusal; a browser gets a page."""
        self._log(reply)
        page = self._find_page(reply)
        if page is None:
            await self._respond(reply)
        else:
            await self._respond(replace(reply, body=page), HTML_TYPE)

    def _release_answers(self, exchange: Exchange) -> None:
        """Count the answers no longer, but for what the server keeps of one that its client did not read."""
        counted = 0 if exchange.channel.pending is None else exchange.channel.pending.size
        release_answers(exchange)
        fate = self._fate if self._sink is None or not self._sink.has_started else self._sink.fate
        if fate is Fate.LEFT:
            left = PendingBytes(exchange.caller.quota_key, self.server.options)
            left.add(min(counted or LEFT_BYTES, LEFT_BYTES))
            hold(asyncio.create_task(_close_when_gone(left, self._receive)))

    def _count_answer(self, reply: Reply, body: bytes) -> Reply:
        """Return a reply if its body may wait for the client, else an error in its place."""
        exchange = self._exchange
        if exchange is None:
            return reply
        if self._pending is not None:
            # The body of the request has been served.
            self._pending.close()
        scope = count_answer(exchange, len(body), self.server.options, is_whole=True)
        if scope is None:
            return reply
        return refusal_reply(ANSWER_DROPPED[scope], request_id=find_id(body))

    def _count_body(self, size: int) -> Reply | None:
        """Count more bytes of the request's body; return an error if it may not be kept."""
        scope = self._find_pending().add(size)
        if scope is None:
            return None
        reply = refusal_reply(BODY_REFUSED[scope])
        # The rest may still come, so the connection cannot be used again (RFC 9110, 15.5.9).
        return replace(reply, headers=(*reply.headers, CLOSE))

    def _find_pending(self) -> PendingBytes:
        pending = self._pending
        if pending is None:
            exchange = self._exchange
            quota_key = "" if exchange is None else exchange.caller.quota_key
            pending = self._pending = PendingBytes(quota_key, self.server.options)
        return pending

    def _log(self, reply: Reply) -> None:
        """Log a refusal, unless it is the last event of a stream or its client has gone."""
        exchange, sink = self._exchange, self._sink
        if (sink is None or not sink.has_started) and not (
            exchange and exchange.channel.is_disconnected
        ):
            scope = self.scope
            client = scope.get("client")
            instrument = self.server.ports.instrument
            if instrument is not None:
                instrument.refused(self.server, reply)
            refusals.write(
                reply,
                method=scope["method"],
                path=scope.get("path") or "",
                address=client[0] if client else None,
            )

    def _find_page(self, reply: Reply) -> bytes | None:
        """Return the page in the body of a refusal to a browser that opened the endpoint; None: none."""
        make_page, scope = self._make_page, self.scope
        if make_page is None or scope["method"] != "GET" or reply.status not in browsers.STATUSES:
            return None
        # The guard refuses hosts and origins, of which no page may be made.
        if self._header_check.reply is not None or not browsers.is_browser(scope["headers"]):
            return None
        if not self.server.options.browser_page:
            return None
        return browsers.find_page(make_page, self._request_builder(b""))

    async def _serve_apart(self) -> None:
        """Serve in a separate task, for a call that has to outlive its client."""
        self._released = asyncio.get_running_loop().create_future()
        task = hold(asyncio.create_task(self._serve()))
        try:
            await asyncio.wait((task, self._released), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait((task,))
            raise

    async def _reply(self, headers: Headers) -> Reply | None:
        """Return the response, or None if the client has disconnected."""
        scope, server = self.scope, self.server
        options, method = server.options, scope["method"]
        header_check = self._header_check = current_guard().examine(
            method,
            scope.get("scheme") or "http",
            scope["path"],
            headers,
            options.max_body_bytes,
        )
        authenticate = server.authenticate
        refusal = None
        if header_check.reply is not None or method != "POST":
            refusal = self._check_head(method, headers, header_check)
            if refusal is not None and (authenticate is None or refusal.status not in ABOUT_FORM):
                return refusal
        exchange = self._exchange = self._open_exchange(headers, header_check)
        if authenticate is not None:
            exchange.caller.build_request = self._request_builder(b"")
            refusal = await authenticate(exchange) or refusal
            if refusal is not None:
                return refusal
        timers = exchange.channel.timers = TaskTimers.of_current_task()
        if method == "POST":
            body = await read_body(
                self._receive,
                options.max_body_bytes,
                options.body_timeout_s,
                timers,
                self._count_body,
            )
            if not isinstance(body, bytes):
                return body
            exchange.body = body
            # A long stream must not keep the body in memory.
            del body
        exchange.caller.build_request = self._request_builder(exchange.body)
        watch_timer = timers.after(WATCH_AFTER_S, self._watch)
        try:
            return await self._find_entry_point(method)(exchange)
        except asyncio.CancelledError:
            if self._gone is None or not self._gone.is_ours():
                raise
            # Cancelled because the client has disconnected.
            return None
        finally:
            watch_timer.cancel()
            if self._watching is not None:
                self._watching.close()

    def _check_head(self, method: str, headers: Headers, header_check: HeaderCheck) -> Reply | None:
        """Return an error reply or a preflight response, or None if the request may continue."""
        reply = header_check.reply
        if reply is None:
            if method == "GET" and self.server.keeps_sessions and not header_check.may_stream:
                return error_reply(
                    406, "Accept must admit text/event-stream: MCP is for AI clients"
                )
            return None
        is_about_verbs = reply.status == 405 or any(name == b"allow" for name, _ in reply.headers)
        if is_about_verbs:
            return replace(reply, headers=((b"allow", self._allowed_methods(headers)),))
        return reply

    def _watch(self) -> None:
        if self._exchange is not None:
            keepalive_s = self.server.options.keepalive_s
            self._watching = Watch(
                self._exchange.channel, self._receive, self._sink, keepalive_s, self._on_gone
            )

    def _open_exchange(self, headers: Headers, header_check: HeaderCheck) -> Exchange:
        scope: Any = self.scope
        client = scope.get("client")
        address = client[0] if client else None
        caller_address.set(address)
        route = scope.get("url_route")
        url_kwargs = route["kwargs"] if route else {}
        caller, by_name = Caller(ANONYMOUS, address, url_kwargs), headers.by_name
        if (
            TOOLSETS_HEADER in by_name
            or READ_ONLY_HEADER in by_name
            or TOOLSETS_VARIABLE in url_kwargs
        ):
            caller.narrowing = find_narrowing(headers, url_kwargs)
            others = {**url_kwargs}
            others.pop(TOOLSETS_VARIABLE, None)
            caller.url_kwargs = others
        return Exchange(b"", headers, caller, self._open_channel(header_check))

    def _open_channel(self, header_check: HeaderCheck) -> Channel:
        if not header_check.may_stream:
            return Channel(counts_answers=True)
        timeout_s = self.server.options.send_timeout_s
        sink = self._sink = StreamSink(self._send, header_check.headers, timeout_s)
        return Channel(True, sink, sink, counts_answers=True)

    async def _reply_to_chunked(self) -> Reply | None:
        """Return the response to a chunked request, or an error if trailers may be among its headers."""
        raw_headers: Any = self.scope["headers"]
        lines = list(raw_headers)
        refusal = None if self._keeps_trailers_apart() else refuse_trailers(lines)
        if refusal is not None:
            return refusal
        # Trailers that arrive later must not get into the requests that are built from the scope.
        self.scope = {**self.scope, "headers": lines}
        return await self._reply(Headers(lines))

    def _keeps_trailers_apart(self) -> bool:
        return keeps_apart(self._send)

    def _request_builder(self, body: bytes) -> Callable[[], HttpRequest]:
        return _RequestBuilder(self.scope, body, self._pending)

    def _find_entry_point(self, method: str) -> EntryPoint:
        if method == "POST":
            return self.server.answer
        return self.server.open_stream if method == "GET" else self.server.end_session

    def _allowed_methods(self, headers: Headers) -> bytes:
        return self.server.allowed_methods(headers)

    def _on_gone(self) -> None:
        channel = None if self._exchange is None else self._exchange.channel
        is_ending = False
        if channel is not None and channel.timers is not None:
            self._gone = channel.timers.limit(None)
            is_ending = channel.cancels_on_disconnect and channel.interrupt(self._gone.expire)
        if self._released is not None and not is_ending and not self._released.done():
            self._released.set_result(None)

    async def _respond(self, reply: Reply, content_type: RawHeader = JSON_TYPE) -> None:
        exchange, sink = self._exchange, self._sink
        if exchange is not None and exchange.channel.is_disconnected:
            return
        if sink is not None:
            if sink.has_started or (reply.status == 200 and self._header_check.must_stream):
                await sink.finish(reply)
                return
            sink.is_finished = True
        start = {
            "type": "http.response.start",
            "status": reply.status,
            "headers": whole_headers(reply, self._header_check.headers, content_type),
        }
        body = reply.body or b""
        try:
            if len(body) > PART_BYTES:
                await self._send_large(start, body)
                return
            await self._send(start)
            self._has_started = True
            await self._send({"type": "http.response.body", "body": body})
        except OSError:
            # Servers of ASGI 2.4 may report a disconnect this way.
            return
        except RuntimeError:
            # uvloop's, for a connection that is closed.
            if not has_gone(self._send):
                raise

    async def _send_large(self, start: Any, body: bytes) -> None:
        send, timeout_s = wait_for_room(self._send), self.server.options.send_timeout_s
        self._has_started = True
        begin = partial(send, start)
        self._fate = await send_parts(send, body, timeout_s, is_last=True, begin=begin)

    async def _abort(self) -> None:
        """End what was started, or report that the request cannot be served."""
        if self._sink is not None and self._sink.has_started:
            await self._sink.finish(Reply(200))
        elif not self._has_started:
            await self._respond(internal_error())


class _RequestBuilder(Record):
    scope: Any
    body: bytes
    _pending: PendingBytes | None

    def __call__(self) -> ASGIRequest:
        return ASGIRequest(self.scope, BytesIO(self.body))

    def forget_body(self) -> None:
        self.body = b""
        if self._pending is not None:
            self._pending.close()


async def _close_when_gone(left: PendingBytes, receive: Receive) -> None:
    try:
        message = await receive()
        while message["type"] != "http.disconnect":
            # What the client sent beside its body; the loop must not be blocked.
            await asyncio.sleep(0)
            message = await receive()
    except OSError:
        # Servers of ASGI 2.4 may report a disconnect this way.
        pass
    finally:
        left.close()


async def read_body(
    receive: Receive,
    limit_bytes: int,
    timeout_s: float,
    timers: TaskTimers,
    count: Callable[[int], Reply | None],
) -> bytes | Reply | None:
    """Return the whole body, or an error reply, or None if the client has disconnected.

    At most `limit_bytes` and one message are held in memory. A larger body is rejected as soon as
    the limit is passed (413), and an incomplete one after `timeout_s` (408).

    Args:
        count: is called with the size of each part that has to be kept, unless the body is small and
            whole; returns an error reply if too much is kept.
    """
    deadline = timers.limit(timeout_s)
    body = bytearray()
    try:
        while (message := await receive())["type"] == "http.request":
            part: bytes = message.get("body") or b""
            size = len(part)
            if len(body) + size > limit_bytes:
                return too_large(limit_bytes)
            is_last = not message.get("more_body")
            if is_last and not body and size <= PART_BYTES:
                # Nearly every body is one small message.
                return part
            refusal = count(size)
            if refusal is not None:
                return refusal
            body += part
            if is_last:
                return bytes(body)
        # `http.disconnect`, or a message that may not come here, which ends the request as well.
        return None
    except asyncio.CancelledError:
        if not deadline.is_ours():
            raise
        # The rest may still come, so the connection cannot be used again (RFC 9110, 15.5.9).
        return error_reply(408, f"The body was not complete after {timeout_s:g} s", (CLOSE,))
    finally:
        deadline.cancel()
