"""A `Sink` that passes messages to an iterator, with which the plain view streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from django_mcp.protocol import sse
from django_mcp.server.exchange.exchange import Reply

__all__ = ["QueueSink"]

MAX_QUEUED = 16
"""Messages queued for a slow client before the handler has to wait."""


class QueueSink:
    """A `Sink` that passes the messages of one exchange, and its reply last, to the response.

    One side sends, the other takes. What is sent after `close` is dropped without an error.
    """

    __slots__ = ("_has_room", "_is_closed", "_items")

    def __init__(self) -> None:
        self._items: asyncio.Queue[bytes | Reply] = asyncio.Queue()
        self._has_room = asyncio.Event()
        self._is_closed = False

    async def send(self, message: bytes, event_id: str | None = None) -> None:
        await self._put(sse.event(message, id=event_id))

    async def prime(self, event_id: str | None) -> None:
        await self._put(sse.comment() if event_id is None else sse.priming(event_id))

    async def hang_up(self, retry_ms: int) -> None:
        await self._put(sse.retry(retry_ms))
        self.finish(Reply(200))
        self._is_closed = True

    async def _put(self, frame: bytes) -> None:
        while self._items.qsize() >= MAX_QUEUED and not self._is_closed:
            self._has_room.clear()
            await self._has_room.wait()
        if not self._is_closed:
            self._items.put_nowait(frame)

    def finish(self, reply: Reply) -> None:
        """Queue the reply after all messages; never waits."""
        if not self._is_closed:
            self._items.put_nowait(reply)

    def close(self) -> None:
        """Drop everything, since nobody takes it any more."""
        self._is_closed = True
        self._has_room.set()

    async def take(self, timeout_s: float | None) -> bytes | Reply | None:
        """Return the next event, the reply as the last; None if nothing came for `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                item = await self._items.get()
        except TimeoutError:
            return None
        self._has_room.set()
        return item

    async def frames(
        self, first: bytes | Reply | None, keepalive_s: float
    ) -> AsyncGenerator[bytes, None]:
        """Yield server-sent events from `first` to the reply, with keep-alive comments."""
        item = first
        while not isinstance(item, Reply):
            yield sse.comment() if item is None else item
            item = await self.take(keepalive_s)
        if item.body is not None and not item.is_dispensable:
            yield sse.event(item.body, id=item.event_id)
