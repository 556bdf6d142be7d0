"""The plain Django view, for sites without ASGI routing and for WSGI, which has the consumer serve the request.

Under WSGI it sends messages together with the response, and does not notice that a client disconnects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping
from typing import Any

from asgiref.sync import markcoroutinefunction
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.request import UnreadablePostError
from django.http.response import HttpResponseBase
from msgspec import field

from django_mcp.log import logger
from django_mcp.protocol import sse
from django_mcp.protocol.headers import Headers
from django_mcp.protocol.records import Record
from django_mcp.server.exchange.channel import Channel
from django_mcp.server.exchange.exchange import Reply
from django_mcp.server.exchange.pending import PART_BYTES
from django_mcp.server.exchange.timers import call_in_loop, hold
from django_mcp.server.server import BaseServer
from django_mcp.transports.http.browsers import MakePage
from django_mcp.transports.http.chunked import is_chunked_wsgi, read_chunked
from django_mcp.transports.http.consumer import MCPConsumer
from django_mcp.transports.http.guard import HeaderCheck
from django_mcp.transports.http.replies import (
    JSON_TYPE,
    STREAM_HEADERS,
    ASGIApp,
    RawHeader,
    error_reply,
    internal_error,
)

MAX_QUEUED = 16
"""Messages queued for a slow client before the handler has to wait."""

MAX_MESSAGES = 1000
"""Messages buffered ahead of one response under WSGI; the client reads none before the call has finished."""

MAX_KEPT_BYTES = 1024 * 1024
"""Total size of these messages."""


class _EveryAlias(Container[object]):
    """All database aliases, so that ATOMIC_REQUESTS applies to the view on none of them."""

    def __contains__(self, alias: object) -> bool:
        return True


class EndpointView:
    """A view in whose place `django_mcp_application` calls `serve`, an ASGI application.

    It is exempt from the CSRF check (the guard checks the origin), the login redirect, and the
    transaction per request (tools open their own), as far as a view can be.
    """

    csrf_exempt = True
    login_required = False
    _non_atomic_requests = _EveryAlias()

    def __init__(self, serve: ASGIApp, server: BaseServer | None = None) -> None:
        self.serve = serve
        self.server = server
        """The server whose resource the path is, for OAuth."""
        markcoroutinefunction(self)

    async def __call__(self, request: HttpRequest, **url_kwargs: Any) -> HttpResponseBase:
        """Respond to a request that Django received: with status 501, where only ASGI will do."""
        reply = error_reply(501, "This is served by django_mcp_application only")
        return HttpResponse(reply.body, status=reply.status, content_type="application/json")


class MCPView(EndpointView):
    """An asynchronous view that serves one MCP server, if `check` raises nothing when it first responds."""

    server: BaseServer
    is_narrowed = False
    """Whether its path names toolsets, behind the path of the server's endpoint."""

    def __init__(
        self,
        server: BaseServer,
        check: Callable[[], None] | None = None,
        make_page: MakePage | None = None,
    ) -> None:
        super().__init__(MCPConsumer.as_asgi(server=server, make_page=make_page), server)
        self._check = check
        self._make_page = make_page

    async def __call__(self, request: HttpRequest, **url_kwargs: Any) -> HttpResponseBase:
        """Respond to a request, never with a redirect."""
        if self._check is not None:
            self._check()
            self._check = None
        can_stream = isinstance(request, ASGIRequest)
        kind = _ViewConsumer if can_stream else _BufferingConsumer
        consumer = kind(self.server, request, self._make_page)
        response: HttpResponseBase
        # In a separate task, since the call may outlive the view and the client.
        hold(asyncio.create_task(consumer.serve(url_kwargs)))
        try:
            start = await consumer.messages.get()
        except asyncio.CancelledError:
            consumer.leave()
            raise
        if start is None:
            refusal = consumer.unread or error_reply(400, "The body could not be read")
            response = HttpResponse(
                refusal.body, status=refusal.status, content_type="application/json"
            )
            return response
        is_stream = can_stream and STREAM_HEADERS[0] in start["headers"]
        first = None if is_stream else await consumer.messages.get()
        if is_stream or (first is not None and first.get("more_body")):
            response = StreamingHttpResponse(_Frames(consumer, first), status=start["status"])
        else:
            response = HttpResponse((first or {}).get("body", b""), status=start["status"])
        del response["Content-Type"]
        for raw_name, raw_value in start["headers"]:
            name, value = raw_name.decode("latin-1").title(), raw_value.decode("latin-1")
            if name == "Connection" and not can_stream:
                # A WSGI application must not send it (PEP 3333).
                continue
            response[name] = f"{response[name]}, {value}" if name in response else value
        if is_stream:
            # Prevents compression by GZipMiddleware, whose compressed stream many clients cannot read.
            response["Content-Encoding"] = "identity"
        return response


