"""Exchange: an incoming message, who sends it, and the way to respond."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import field

from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.headers import Headers
from django_mcp.protocol.messages import RequestId, encode_error
from django_mcp.protocol.records import Record
from django_mcp.server.exchange.caller import Caller
from django_mcp.server.exchange.channel import Channel
from django_mcp.server.exchange.connection import ConnectionState


class Exchange(Record):
    """One request as its transport knows it. A caller in process may pass it again."""

    body: bytes = b""
    headers: Headers | None = None
    """None where the transport has no headers (stdio, in process): header rules are off."""
    caller: Caller = field(default_factory=Caller)
    channel: Channel = field(default_factory=Channel)
    connection: ConnectionState | None = None
    """The state of a connection that outlives this exchange, if any."""
    request_id: str | None = None
    """The id of the request in the log, set by middleware."""
    operation: Any = None
    """What an instrument knows of the message, while it is answered."""
    step: Callable[[Exchange], Awaitable[Reply]] | None = None
    """What is done in place of answering the body, such as opening a stream."""


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
