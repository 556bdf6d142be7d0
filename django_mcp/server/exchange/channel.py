"""Channel: how the response to an exchange, and messages ahead of it, reach the client."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.records import Record
from django_mcp.server.exchange.pending import PendingBytes
from django_mcp.server.exchange.timers import Shield, TaskTimers


class Sink(Protocol):
    """Sends messages to the client ahead of the response, from the event loop only."""

    async def send(self, message: bytes) -> None:
        """Send one encoded JSON-RPC message (one line, no newline). Waits while the client is slow."""


class EventStream(Sink, Protocol):
    """A sink that is a response of server-sent events, which the client may resume."""

    async def send(self, message: bytes, event_id: str | None = None) -> None:
        """Send one encoded JSON-RPC message, with the id of its event, if any."""

    async def prime(self, event_id: str | None) -> None:
        """Open the stream without a message, with an id, if any."""

    async def hang_up(self, retry_ms: int) -> None:
        """Close the connection before the response; the client reconnects after `retry_ms`."""


ServerRequest: TypeAlias = Callable[[str, JSONObject | None], Awaitable[JSONObject]]
"""Sends the client a request, by method and params, and returns its result."""


class Channel(Record):
    """What a transport can send a client, and whether the client is there.

    A transport fills it, and reads `cancels_on_disconnect` when the client disconnects.
    """

    can_stream: bool = False
    sink: Sink | None = None
    event_stream: EventStream | None = None
    """The sink, if it is an event stream that the client may resume."""
    counts_answers: bool = False
    """Large answers count as pending until the transport calls `release_answers`."""
    is_pipe: bool = False
    """It is a pipe of this process, such as its standard output."""
    is_buffered: bool = False
    """Messages ahead of the response reach the client with it, so the client cannot be asked."""
    server_request: ServerRequest | None = None
    """Sends the client a request, if the caller does that itself."""
    timers: TaskTimers | None = None
    """Timers of the running asyncio task, created by the server if the transport has none."""
    cancels_on_disconnect: bool = False
    """Set by the server when the revision is known; read by the transport."""
    is_disconnected: bool = False
    """Set by the transport when the client has disconnected, before it cancels."""
    waits_for_thread: bool = False
    waits_since_s: float = 0.0
    waited_s: float = 0.0
    """How long it has waited for threads, without the wait that goes on."""
    shield: Shield | None = None
    """Made by the first `ctx.shield()`."""
    pending: PendingBytes | None = None
    """What counts of the answers."""
    batch: Channel | None = None
    """The channel of the batch, for that of a message in it."""

    @property
    def is_gone(self) -> bool:
        """Whether the client has disconnected, from the batch if this is a part of one."""
        return (self.batch or self).is_disconnected

    def begin_wait(self) -> None:
        """Note that it waits for a thread from now on."""
        self.waits_since_s = time.perf_counter()
        self.waits_for_thread = True

    def end_wait(self) -> None:
        """Note that it has a thread, or waits for none any more. From that thread."""
        if self.waits_for_thread:
            self.waits_for_thread = False
            self.waited_s += time.perf_counter() - self.waits_since_s

    def find_waited_s(self) -> float:
        """Return how long it has waited for threads by now."""
        if not self.waits_for_thread:
            return self.waited_s
        return self.waited_s + time.perf_counter() - self.waits_since_s

    def interrupt(self, cancel: Callable[[], object]) -> bool:
        """Call `cancel` for the client; return False if a shielded handler delays it."""
        if self.shield is None:
            cancel()
            return True
        self.shield.cancel(cancel)
        return not self.shield.is_up
