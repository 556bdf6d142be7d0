"""Context: what a handler knows of its request, and what it can do while it runs.

Methods that send to the client have a twin with the prefix `a` for asynchronous handlers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from django_mcp.server.asking.back_channel import ping_back, withdraw
from django_mcp.server.delivery.resumption import CallStream
from django_mcp.server.exchange.connection import Session
from django_mcp.server.exchange.timers import Shield
from django_mcp.server.handlers.progress import ProgressMethods, blocking
from django_mcp.server.handlers.tracing import find_trace

P = TypeVar("P")
T = TypeVar("T")


class NoSession(Exception):
    """There is no session in which data could be kept."""


class Context(ProgressMethods, Generic[P], kw_only=True):
    """The request that a handler answers, generic over the principal's type.

    A context belongs to one request. After its response nothing is sent any more.
    """

    # -- the request and its sender

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

        None: it did not answer in time, or cannot be sent requests during this one.

        Source: 2025-11-25 basic/utilities/ping.
        """
        return await ping_back(self.server, self, timeout_s)

    ping_client = blocking(aping_client)

    async def acancel_request(self, request_id: str, reason: str = "Cancelled") -> bool:
        """Cancel a request to this client that another call waits for; see `sample`.

        The client is sent the cancellation, and that call gets `AskFailed`.

        Returns:
            Whether a call waited for the answer.

        Source: 2025-11-25 basic/utilities/cancellation.
        """
        return await withdraw(self.server, self.connection, request_id, reason)

    cancel_request = blocking(acancel_request)

    # -- the session

    @property
    def session_key(self) -> str | None:
        """The public key of the session, which gives no access; None: there is none.

        Code that continues the work elsewhere, such as a queue's worker, reaches the client by it:
        `MCPServer.notify(..., session=key)`, `ping_client(key)`.
        """
        return self.connection.key if isinstance(self.connection, Session) else None

    @property
    def session(self) -> Any:
        """The data of this session, like a dict, for as long as the session lasts.

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
        """Close the connection to the client and go on; the client connects again for the answer.

        For long calls through proxies that cut long connections. Does nothing if the client cannot
        resume the stream.

        Args:
            retry_ms: when the client should connect again, in milliseconds.
        """
        if isinstance(self.exchange.sink, CallStream):
            await self.exchange.sink.hang_up(retry_ms)

    close_stream = blocking(aclose_stream)
