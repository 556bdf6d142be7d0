"""The plain Django view, for sites without ASGI routing and for WSGI.

It converts between Django's requests and responses and the code that the consumer uses. Unlike the
consumer, it gets a body that Django has already read, and under WSGI it sends messages together
with the response and does not notice when a client disconnects.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Container, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from asgiref.sync import markcoroutinefunction
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.request import UnreadablePostError
from django.http.response import HttpResponseBase

from django_mcp.protocol.headers import Headers
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.transports.http.buffer_sink import BufferSink
from django_mcp.transports.http.entries import Entry, check_head, find_entry
from django_mcp.transports.http.guard import Clearance, current_guard
from django_mcp.transports.http.queue_sink import QueueSink
from django_mcp.transports.http.replies import (
    STREAM_HEADERS,
    RawHeaders,
    error_reply,
    internal_error,
    json_headers,
    log_error_reply,
    too_large,
)

if TYPE_CHECKING:
    from django_mcp.server.server import MCPServer

__all__ = ["MCPView", "make_view"]

logger = logging.getLogger("django_mcp")


def make_view(server: MCPServer, check: Callable[[], None] | None = None) -> MCPView:
    """Return a view that serves `server`, to be named in a URLconf.

    Args:
        server: the one.
        check: runs before the view first responds; its exception is raised again.
    """
    return MCPView(server, check)


class _EveryAlias(Container[object]):
    """All database aliases, so that ATOMIC_REQUESTS applies to the view on none of them."""

    def __contains__(self, alias: object) -> bool:
        return True


class MCPView:
    """An asynchronous view that serves one MCP server.

    It is exempt from the CSRF check (the guard checks the origin), the login redirect, and the
    transaction per request (tools open their own), as far as a view can be.
    """

    csrf_exempt = True
    login_required = False
    _non_atomic_requests = _EveryAlias()

    def __init__(self, server: MCPServer, check: Callable[[], None] | None = None) -> None:
        self.server = server
        self._check = check
        markcoroutinefunction(self)

    async def __call__(self, request: HttpRequest, **url_kwargs: Any) -> HttpResponseBase:
        """Respond to a request, never with HTML or a redirect.

        Raises:
            ImproperlyConfigured: the site cannot serve this; Django logs what to do about it.
        """
        if self._check is not None:
            self._check()
            self._check = None
        try:
            return await self._serve(request, url_kwargs)
        except Exception:
            logger.exception("Could not serve a request")
            return _respond(internal_error())

    async def _serve(self, request: HttpRequest, url_kwargs: dict[str, Any]) -> HttpResponseBase:
        headers, clearance = self._examine(request)
        can_push = isinstance(request, ASGIRequest)
        allowed = partial(self.server.allowed_methods, headers, can_push=can_push)
        early = check_head(self.server, request.method, clearance, allowed)
        if early is not None:
            return _respond(log_error_reply(early), clearance.headers)
        exchange = Exchange(
            headers=headers,
            address=request.META.get("REMOTE_ADDR"),
            can_stream=clearance.may_stream,
            build_request=lambda: request,
            url_kwargs=url_kwargs,
        )
        refusal = await self._prepare(request, exchange)
        if refusal is not None:
            return _respond(refusal, clearance.headers)
        entry = find_entry(self.server, request.method)
        if isinstance(request, ASGIRequest):
            return await self._call_apart(entry, exchange, clearance)
        return await self._call(entry, exchange, clearance)

    def _examine(self, request: HttpRequest) -> tuple[Headers, Clearance]:
        scope = getattr(request, "scope", None)
        raw_headers = scope["headers"] if scope is not None else _read_headers(request)
        headers = Headers(raw_headers)
        clearance = current_guard().examine(
            request.method or "",
            request.scheme or "http",
            headers,
            self.server.options.max_body_bytes,
        )
        return headers, clearance

    async def _prepare(self, request: HttpRequest, exchange: Exchange) -> Reply | None:
        """Authenticate, then read the body; return the error reply, if any."""
        authenticate = self.server.authenticate
        if authenticate is not None:
            challenge = await authenticate(exchange)
            if challenge is not None:
                return challenge
        if request.method == "POST":
            body = _read_body(request, self.server.options.max_body_bytes)
            if isinstance(body, Reply):
                return log_error_reply(body)
            exchange.body = body
        return None

    async def _call(
        self, entry: Entry, exchange: Exchange, clearance: Clearance
    ) -> HttpResponseBase:
        """Respond with one body, which holds events if there were messages before the response."""
        sink = BufferSink()
        exchange.is_buffered = True
        if clearance.may_stream:
            exchange.sink = sink
        reply = await entry(exchange)
        events = sink.body(reply, must_stream=clearance.must_stream)
        if events is None:
            return _respond(reply, clearance.headers)
        response = HttpResponse(events)
        length = (b"content-length", b"%d" % len(events))
        _add_headers(response, (*STREAM_HEADERS, length, *clearance.headers, *reply.headers))
        return response

    async def _call_apart(
        self, entry: Entry, exchange: Exchange, clearance: Clearance
    ) -> HttpResponseBase:
        """Run the call in a separate task, since it may outlive the view and the client."""
        sink = QueueSink()
        timeout_s = None
        if clearance.may_stream:
            exchange.sink = sink
            timeout_s = self.server.options.keepalive_s
        task = asyncio.create_task(_run(entry, exchange, sink))
        _running.add(task)
        task.add_done_callback(_running.discard)
        try:
            first = await sink.take(timeout_s)
        except asyncio.CancelledError:
            _leave(task, exchange, sink)
            raise
        if isinstance(first, Reply) and not (first.status == 200 and clearance.must_stream):
            return _respond(first, clearance.headers)
        frames = _Frames(
            sink.frames(first, self.server.options.keepalive_s),
            partial(_leave, task, exchange, sink),
        )
        extra = first.headers if isinstance(first, Reply) else ()
        return _stream(frames, (*clearance.headers, *extra))


_running: set[asyncio.Task[None]] = set()
"""Keeps references to the tasks of calls, so that they are not collected."""


async def _run(entry: Entry, exchange: Exchange, sink: QueueSink) -> None:
    try:
        reply = await entry(exchange)
    except Exception:
        logger.exception("Could not serve a request")
        reply = internal_error()
    sink.finish(reply)


class _Frames:
    """The events of a call for its response, which may be closed before anything is read.

    Django closes a response in any thread; one that middleware discards is only collected.
    """

    __slots__ = ("_frames", "_leave", "_loop")

    def __init__(self, frames: AsyncGenerator[bytes, None], leave: Callable[[], None]) -> None:
        self._frames = frames
        self._leave = leave
        self._loop = asyncio.get_running_loop()

    def __aiter__(self) -> _Frames:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._frames)

    def close(self) -> None:
        """Disconnect from the call if it still runs."""
        # In a closed loop nothing runs any more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._leave)

    __del__ = close


def _leave(task: asyncio.Task[None], exchange: Exchange, sink: QueueSink) -> None:
    """Handle a disconnected client; stops the call unless it may outlive its client."""
    if task.done() or exchange.is_disconnected:
        return
    exchange.disconnected()
    sink.close()
    if exchange.cancels_on_disconnect:
        exchange.interrupt(task.cancel)


def _read_headers(request: HttpRequest) -> list[tuple[bytes, bytes]]:
    return [
        (name.lower().encode("latin-1", "replace"), value.encode("latin-1", "replace"))
        for name, value in request.headers.items()
    ]


def _read_body(request: HttpRequest, limit_bytes: int) -> bytes | Reply:
    # If middleware has read it already, Django's limit applies.
    body: bytes | None = getattr(request, "_body", None)
    if body is None:
        try:
            # `request.body` would apply another limit, and trust the declared length for it.
            body = request.read(limit_bytes + 1)
        except UnreadablePostError:
            return error_reply(400, "The body could not be read")
        # A handler that uses the request finds the body in its usual place.
        request._body = body
    return body if len(body) <= limit_bytes else too_large(limit_bytes)


def _respond(reply: Reply, extra: RawHeaders = ()) -> HttpResponse:
    response = HttpResponse(reply.body or b"", status=reply.status)
    del response["Content-Type"]
    _add_headers(response, json_headers(reply, extra))
    return response


def _stream(frames: AsyncIterator[bytes], extra: RawHeaders) -> StreamingHttpResponse:
    response = StreamingHttpResponse(frames)
    _add_headers(response, (*STREAM_HEADERS, *extra))
    # Prevents compression by GZipMiddleware, whose compressed stream many clients cannot read.
    response["Content-Encoding"] = "identity"
    return response


def _add_headers(response: HttpResponseBase, headers: Iterable[tuple[bytes, bytes]]) -> None:
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").title(), raw_value.decode("latin-1")
        is_more = name in response and name != "Content-Type"
        response[name] = f"{response[name]}, {value}" if is_more else value