class NarrowedView(MCPView):
    """The view of an endpoint for the toolsets that its path names."""

    is_narrowed = True


class _ViewConsumer(MCPConsumer):
    """Serves a request that Django has built, and middleware may have changed."""

    def __init__(
        self, server: BaseServer, request: HttpRequest, make_page: MakePage | None = None
    ) -> None:
        super().__init__(server=server, make_page=make_page)
        self.messages: asyncio.Queue[Mapping[str, Any] | None] = asyncio.Queue(MAX_QUEUED)
        self._request = request
        self._is_read = False
        self._has_left = asyncio.Event()
        self.unread: Reply | None = None
        """Why the body could not be read, if that is known."""
        self.reader: asyncio.Task[Any] | None = None
        """The task of Django that sends a streamed response, once it does."""
        self.wants_more = asyncio.Event()
        """Set while nothing of a large response waits here, where no deadline holds for it."""

    async def serve(self, url_kwargs: Mapping[str, Any]) -> None:
        """Put all messages of the response, and None at the end, into `messages`."""
        request = self._request
        scope = getattr(request, "scope", None)
        headers: list[tuple[bytes, bytes]] = [] if scope is None else scope["headers"]
        if scope is None:
            for name, value in request.headers.items():
                if not value and name == "Content-Length":
                    # How some servers say that there is none.
                    continue
                raw_name = name.lower().encode("latin-1", "replace")
                headers.append((raw_name, value.encode("latin-1", "replace")))
            # Django's test client sends no Host, and marks its requests. A server's request has to have one,
            # whatever Django would take in its place.
            if "Host" not in request.headers and hasattr(request, "_dont_enforce_csrf_checks"):
                headers.append((b"host", request.META["SERVER_NAME"].encode("latin-1", "replace")))
        try:
            await self(
                {
                    "type": "http",
                    "asgi": {"spec_version": "2.4"},
                    "method": request.method or "",
                    "path": request.path,
                    "scheme": request.scheme or "http",
                    "headers": headers,
                    "client": (request.META.get("REMOTE_ADDR"), 0),
                    "url_route": {"args": (), "kwargs": url_kwargs},
                },
                self._receive_body,
                self._put,
            )
        finally:
            await self._put(None)

    async def _put(self, message: Mapping[str, Any] | None) -> None:
        if self._has_left.is_set():
            return
        self.wants_more.clear()
        await self.messages.put(message)
        if message is not None and len(message.get("body", b"")) >= PART_BYTES:
            await self.wants_more.wait()

    def abort(self) -> None:
        """End the response at once, since the client does not read it."""
        self.leave()
        if self.reader is not None:
            # Django takes this for a client that has disconnected.
            self.reader.cancel()

    @property
    def transport(self) -> _ViewConsumer:
        """What `abort` is called on; see `send_parts`."""
        return self

    def leave(self) -> None:
        """Note that the client is gone, or the response; what is sent from now on is dropped."""
        self._has_left.set()
        self.wants_more.set()
        while not self.messages.empty():
            # Makes room for the message that waits, if there is one.
            self.messages.get_nowait()
        self.messages.put_nowait(None)

    async def _receive_body(self) -> Mapping[str, Any]:
        if self._is_read:
            await self._has_left.wait()
            return {"type": "http.disconnect"}
        self._is_read = True
        if is_chunked_wsgi(self._request):
            chunked = read_chunked(self._request, self.server.options)
            if isinstance(chunked, Reply):
                self.unread = chunked
                return {"type": "http.disconnect"}
            self._request._body = chunked
            return {"type": "http.request", "body": chunked}
        # If middleware has read it already, Django's limit applies.
        body: bytes | None = getattr(self._request, "_body", None)
        if body is None:
            try:
                # `request.body` would apply another limit, and trust the declared length for it.
                body = self._request.read(self.server.options.max_body_bytes + 1)
            except UnreadablePostError:
                return {"type": "http.disconnect"}
            # A handler that uses the request finds the body in its usual place.
            self._request._body = body
        return {"type": "http.request", "body": body}

    def _keeps_trailers_apart(self) -> bool:
        # A WSGI server reads trailers after the application has been called. ASGI servers may not.
        return not isinstance(self._request, ASGIRequest)

    def _request_builder(self, body: bytes) -> Callable[[], HttpRequest]:
        return _GivenRequest(self._request)

    async def _abort(self) -> None:
        if self._sink is not None and self._sink.has_started:
            await self._sink.finish(internal_error())
        else:
            await super()._abort()


