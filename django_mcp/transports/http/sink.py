"""The server-sent events of one exchange, opened by the first thing there is to send."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from django_mcp.protocol import sse
from django_mcp.protocol.records import Record
from django_mcp.server.exchange.exchange import Reply
from django_mcp.transports.http.backpressure import wait_for_room
from django_mcp.transports.http.replies import STREAM_HEADERS, RawHeaders

__all__ = ["Send", "StreamSink"]


Send: TypeAlias = Callable[[Any], Awaitable[None]]
"""The ASGI callable that takes the next message; it waits while the client is slow, if it can."""


class StreamSink(Record):
    """A `Sink` that writes events to an ASGI `send`.

    Until something is sent, nothing is: the answer may still become plain JSON with a status of
    its own. After `finish`, and once the client has gone, what is sent is dropped in silence.
    Several tasks may send at once; each message arrives whole, and in the order of the calls.
    """

    _send: Send
    _headers: RawHeaders
    _is_finished: bool = False
    _lock: asyncio.Lock | None = None
    has_started: bool = False
    last_sent_s: float = 0.0
    """When something was sent last, by the loop's clock."""

    async def send(self, message: bytes, event_id: str | None = None) -> None:
        """See `Sink.send`."""
        await self._write(sse.event(message, id=event_id))

    async def prime(self, event_id: str | None) -> None:
        """See `Sink.prime`."""
        await self._write(sse.comment() if event_id is None else sse.priming(event_id))

    async def hang_up(self, retry_ms: int) -> None:
        """See `Sink.hang_up`."""
        await self._write(sse.retry(retry_ms), is_last=True)

    async def keep_alive(self) -> None:
        """Send a comment, so that nobody on the way takes the connection for a dead one."""
        await self._write(sse.comment())

    async def point(self, uri: str) -> None:
        """Send the event that tells a client of HTTP+SSE where to post its messages."""
        await self._write(sse.endpoint(uri))

    async def finish(self, reply: Reply) -> None:
        """Send the answer, if there is one, and end the stream."""
        if not self.has_started:
            self._headers = (*self._headers, *reply.headers)
        body = reply.body
        is_silent = body is None or reply.is_dispensable
        data = b"" if is_silent else sse.event(body or b"", id=reply.event_id)
        await self._write(data, is_last=True)

    def close(self) -> None:
        """Drop what is still to come: the answer goes another way, or nowhere."""
        self._is_finished = True

    async def _write(self, data: bytes, *, is_last: bool = False) -> None:
        lock = self._lock
        if lock is None:
            lock = self._lock = asyncio.Lock()
        async with lock:
            if self._is_finished:
                return
            self._is_finished = is_last
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
                # How servers of ASGI 2.4 may say that the client has gone.
                self._is_finished = True
            self.last_sent_s = asyncio.get_running_loop().time()
