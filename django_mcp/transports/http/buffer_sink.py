"""A `Sink` that buffers messages until the response is there: a WSGI response has one body."""

from __future__ import annotations

import logging

from django_mcp.protocol import sse
from django_mcp.server.exchange.exchange import Reply

__all__ = ["BufferSink"]

logger = logging.getLogger("django_mcp")

MAX_MESSAGES = 1000
"""Messages buffered ahead of one response; the client reads none before the call has finished."""

MAX_KEPT_BYTES = 1024 * 1024
"""Total size of these messages."""


class BufferSink:
    """A `Sink` that collects the messages of one exchange up to a limit, and drops the rest.

    The first messages are kept, not the last: progress is worth little once the work is done, and
    a log is read from its beginning.
    """

    __slots__ = ("_dropped", "_messages", "_size_bytes")

    def __init__(self) -> None:
        self._messages: list[bytes] = []
        self._size_bytes = 0
        self._dropped = 0

    async def prime(self, event_id: str | None) -> None:
        """See `Sink.prime`: there is nothing to open."""

    async def hang_up(self, retry_ms: int) -> None:
        """See `Sink.hang_up`: the client has to wait."""

    async def send(self, message: bytes, event_id: str | None = None) -> None:
        self._size_bytes += len(message)
        if len(self._messages) >= MAX_MESSAGES or self._size_bytes > MAX_KEPT_BYTES:
            self._dropped += 1
        else:
            self._messages.append(message)

    def body(self, reply: Reply, *, must_stream: bool) -> bytes | None:
        """Return the events of a whole exchange; None if its response can be plain JSON.

        Args:
            reply: the response, which is the last event.
            must_stream: the client accepts only events.
        """
        if self._dropped:
            logger.warning("Dropped %d messages ahead of an answer under WSGI", self._dropped)
        is_result = reply.status == 200 and reply.body is not None
        if not is_result or not (self._messages or must_stream):
            return None
        return b"".join(map(sse.event, (*self._messages, reply.body or b"")))
