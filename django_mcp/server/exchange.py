"""One incoming message on its way through the server: what a transport knows, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from django_mcp.protocol.headers import Headers
from django_mcp.server.connection import ConnectionState
from django_mcp.server.interrupt import Shield, TaskTimers
from django_mcp.server.offers import NOTHING, Offer


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


class Exchange:
    """What a transport knows of one request: its bytes, its surroundings, and the way back.

    A transport fills it, hands it to the server once, and reads `cancels_on_disconnect` when the
    client goes away. Mutable on purpose: authentication and middleware add what they find.
    """

    __slots__ = (
        "address",
        "body",
        "build_request",
        "can_stream",
        "cancels_on_disconnect",
        "connection",
        "gate",
        "headers",
        "is_buffered",
        "is_disconnected",
        "is_of_tenant",
        "offer",
        "principal",
        "request_id",
        "shield",
        "sink",
        "timers",
        "url_kwargs",
    )

    def __init__(
        self,
        *,
        body: bytes = b"",
        headers: Headers | None = None,
        principal: Any = ANONYMOUS,
        address: str | None = None,
        can_stream: bool = False,
        build_request: Callable[[], Any] | None = None,
        sink: Sink | None = None,
        url_kwargs: Mapping[str, Any] | None = None,
        connection: ConnectionState | None = None,
        timers: TaskTimers | None = None,
    ) -> None:
        self.body = body
        self.headers = headers
        """None where the transport has no headers (stdio, in process): header rules are off."""
        self.principal = principal
        self.address = address
        self.can_stream = can_stream
        self.build_request = build_request
        self.sink = sink
        self.url_kwargs = url_kwargs or {}
        self.connection = connection
        """The state of a connection that lives longer than this exchange; None: there is none."""
        self.timers = timers
        """Of the task that the exchange is answered in, where the transport has made them."""
        self.gate: Any = None
        """What authenticated it; challenges are made by it. None where nobody has to be known."""
        self.offer: Offer = NOTHING
        """What there is for the principal; the server finds it out before it answers."""
        self.is_of_tenant = False
        """What is found out for it must not be kept: another tenant's might be another."""
        self.request_id: str | None = None
        self.cancels_on_disconnect = False
        """Set by the server as soon as the revision is known; read by the transport."""
        self.is_disconnected = False
        self.shield: Shield | None = None
        """Made when a handler first asks not to be interrupted by its client."""
        self.is_buffered = False
        """What is sent ahead of the answer reaches the client with it, so nothing can be asked."""

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


class Reply:
    """The answer as a transport sends it: `body` is JSON, or None for an empty one.

    `event_id` goes with it where it is the last event of a stream. One that `is_dispensable` is
    sent only where something has to be: a stream ends without it.
    """

    __slots__ = ("body", "event_id", "headers", "is_dispensable", "status")

    def __init__(
        self,
        status: int,
        body: bytes | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        event_id: str | None = None,
    ) -> None:
        self.event_id = event_id
        self.is_dispensable = False
        self.status = status
        self.body = body
        self.headers = headers
