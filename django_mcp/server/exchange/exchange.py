"""Exchange: an incoming message with what its transport knows, and the way to respond."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

from msgspec import field

from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.headers import Headers
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.messages import RequestId, encode_error
from django_mcp.protocol.records import Record
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.pending import PendingBytes
from django_mcp.server.exchange.quotas import quota_key_of
from django_mcp.server.exchange.timers import Shield, TaskTimers
from django_mcp.server.exchange.visibility import NONE_VISIBLE, VisibleEntries


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


class Anonymous:
    """The principal of a request without authentication."""

    key: str | None = None
    auth: Any = None
    is_authenticated = False

    def __repr__(self) -> str:
        return "<anonymous>"


ANONYMOUS = Anonymous()


def key_of(principal: Any) -> str | None:
    """Return the key of a principal, equal for all of its requests; None: anonymous.

    A user of Django, for which code in process may act, is named by the primary key.
    """
    key: str | None = getattr(principal, "key", None)
    # The model of the site's users may have a field of that name.
    if key is not None and not hasattr(principal, "_meta"):
        return key
    pk = getattr(getattr(principal, "user", principal), "pk", None)
    return None if pk is None else f"user:{pk}"


ServerRequest: TypeAlias = Callable[[str, JSONObject | None], Awaitable[JSONObject]]
"""Sends the client a request, by method and params, and returns its result."""


class Exchange(Record, kw_only=True):
    """One request as its transport knows it, and the way to respond.

    A transport fills it, passes it to the server, and reads `cancels_on_disconnect` when the client
    disconnects. Authentication and middleware add to it. A caller in process may pass it again.
    """

    body: bytes = b""
    headers: Headers | None = None
    """None where the transport has no headers (stdio, in process): header rules are off."""
    principal: Any = ANONYMOUS
    address: str | None = None
    can_stream: bool = False
    build_request: Callable[[], Any] | None = None
    sink: Sink | None = None
    event_stream: EventStream | None = None
    """The sink, if it is an event stream that the client may resume."""
    server_request: ServerRequest | None = None
    """Sends the client a request, if the caller does that itself."""
    url_kwargs: Mapping[str, Any] = field(default_factory=dict)
    connection: ConnectionState | None = None
    """The state of a connection that outlives this exchange, if any."""
    timers: TaskTimers | None = None
    """Those of the asyncio task that runs it; the server makes them for the time if the transport did not."""
    authentication: Any = None
    """What authenticated it, and makes challenges; None: no authentication is required."""
    visible: VisibleEntries = NONE_VISIBLE
    """What the principal can see; the server sets it before it runs a method."""
    is_of_tenant: bool = False
    """Rights must not be cached for it, since those of another tenant may differ."""
    request_id: str | None = None
    cancels_on_disconnect: bool = False
    """Set by the server when the revision is known; read by the transport."""
    is_disconnected: bool = False
    """Set by the transport when the client has disconnected, before it cancels."""
    batch: Exchange | None = None
    """The exchange of the batch, for that of a message in it."""
    shield: Shield | None = None
    """Made by the first `ctx.shield()`."""
    waits_for_thread: bool = False
    counts_answers: bool = False
    """Large answers count as pending until the transport calls `release_answers`."""
    pending: PendingBytes | None = None
    """What counts of its answers."""
    is_buffered: bool = False
    """Messages ahead of the response reach the client with it, so the client cannot be asked."""

    @property
    def quota_key(self) -> str:
        """The quota that is charged for what the caller has open or stored; see `quotas`."""
        return quota_key_of(key_of(self.principal), self.address)

    @property
    def is_gone(self) -> bool:
        """Whether the client has disconnected, from the batch if this is a part of one."""
        return (self.batch or self).is_disconnected

    def interrupt(self, cancel: Callable[[], object]) -> bool:
        """Call `cancel` for the client; return False if a shielded handler delays it."""
        if self.shield is None:
            cancel()
            return True
        self.shield.cancel(cancel)
        return not self.shield.is_up


class Reply(Record):
    """The response as a transport sends it: `body` is JSON, or None for an empty one.

    `event_id` is its id as the last event of a stream. A reply that `is_dispensable` is left out if
    the transport can do without: a stream just ends. `refusal` is what it refuses the request for, and
    `note` is added to that in the log, and not sent.
    """

    status: int
    body: bytes | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    event_id: str | None = None
    is_dispensable: bool = False
    refusal: Refusal | None = None
    note: str = ""


def refusal_reply(
    refusal: Refusal, status: int = 400, request_id: RequestId | None = None
) -> Reply:
    """Return the reply for a refusal; the refusal's own status, if any, takes precedence."""
    body = encode_error(request_id, refusal)
    return Reply(refusal.status or status, body, refusal.headers, refusal=refusal)