class _GivenRequest(Record):
    """Returns the request of a view."""

    _request: HttpRequest

    def __call__(self) -> HttpRequest:
        return self._request

    @property
    def scope(self) -> Mapping[str, Any]:
        """What an ASGI scope has of the connection, also under WSGI."""
        meta = self._request.META
        version = str(meta.get("SERVER_PROTOCOL") or "").partition("/")[2]
        given = {"http_version": version or None, "client": (meta.get("REMOTE_ADDR"), None)}
        scope: Mapping[str, Any] = getattr(self._request, "scope", given)
        return scope


class _Buffer(Record):
    """A `Sink` that keeps messages up to a limit, and drops the rest.

    The first are kept, not the last: progress is worth little once the work is done, and a log is
    read from its beginning.
    """

    messages: list[bytes] = field(default_factory=list)
    dropped: int = 0
    _size_bytes: int = 0

    async def send(self, message: bytes) -> None:
        self._size_bytes += len(message)
        if len(self.messages) >= MAX_MESSAGES or self._size_bytes > MAX_KEPT_BYTES:
            self.dropped += 1
        else:
            self.messages.append(message)


class _BufferingConsumer(_ViewConsumer):
    """Serves a request under WSGI, where a response has one body."""

    _buffer = _Buffer()

    def _allowed_methods(self, headers: Headers) -> bytes:
        return self.server.allowed_methods(headers, can_push=False)

    def _open_channel(self, header_check: HeaderCheck) -> Channel:
        self._buffer = _Buffer()
        return Channel(
            can_stream=header_check.may_stream,
            sink=self._buffer if header_check.may_stream else None,
            counts_answers=True,
            is_buffered=True,
        )

    def _watch(self) -> None:
        """No disconnect is reported."""

    async def _send_large(self, start: Any, body: bytes) -> None:
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})

    async def _respond(self, reply: Reply, content_type: RawHeader = JSON_TYPE) -> None:
        buffer = self._buffer
        if buffer.dropped:
            logger.warning("Dropped %d messages ahead of an answer under WSGI", buffer.dropped)
        is_result = reply.status == 200 and reply.body is not None
        if not is_result or not (buffer.messages or self._header_check.must_stream):
            await super()._respond(reply, content_type)
            return
        events = b"".join(map(sse.event, (*buffer.messages, reply.body or b"")))
        length = (b"content-length", b"%d" % len(events))
        headers = [*STREAM_HEADERS, length, *self._header_check.headers, *reply.headers]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": events})


class _Frames:
    """The events of a call for its response, which may be closed before anything is read.

    Django closes a response in any thread; one that middleware discards is only collected.
    """

    __slots__ = ("_consumer", "_first", "_loop")

    def __init__(self, consumer: _ViewConsumer, first: Mapping[str, Any] | None) -> None:
        self._consumer = consumer
        self._first = first
        self._loop = asyncio.get_running_loop()

    def __aiter__(self) -> _Frames:
        return self

    async def __anext__(self) -> bytes:
        consumer = self._consumer
        consumer.reader = asyncio.current_task()
        message, self._first = self._first, None
        if message is None:
            if consumer.messages.empty():
                consumer.wants_more.set()
            message = await consumer.messages.get()
        if message is None:
            raise StopAsyncIteration
        body: bytes = message["body"]
        return body

    def close(self) -> None:
        """Disconnect from the call if it still runs."""
        # In a closed loop nothing runs any more.
        call_in_loop(self._loop, self._consumer.leave)

    __del__ = close
