"""ConnectionState: what is known of the client on the other side, and who owns that knowledge.

Its owner is the request at a stateless revision (built from `_meta` and thrown away), the session
for a stateful HTTP client, the process on stdio. It is handed along with each request and never
kept on the server, so that two clients cannot see each other's.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.messages import RequestId
from django_mcp.protocol.revisions import Revision

if TYPE_CHECKING:
    from django_mcp.server.context import Context
    from django_mcp.server.push import PushStream
    from django_mcp.server.send_rate import LogRate
    from django_mcp.server.session_data import SessionData


class ConnectionState:
    """The client as this connection knows it.

    `revision` is None until the handshake has settled one. `in_flight` maps the ids of running
    requests to their contexts, for cancellation; ids are unique within one connection only.
    `asked` maps the ids of our own requests to those who wait for the client's answer. `stream`
    is the way to the client of a connection that has only one, and `data` what `ctx.session` is
    there.
    """

    __slots__ = (
        "asked",
        "client_capabilities",
        "client_info",
        "data",
        "in_flight",
        "is_initialized",
        "is_transient",
        "log_level",
        "log_rate",
        "revision",
        "stream",
    )

    def __init__(
        self,
        revision: Revision | None = None,
        *,
        client_info: JSONObject | None = None,
        client_capabilities: JSONObject | None = None,
        log_level: str | None = None,
        is_transient: bool = False,
    ) -> None:
        self.revision = revision
        self.client_info = client_info
        self.client_capabilities = client_capabilities if client_capabilities is not None else {}
        self.log_level = log_level
        self.log_rate: LogRate | None = None
        """Counts the log messages sent to this client, from the first one on."""
        self.is_transient = is_transient
        self.is_initialized = False
        self.in_flight: dict[RequestId, Context[Any]] = {}
        self.asked: dict[RequestId, asyncio.Future[JSONObject]] = {}
        self.stream: PushStream | None = None
        self.data: SessionData | None = None
