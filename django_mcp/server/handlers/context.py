"""Context: one request's life, and what a handler may know and do while it runs.

Methods that talk to the client come in pairs: plain for synchronous handlers, with the prefix `a`
for asynchronous ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from django_mcp.server.asking.back_channel import ping_back, withdraw
from django_mcp.server.delivery.resumption import CallStream
from django_mcp.server.exchange.connection import Session
from django_mcp.server.exchange.timers import Shield
from django_mcp.server.handlers.progress import Telling
from django_mcp.server.handlers.tracing import find_trace

P = TypeVar("P")
T = TypeVar("T")


class NoSession(Exception):
    """There is no session that anything could be kept in."""


class Context(Telling, Generic[P], kw_only=True):
    """What a handler holds of the request it answers, generic over the principal's type.

    A context belongs to one request and ends with it: afterwards nothing is sent any more.
    """

    # -- the request and who sent it

    @property
    def is_stateless(self) -> bool:
        """Whether the revision has no handshake, so that questions travel in results."""
        return self.rules.is_stateless

    @property
    def principal(self) -> P:
        """Who is authenticated."""
        principal: P = self.exchange.principal
        return principal

    @property
    def trace_context(self) -> Mapping[str, str]:
        """The client's `traceparent`, `tracestate` and `baggage`, those it sent; unchecked."""
        return find_trace(self.meta)

    @property
    def url_kwargs(self) -> Mapping[str, Any]:
        """The keyword arguments of the URL that the endpoint was reached by."""
        return self.exchange.url_kwargs

    # -- cancellation

    def shield(self) -> Shield:
        """Return a block in which the client cannot interrupt an asynchronous handler.

        Use:
            async with ctx.shield():
                await charge(card)
                await write_it_down()

        A client that leaves or cancels meanwhile is cancelled when the block exits. The deadline
        of the call still holds, and a synchronous handler is never interrupted.
        """
        if self.exchange.shield is None:
            self.exchange.shield = Shield()
        return self.exchange.shield

    async def aping_client(self, timeout_s: float = 10.0) -> float | None:
        """Ping the client on the stream of this request; return the seconds until it answered.

        None: it has not in time, or cannot be asked anything while the request is answered.

        Source: 2025-11-25 basic/utilities/ping.
        """
        return await ping_back(self.server, self, timeout_s)

    def ping_client(self, timeout_s: float = 10.0) -> float | None:
        """Do as `aping_client` does, from a synchronous handler."""
        return self._from_thread(self.aping_client(timeout_s), "aping_client")

    async def acancel_request(self, request_id: str, reason: str = "Cancelled") -> bool:
        """Cancel a request that another call of this client's asked it by; see `sample`.

        The client is told so, and that call gets `AskFailed`.

        Returns:
            Whether its answer was waited for.

        Source: 2025-11-25 basic/utilities/cancellation.
        """
        return await withdraw(self.server, self.connection, request_id, reason)

    def cancel_request(self, request_id: str, reason: str = "Cancelled") -> bool:
        """Do as `acancel_request` does, from a synchronous handler."""
        return self._from_thread(self.acancel_request(request_id, reason), "acancel_request")

    # -- the session

    @property
    def session_key(self) -> str | None:
        """The public key of the session; None: there is none. It opens nothing.

        Code that continues the work elsewhere, such as a queue's worker, reaches the client by it:
        `MCPServer.notify(..., session=key)`, `ping_client(key)`.
        """
        return self.connection.key if isinstance(self.connection, Session) else None

    @property
    def session(self) -> Any:
        """The user's own data of this session, like a dict; it lasts as long as the session does.

        Raises:
            NoSession: there is none at this revision, in this mode or on this transport.
        """
        if self.connection.data is not None:
            return self.connection.data
        if not isinstance(self.connection, Session):
            raise NoSession(
                "There is no session here: pass what is to be remembered back to the client as an "
                "argument of its next call, or keep it with the user in the database."
            )
        return self.server.sessions.data(self.connection, self)

    async def aclose_stream(self, retry_ms: int = 1000) -> None:
        """Close the connection to the client and go on; the client comes back for the answer.

        For long calls through proxies that cut long connections. Does nothing where the client
        could not come back.

        Args:
            retry_ms: when it is to come back, in milliseconds.
        """
        if isinstance(self.exchange.sink, CallStream):
            await self.exchange.sink.hang_up(retry_ms)

    def close_stream(self, retry_ms: int = 1000) -> None:
        """Do as `aclose_stream` does, from a synchronous handler."""
        self._from_thread(self.aclose_stream(retry_ms), "aclose_stream")
