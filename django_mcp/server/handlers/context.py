"""Context: what a handler knows of its request, and what it can do while it runs.

Methods that send to the client have a twin with the prefix `a` for asynchronous handlers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Generic

from typing_extensions import TypeVar

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.messages import RequestId
from django_mcp.protocol.trace_context import find_trace
from django_mcp.registry.entries import ToolEntry
from django_mcp.server.exchange.call import NoAnswer
from django_mcp.server.exchange.session import Session
from django_mcp.server.exchange.session_data import NoSession
from django_mcp.server.exchange.timers import Shield
from django_mcp.server.handlers.progress_and_logs import ProgressAndLogs
from django_mcp.server.services import ServedCall

PrincipalT = TypeVar("PrincipalT", default=Any)


class Context(ProgressAndLogs, Generic[PrincipalT]):
    """The request that a handler answers, generic over the principal's type.

    A context belongs to one request. After its response nothing is sent any more.
    """

    _extensions: Mapping[str, Any] | None = None

    # -- the request and its sender

    @property
    def method(self) -> str:
        """The method of the request, such as `"tools/call"`."""
        return self._call.method

    @property
    def request_id(self) -> RequestId:
        """The JSON-RPC id of the request, in the type it came in."""
        return self._call.message.id

    @property
    def params(self) -> JSONObject:
        """The params of the request as they came; treat them as hostile."""
        return self._call.message.params

    @property
    def meta(self) -> JSONObject:
        """The `_meta` of the request; empty when it had none. Treat it as hostile."""
        return self._call.meta

    @property
    def tools(self) -> Mapping[str, ToolEntry]:
        """The tools that the caller sees, by name, with those that are not listed."""
        visible = self._call.exchange.caller.visible
        tools = self._call.server.registry.tools
        return {name: entry for name, entry in tools.items() if visible.includes(entry)}

    @property
    def revision(self) -> str:
        """The name of the protocol revision, such as `"2025-11-25"`: for logs, not for branches."""
        return self._call.rules.name

    @property
    def client_info(self) -> JSONObject | None:
        """The client's name and version, unverified. Never base behaviour or security on it."""
        return self._call.connection.client_info

    @property
    def client_capabilities(self) -> JSONObject:
        """The capabilities that the client declared for this request; `{}` when unknown."""
        return self._call.connection.client_capabilities

    @property
    def client_extensions(self) -> Mapping[str, JSONObject]:
        """The extensions that the client declared, with its settings, without malformed ones."""
        return self._call.client_extensions

    @property
    def extensions(self) -> Mapping[str, Any]:
        """What the extensions of the server give to handlers, by identifier."""
        if self._extensions is None:
            self._extensions = _FromExtensions(self._call)
        return self._extensions

    @property
    def is_cancelled(self) -> bool:
        """Whether the response is not needed: cancelled, timed out, or the client disconnected.

        Asynchronous handlers also get a `CancelledError`. A synchronous handler should check this
        in long loops and return; what a tool wrote in its transaction is then rolled back.
        """
        return self._call.is_cancelled

    @property
    def is_resubmit(self) -> bool:
        """Whether this call answers the questions of an earlier one."""
        return self._call.answers.is_resubmit

    @property
    def is_stateless(self) -> bool:
        """Whether the revision has no handshake, so that questions travel in results."""
        return self._call.rules.is_stateless

    @property
    def principal(self) -> PrincipalT:
        """Who is authenticated."""
        principal: PrincipalT = self._call.exchange.caller.principal
        return principal

    @property
    def trace_context(self) -> Mapping[str, str]:
        """The client's `traceparent`, `tracestate` and `baggage`, those that it sent and that are well-formed."""
        return find_trace(self._call.meta)

    @property
    def url_kwargs(self) -> Mapping[str, Any]:
        """The keyword arguments of the URL that the endpoint was reached by."""
        return self._call.exchange.caller.url_kwargs

    @property
    def tenant(self) -> str:
        """The name of the tenant, from `TenantMiddleware.name_tenant`; empty without that middleware."""
        return self._call.exchange.caller.tenant

    def shield(self) -> Shield:
        """Return a block in which the client cannot interrupt an asynchronous handler.

        Use:
            async with ctx.shield():
                await charge(card)
                await write_it_down()

        A client that leaves or cancels meanwhile is cancelled when the block exits. The deadline
        of the call still holds, and a synchronous handler is never interrupted.
        """
        if self._call.exchange.channel.shield is None:
            self._call.exchange.channel.shield = Shield()
        return self._call.exchange.channel.shield

    async def aping_client(self, timeout_s: float = 10.0) -> float | None:
        """Ping the client on the stream of this request; return the seconds until it answered.

        None: it did not answer in time, or cannot be sent requests during this one.
        Source: 2025-11-25 basic/utilities/ping.
        """
        if not self._call.has_back_channel:
            return None
        clock = asyncio.get_running_loop().time
        begun_s = clock()
        try:
            await self._call.server.ports.handshakes.request(
                self._call, "ping", None, timeout_s=timeout_s
            )
        except NoAnswer:
            return None
        return clock() - begun_s

    def ping_client(self, timeout_s: float = 10.0) -> float | None:
        """Do as `aping_client` does, from a synchronous handler."""
        return self._from_thread(self.aping_client(timeout_s), "aping_client")

    async def acancel_request(self, request_id: str, reason: str = "Cancelled") -> bool:
        """Cancel a request to this client that another call waits for; return whether one did.

        The client is sent the cancellation, and that call gets `AskFailed`. See `sample`.

        Source: 2025-11-25 basic/utilities/cancellation.
        """
        server = self._call.server
        if self._call.rules.is_stateless:
            return False
        return await server.ports.handshakes.withdraw(
            server, self._call.connection, request_id, reason
        )

    def cancel_request(self, request_id: str, reason: str = "Cancelled") -> bool:
        """Do as `acancel_request` does, from a synchronous handler."""
        return self._from_thread(self.acancel_request(request_id, reason), "acancel_request")

    # -- the session

    @property
    def session_key(self) -> str | None:
        """The public key of the session, which gives no access; None: there is none.

        Code that continues the work elsewhere, such as a queue's worker, reaches the client by it:
        `MCPServer.notify(..., session=key)`, `ping_client(key)`.
        """
        return self._call.connection.key if isinstance(self._call.connection, Session) else None

    @property
    def session(self) -> Any:
        """The data of this session, like a dict, for as long as the session lasts.

        Raises:
            NoSession: there is none at this revision, in this mode or on this transport.
        """
        if self._call.connection.data is not None:
            return self._call.connection.data
        if not isinstance(self._call.connection, Session):
            raise NoSession(
                "There is no session here: pass what is to be remembered back to the client as an "
                "argument of its next call, or keep it with the user in the database."
            )
        return self._call.server.ports.sessions.data(self._call.connection, self._call)

    async def aclose_stream(self, retry_ms: int = 1000) -> None:
        """Close the connection to the client and go on; the client connects again for the answer.

        For long calls through proxies that cut long connections. Does nothing if the client cannot
        resume the stream.

        Args:
            retry_ms: when the client should connect again, in milliseconds.
        """
        if not self._call.rules.is_stateless:
            await self._call.server.ports.handshakes.close_stream(self._call, retry_ms)

    def close_stream(self, retry_ms: int = 1000) -> None:
        """Do as `aclose_stream` does, from a synchronous handler."""
        self._from_thread(self.aclose_stream(retry_ms), "aclose_stream")


class _FromExtensions(Mapping[str, Any]):
    """What the extensions of a server give to the handler of a call, each made when it is read."""

    def __init__(self, call: ServedCall) -> None:
        self._call = call
        self._made: dict[str, Any] = {}

    def __getitem__(self, identifier: str) -> Any:
        if identifier not in self._made:
            extension = self._call.server.extensions[identifier]
            self._made[identifier] = extension.make_context(self._call)
        return self._made[identifier]

    def __iter__(self) -> Iterator[str]:
        return iter(self._call.server.extensions)

    def __len__(self) -> int:
        return len(self._call.server.extensions)
