"""One incoming message on its way through the server: what a transport knows, and the way back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

from msgspec import field

from django_mcp.protocol.headers import Headers
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.records import Record
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.timers import Shield, TaskTimers
from django_mcp.server.exchange.visibility import NOTHING, Offer


class Sink(Protocol):
    """The way to the client ahead of the answer.

    One sink belongs to one exchange. `send` may be called many times, from the event loop only,
    and waits while the client is slow; nothing is sent through it after the answer.
    """

    async def send(self, message: bytes, event_id: str | None = None) -> None:
        """Send one encoded JSON-RPC message (one line, no newline), with an id where it has one."""
        ...

    async def prime(self, event_id: str | None) -> None:
        """Open the stream without a message, with an id if there is one."""
        ...

    async def hang_up(self, retry_ms: int) -> None:
        """Close the connection before the answer; the client is to come back in `retry_ms`."""
        ...


class Anonymous:
    """The principal of a request that nobody authenticated."""

    key: str | None = None
    auth: Any = None
    is_authenticated = False

    def __repr__(self) -> str:
        return "<anonymous>"


ANONYMOUS = Anonymous()


ServerRequest: TypeAlias = Callable[[str, JSONObject | None], Awaitable[JSONObject]]
"""Sends the client a request, by method and params, and returns its result."""


class Exchange(Record, kw_only=True):
    """What a transport knows of one request: its bytes, its surroundings, and the way back.

    A transport fills it, hands it to the server once, and reads `cancels_on_disconnect` when the
    client goes away. Mutable on purpose: authentication and middleware add what they find.
    """

    body: bytes = b""
    headers: Headers | None = None
    """None where the transport has no headers (stdio, in process): header rules are off."""
    principal: Any = ANONYMOUS
    address: str | None = None
    can_stream: bool = False
    build_request: Callable[[], Any] | None = None
    sink: Sink | None = None
    server_request: ServerRequest | None = None
    """Asks the client, where the caller does that itself."""
    url_kwargs: Mapping[str, Any] = field(default_factory=dict)
    connection: ConnectionState | None = None
    """The state of a connection that lives longer than this exchange; None: there is none."""
    timers: TaskTimers | None = None
    """Of the task that the exchange is answered in, where the transport has made them."""
    gate: Any = None
    """What authenticated it; challenges are made by it. None where nobody has to be known."""
    offer: Offer = NOTHING
    """What there is for the principal; the server finds it out before it answers."""
    is_of_tenant: bool = False
    """What is found out for it must not be kept: another tenant's might be another."""
    request_id: str | None = None
    cancels_on_disconnect: bool = False
    """Set by the server as soon as the revision is known; read by the transport."""
    is_disconnected: bool = False
    shield: Shield | None = None
    """Made when a handler first asks not to be interrupted by its client."""
    waits_for_thread: bool = False
    """Whether the call waits for a thread, and so for other calls."""
    is_buffered: bool = False
    """What is sent ahead of the answer reaches the client with it, so nothing can be asked."""

    def forget_body(self) -> None:
        """Let go of the body, for a request that stays open for long."""
        self.body = b""
        forget = getattr(self.build_request, "forget_body", None)
        if forget is not None:
            forget()

    def disconnected(self) -> None:
        """Note that the client is gone. The transport calls it, once, before it cancels."""
        self.is_disconnected = True

    def interrupt(self, cancel: Callable[[], object]) -> bool:
        """Cancel the call for its client, by `cancel`; False: later, its handler is shielded."""
        if self.shield is None:
            cancel()
            return True
        self.shield.cancel(cancel)
        return not self.shield.is_up


class Reply(Record):
    """The answer as a transport sends it: `body` is JSON, or None for an empty one.

    `event_id` goes with it where it is the last event of a stream. One that `is_dispensable` is
    sent only where something has to be: a stream ends without it.
    """

    status: int
    body: bytes | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    event_id: str | None = None
    is_dispensable: bool = False
