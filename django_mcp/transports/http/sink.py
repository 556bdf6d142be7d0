"""A `Sink` that writes server-sent events, and starts the response with the first of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from django_mcp.protocol import sse
from django_mcp.protocol.records import Record
from django_mcp.server.exchange.exchange import Reply
from django_mcp.transports.http.backpressure import wait_for_room
from django_mcp.transports.http.replies import STREAM_HEADERS, RawHeaders

__all__ = ["Receive", "Send", "StreamSink"]


Receive: TypeAlias = Callable[[], Awaitable[Any]]
"""The ASGI callable that gives the next message from the client."""

Send: TypeAlias = Callable[[Any], Awaitable[None]]
"""The ASGI callable that sends a message; it waits while the client is slow, if the server can."""


class StreamSink(Record):
    """A `Sink` that writes events to an ASGI `send`.

    The response starts with the first message, so until then it may become plain JSON with another
    status. What is sent after `finish`, or after the client has disconnected, is dropped without an
    error. Several tasks may send at once: each message arrives whole, in the order of the calls.
    """

    _send: Send
    _headers: RawHeaders
    is_finished: bool = False
    """Whether what is sent from now on is dropped."""
    _lock: asyncio.Lock | None = None
    has_started: bool = False
    last_sent_s: float = 0.0
    """When something was last sent, by the loop's clock."""

    async def send(self, message: bytes, event_id: str | None = None) -> None:
        await self._write(sse.event(message, id=event_id))

    async def prime(self, event_id: str | None) -> None:
        await self._write(sse.comment() if event_id is None else sse.priming(event_id))

    async def hang_up(self, retry_ms: int) -> None:
        await self._write(sse.retry(retry_ms), is_last=True)

    async def keep_alive(self) -> None:
        """Send a comment, so that proxies do not close the connection as idle."""
        await self._write(sse.comment())

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
        lock = self._lock
        if lock is None:
            lock = self._lock = asyncio.Lock()
        async with lock:
            if self.is_finished:
                return
            self.is_finished = is_last
            try:
                if not self.has_started:
                    self._send = wait_for_room(self._send)
                    await self._send(
                        {
                            "type": "http.response.start",
                            "status": 200,
                            "headers": [*STREAM_HEADERS, *self._headers],
                        }
                    )
                    self.has_started = True
                await self._send(
                    {"type": "http.response.body", "body": data, "more_body": not is_last}
                )
            except OSError:
                # Servers of ASGI 2.4 may report a disconnect this way.
                self.is_finished = True
            self.last_sent_s = asyncio.get_running_loop().time()
