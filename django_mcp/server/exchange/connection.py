"""What is known of the client of a connection.

A `ConnectionState` belongs to a request at a stateless revision, to a session over HTTP, and to the
process on stdio. It is passed along with each request. No attribute of the server holds "the" connection,
so that two clients cannot see each other's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from msgspec import field

from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.messages import RequestId
from django_mcp.protocol.records import Record
from django_mcp.protocol.revisions import Revision
from django_mcp.protocol.sanitize import limit_client_details
from django_mcp.server.exchange.send_rate import SendRate
from django_mcp.server.exchange.session_data import SessionData


class Asked(Record):
    """A request of the server's that the client has not answered.

    Attributes:
        response: of the client.
        tenant: of the call that asks; None: of the session, at all tenants.
    """

    response: asyncio.Future[JSONObject]
    tenant: str | None = None


class ConnectionState(Record):
    """The client of a connection.

    `revision` is None before the handshake. `asked` has the server's own requests by their ids.
    `stream_id` names the open stream of a connection that has only one, and `data` is its `ctx.session`.
    """

    revision: Revision | None = None
    client_info: JSONObject | None = None
    client_capabilities: JSONObject = field(default_factory=dict)
    log_level: str | None = None
    is_transient: bool = False
    is_initialized: bool = False
    log_rate: SendRate | None = None
    asked: dict[RequestId, Asked] = field(default_factory=dict)
    subscriptions: set[str] | None = None
    """URIs of the resources that the client subscribed to; None: not read from the store yet."""
    subscriptions_version: int = 0
    """How often the stored subscriptions had changed when these were read; 0 if they are in this process."""
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

    def limit_details(self) -> Refusal | None:
        """Limit the client details of a request that a stream or a task keeps, or return a refusal.

        The handshake has limited those of sessions and pipes.
        """
        if not self.is_transient:
            return None
        details = limit_client_details(self.client_info, self.client_capabilities)
        if isinstance(details, Refusal):
            return details
        self.client_info, self.client_capabilities = details
        return None
