"""A `Sink` that keeps its messages until the answer is there: a WSGI response is one body."""

from __future__ import annotations

import logging

from django_mcp.protocol import sse
from django_mcp.server.exchange.exchange import Reply

__all__ = ["BufferSink"]

logger = logging.getLogger("django_mcp")

MAX_MESSAGES = 1000
"""Messages kept ahead of one answer; nobody reads them before the call is over."""

MAX_KEPT_BYTES = 1024 * 1024
"""Size of these messages together."""


class BufferSink:
    """Collect the messages of one exchange, within bounds; what is too much is dropped.

    Progress is worth little once the work is done, and a log is read from its beginning: so the
    first messages are kept, not the last.
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
        """See `Sink.send`."""
        self._size_bytes += len(message)
        if len(self._messages) >= MAX_MESSAGES or self._size_bytes > MAX_KEPT_BYTES:
            self._dropped += 1
        else:
            self._messages.append(message)

    def body(self, reply: Reply, *, must_stream: bool) -> bytes | None:
        """Return the events of a whole exchange; None when its answer can be plain JSON.

        Args:
            reply: the answer, which is the last event.
            must_stream: the client takes nothing but events.
        """
        if self._dropped:
            logger.warning("Dropped %d messages ahead of an answer under WSGI", self._dropped)
        is_result = reply.status == 200 and reply.body is not None
        if not is_result or not (self._messages or must_stream):
            return None
        return b"".join(map(sse.event, (*self._messages, reply.body or b"")))
