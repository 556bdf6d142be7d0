"""ConnectionState: what is known of the client on the other side, and who owns that knowledge.

Its owner is the request at a stateless revision (built from `_meta` and thrown away), the session
for a stateful HTTP client, the process on stdio. It is handed along with each request and never
kept on the server, so that two clients cannot see each other's.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import field

from django_mcp.protocol.client_details import limit_client_details
from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.messages import RequestId
from django_mcp.protocol.records import Record
from django_mcp.protocol.revisions import Revision
from django_mcp.server.exchange.send_rate import LogRate

if TYPE_CHECKING:
    from django_mcp.server.exchange.session_data import SessionData
    from django_mcp.server.handlers.context import Context
    from django_mcp.server.streams.stream import PushStream


class ConnectionState(Record):
    """The client as this connection knows it.

    `revision` is None until the handshake has settled one. `in_flight` maps the ids of running
    requests to their contexts, for cancellation; ids are unique within one connection only.
    `asked` maps the ids of our own requests to those who wait for the client's answer. `stream`
    is the way to the client of a connection that has only one, and `data` what `ctx.session` is
    there.
    """

    revision: Revision | None = None
    client_info: JSONObject | None = None
    client_capabilities: JSONObject = field(default_factory=dict)
    log_level: str | None = None
    is_transient: bool = False
    is_initialized: bool = False
    log_rate: LogRate | None = None
    """Counts the log messages sent to this client, from the first one on."""
    in_flight: dict[RequestId, Context[Any]] = field(default_factory=dict)
    asked: dict[RequestId, asyncio.Future[JSONObject]] = field(default_factory=dict)
    stream: PushStream | None = None
    data: SessionData | None = None

    def may_log(self, rate: int) -> bool:
        """Return whether the client may be sent one more log message now, and count that one.

        Args:
            rate: log messages per second; 0: any number.
        """
        if not rate:
            return True
        if self.log_rate is None:
            self.log_rate = LogRate(rate)
        return self.log_rate.take()


def limit_kept_details(connection: ConnectionState) -> Refusal | None:
    """Prepare the connection of one request to be kept for longer, as by a stream or a task.

    Returns the refusal of client details that are too large. Sessions and pipes are limited by
    their handshake.
    """
    if not connection.is_transient:
        return None
    details = limit_client_details(connection.client_info, connection.client_capabilities)
    if isinstance(details, Refusal):
        return details
    connection.client_info, connection.client_capabilities = details
    return None
