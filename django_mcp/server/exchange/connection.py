"""ConnectionState: what is known of the client on the other side, and who owns that knowledge.

Its owner is the request at a stateless revision (built from `_meta` and thrown away), the session
for a stateful HTTP client, the process on stdio. It is handed along with each request and never
kept on the server, so that two clients cannot see each other's.
"""

from __future__ import annotations

import asyncio
from enum import Enum
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


class ConnectionState(Record):
    """The client as this connection knows it.

    `revision` is None until the handshake has settled one. `asked` maps the ids of the server's own
    requests to the futures of the client's responses. `stream_id` names the open stream of a
    connection that has only one, and `data` is what `ctx.session` is there.
    """

    revision: Revision | None = None
    client_info: JSONObject | None = None
    client_capabilities: JSONObject = field(default_factory=dict)
    log_level: str | None = None
    is_transient: bool = False
    is_initialized: bool = False
    log_rate: LogRate | None = None
    """Counts the log messages sent to this client, from the first one on."""
    asked: dict[RequestId, asyncio.Future[JSONObject]] = field(default_factory=dict)
    subscriptions: set[str] | None = None
    """URIs of the resources that the client subscribed to; None: not read from the store yet."""
    stream_id: str | None = None
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


class Closing(Enum):
    """Why a session is over."""

    CLIENT = "the client ended it"
    SITE = "the site ended it"
    STREAM = "its stream is over"
    EVICTED = "it made room for a newer one"
    EXPIRED = "it expired"
    DELETED = "its row was deleted"


class Session(ConnectionState, weakref=True, kw_only=True):
    """A connection that is kept between requests, and may be used by several at once.

    There is one object for it in a process, whatever the number of requests that use it.

    Attributes:
        key: names it in public, in the database and between processes. It opens nothing: what the
            client holds is another, secret id.
        server_name: the server that it was opened at.
        principal_key: who opened it; nobody else finds it.
        quota_key: under which its store counts what is kept of it.
        transport: what carries its messages: `http`, or `sse` for HTTP+SSE.
        was_told_lists: it was told that the lists may have changed, should it have been asked for.
        is_ended: it is over, even if this object is still in use.
        state: for the store that keeps it.
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
        """Return a session that knows of its client what a handshake has settled."""
        return cls(
            revision=settled.revision,
            client_info=settled.client_info,
            client_capabilities=settled.client_capabilities,
            log_level=settled.log_level,
            key=key,
            server_name=server_name,
            principal_key=principal_key,
            transport=transport,
        )


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
