"""Connections: what is known of one client.

A `ConnectionState` belongs to a request at a stateless revision, to a session over HTTP, and to the
process on stdio. It is passed along with each request and never stored on the server, so that two
clients cannot see each other's.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from enum import Enum
from typing import Any

from msgspec import field

from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.protocol.messages import RequestId
from django_mcp.protocol.records import Record
from django_mcp.protocol.revisions import Revision
from django_mcp.protocol.texts import limit_client_details
from django_mcp.server.exchange.session_data import SessionData

logger = logging.getLogger("django_mcp")


class SendRate:
    """Lets `rate` messages a second pass, and as many at once after a silence, but no others."""

    __slots__ = ("_allowance", "_checked_s", "_rate", "_warning")

    def __init__(self, rate: int, warning: str | None = None) -> None:
        self._rate = rate
        self._warning = warning
        self._allowance = float(rate)
        self._checked_s = time.monotonic()

    def take(self) -> bool:
        """Return whether one more message may be sent now, and count it."""
        now = time.monotonic()
        self._allowance += (now - self._checked_s) * self._rate
        self._allowance = min(self._allowance, float(self._rate))
        self._checked_s = now
        if self._allowance < 1:
            if self._warning is not None:
                logger.warning(self._warning, self._rate)
                self._warning = None
            return False
        self._allowance -= 1
        return True


class ConnectionState(Record):
    """The client of a connection.

    `revision` is None before the handshake. `asked` maps the ids of the server's own requests to the
    futures of the client's responses. `stream_id` names the open stream of a connection that has only
    one, and `data` is its `ctx.session`.
    """

    revision: Revision | None = None
    client_info: JSONObject | None = None
    client_capabilities: JSONObject = field(default_factory=dict)
    log_level: str | None = None
    is_transient: bool = False
    is_initialized: bool = False
    log_rate: SendRate | None = None
    asked: dict[RequestId, asyncio.Future[JSONObject]] = field(default_factory=dict)
    subscriptions: set[str] | None = None
    """URIs of the resources that the client subscribed to; None: not read from the store yet."""
    subscribed_as_of_s: float = 0.0
    """When the store was asked for `subscriptions`, by the wall clock; 0 if it is in this process."""
    stream_id: str | None = None
    data: SessionData | None = None

    def settled(self) -> dict[str, Any]:
        """Return the attributes that a handshake settles."""
        names = ("revision", "client_info", "client_capabilities", "log_level")
        return {name: getattr(self, name) for name in names}

    def update(self, changes: Mapping[str, Any]) -> None:
        """Set attributes."""
        for name, value in changes.items():
            setattr(self, name, value)

    def may_log(self, rate: int) -> bool:
        """Return whether one more log message may be sent now, of `rate` a second; 0: any number."""
        if not rate:
            return True
        if self.log_rate is None:
            self.log_rate = SendRate(
                rate, "A client is sent %d log messages a second at most; the rest is dropped"
            )
        return self.log_rate.take()


class Closing(Enum):
    """Why a session ended."""

    CLIENT = "the client ended it"
    SITE = "the site ended it"
    STREAM = "its stream is over"
    EVICTED = "it made room for a newer one"
    EXPIRED = "it expired"
    DELETED = "its row was deleted"


BASE_BYTES = 2048
VALUE_BYTES = 64
"""Estimated memory of a session, and of each JSON value in its client details."""


class Session(ConnectionState, weakref=True, kw_only=True):
    """A connection that lasts between requests, and may be used by several at once.

    Each process has at most one object for it.

    Attributes:
        key: its public name, in the database and between processes. It gives no access; the client
            has another, secret id.
        principal_key: the principal that opened it and alone may use it.
        is_ended: it has ended, even if this object is still in use.
    """

    key: str
    server_name: str
    principal_key: str | None
    quota_key: str = ""
    transport: str = "http"
    was_told_lists: bool = False
    is_ended: bool = False
    state: Any = None

    @classmethod
    def of(
        cls,
        key: str,
        server_name: str,
        principal_key: str | None,
        settled: ConnectionState,
        *,
        transport: str = "http",
    ) -> Session:
        """Return a session with what a handshake has settled."""
        return cls(
            **settled.settled(),
            key=key,
            server_name=server_name,
            principal_key=principal_key,
            transport=transport,
        )


def memory_size(session: Session) -> int:
    """Return about how many bytes of memory a session takes without its subscriptions."""
    details = encode([session.client_info, session.client_capabilities])
    values = details.count(b",") + details.count(b"{") + details.count(b"[")
    return BASE_BYTES + len(details) + VALUE_BYTES * values


def limit_kept_details(connection: ConnectionState) -> Refusal | None:
    """Limit the client details of a request that a stream or a task keeps, or return a refusal.

    The handshake has limited those of sessions and pipes.
    """
    if not connection.is_transient:
        return None
    details = limit_client_details(connection.client_info, connection.client_capabilities)
    if isinstance(details, Refusal):
        return details
    connection.client_info, connection.client_capabilities = details
    return None
