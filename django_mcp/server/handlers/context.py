"""Context: one request's life, and what a handler may know and do while it runs.

Methods that talk to the client come in pairs: plain for synchronous handlers, with the prefix `a`
for asynchronous ones.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.messages import Request, RequestId, encode_notification
from django_mcp.protocol.records import Record
from django_mcp.server.asking.back_channel import ping_back, withdraw
from django_mcp.server.asking.questions import Asking
from django_mcp.server.delivery.resumption import CallStream
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.rounds import Answers
from django_mcp.server.exchange.timers import Shield, TaskTimers
from django_mcp.server.handlers.progress import Telling
from django_mcp.server.handlers.tracing import find_trace
from django_mcp.server.services.session_lookup import Session

if TYPE_CHECKING:
    from django_mcp.protocol.revisions import Revision
    from django_mcp.registry.entries import Entry
    from django_mcp.server.exchange.send_rate import SendRate
    from django_mcp.server.options import Options
    from django_mcp.server.server import MCPServer
    from django_mcp.server.services.ports import Failure
    from django_mcp.server.tasks.interfaces import Spawned
    from django_mcp.server.tasks.run import TaskRun

P = TypeVar("P")
T = TypeVar("T")


class NoSession(Exception):
    """There is no session that anything could be kept in."""


class Context(Asking, Telling, Record, Generic[P]):
    """What a handler holds of the request it answers, generic over the principal's type.

    A context belongs to one request and ends with it: afterwards nothing is sent any more.
    """

    server: MCPServer
    exchange: Exchange
    message: Request
    connection: ConnectionState
    rules: Revision
    """The record of the revision in effect."""
    options: Options
    """The server's settings as they were when the request came."""
    method: str
    """The method of the request, such as `"tools/call"`."""
    _meta: JSONObject
    task: Spawned[Any] | TaskTimers | None = None
    """What runs it, where it can be cancelled."""
    _answers: Answers | None = None
    _is_cancelled: bool = False
    cancelled_by: Literal["client", "server"] | None = None
    """Who cancelled it for good; a client that did expects no answer."""
    _is_finished: bool = False
    _last_progress: float | None = None
    _progress_rate: SendRate | None = None
    entry: Entry | None = None
    """What is called, once it is found."""
    failure: Failure | None = None
    """How it failed, if it did."""
    has_asked: bool = False
    """Whether the answer is a question to the client."""
    is_task: bool = False
    """Whether the answer is a task, which goes on after it."""
    run: TaskRun | None = None
    """The run of a task that this is the context of; None: it is answered directly."""
    _loop: asyncio.AbstractEventLoop | None = None
    _loop_thread: int = 0

    @classmethod
    def of(
        cls,
        server: MCPServer,
        exchange: Exchange,
        message: Request,
        connection: ConnectionState,
    ) -> Self:
        """Return the context of a request on a connection whose revision is settled."""
        rules = connection.revision
        if rules is None:
            raise ValueError("a context needs a connection with a revision")
        meta = message.params.get("_meta")
        return cls(
            server,
            exchange,
            message,
            connection,
            rules,
            server.options,
            message.method,
            meta if type(meta) is dict else {},
        )

    # -- the request and who sent it

    @property
    def request_id(self) -> RequestId:
        """The JSON-RPC id of the request, in the type it came in."""
        return self.message.id

    @property
    def params(self) -> JSONObject:
        """The params of the request as they came; treat them as hostile."""
        return self.message.params

    @property
    def meta(self) -> Mapping[str, Any]:
        """The `_meta` of the request; empty when it had none."""
        return self._meta

    def forget_params(self) -> None:
        """Let go of what came with the request, for one that stays open for long."""
        self.message.params = {}
        self._meta = {}
        self.exchange.forget_body()

    @property
    def revision(self) -> str:
        """The protocol revision in effect, such as `"2025-11-25"`: for logs, not for branches."""
        return self.rules.name

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
    def client_info(self) -> JSONObject | None:
        """What the client says it is. Never base behaviour or security on it."""
        return self.connection.client_info

    @property
    def client_capabilities(self) -> JSONObject:
        """What the client declared it can do, for this request; `{}` when unknown."""
        return self.connection.client_capabilities

    @property
    def client_extensions(self) -> Mapping[str, JSONObject]:
        """The extensions the client declared, with its settings; those it has no form for go."""
        declared = self.connection.client_capabilities.get("extensions")
        if type(declared) is not dict:
            return {}
        return {key: value for key, value in declared.items() if type(value) is dict}

    @property
    def trace_context(self) -> Mapping[str, str]:
        """The client's `traceparent`, `tracestate` and `baggage`, those it sent; unchecked."""
        return find_trace(self._meta)

    @property
    def url_kwargs(self) -> Mapping[str, Any]:
        """The keyword arguments of the URL that the endpoint was reached by."""
        return self.exchange.url_kwargs

    # -- cancellation

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for the answer any more: cancelled, timed out, or client gone.

        Asynchronous handlers get a `CancelledError` besides. A synchronous handler should look
        here in long loops and return; what it wrote is then rolled back.
        """
        return self._is_cancelled or (
            self.exchange.is_disconnected and self.exchange.cancels_on_disconnect
        )

    def cancel(self, by: Literal["client", "server"] = "server") -> None:
        """Mark the request as cancelled and interrupt its handler. On the event loop only."""
        if self._is_cancelled or self._is_finished:
            return
        self.cancelled_by = by
        self._is_cancelled = True
        if self.task is not None:
            self.exchange.interrupt(self.task.cancel)

    def shield(self) -> Shield:
        """Return a block in which the client cannot interrupt an asynchronous handler.

        Use:
            async with ctx.shield():
                await charge(card)
                await write_it_down()

        A client that leaves or cancels meanwhile has its way at the end of the block. The deadline
        of the call still holds, and a synchronous handler is never interrupted.
        """
        if self.exchange.shield is None:
            self.exchange.shield = Shield()
        return self.exchange.shield

    def abandon(self) -> None:
        """Mark the request as cancelled without interrupting anything."""
        self._is_cancelled = True

    def finish(self) -> None:
        """Note that the answer is made: nothing is sent ahead of it any more.

        A task goes on, and so does what it sends.
        """
        self._is_finished = self.run is None

    # -- questions to the client; see `Asking`

    @property
    def answers(self) -> Answers:
        """What this call knows from its earlier rounds."""
        if self._answers is None:
            self._answers = Answers()
        return self._answers

    @answers.setter
    def answers(self, answers: Answers) -> None:
        self._answers = answers

    @property
    def has_back_channel(self) -> bool:
        """Whether a request of ours reaches the client while this one is answered."""
        exchange = self.exchange
        if (
            exchange.connection is None
            or exchange.connection is not self.connection
            or self._is_finished
        ):
            return False
        if exchange.server_request is not None:
            return True
        return exchange.sink is not None and exchange.can_stream and not exchange.is_buffered

    async def aping_client(self, timeout_s: float = 10.0) -> float | None:
        """Ping the client on the stream of this request; return the seconds until it answered.

        None: it has not in time, or cannot be asked anything while the request is answered.

        Source: 2025-11-25 basic/utilities/ping.
        """
        return await ping_back(self, timeout_s)

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

    @property
    def unwinds_to_ask(self) -> bool:
        """Whether a question ends this run of the handler, and its answer begins another."""
        return bool(self.rules.interim_fields) or self.run is not None

    # -- the session

    @property
    def session_key(self) -> str | None:
        """The public key of the session; None: there is none. It opens nothing.

        Whoever goes on with the work elsewhere, such as a queue's worker, reaches the client by it:
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

    # -- the way to the client; see `Telling`

    @property
    def _may_send(self) -> bool:
        exchange = self.exchange
        return not (
            exchange.sink is None
            or not exchange.can_stream
            or self._is_finished
            # On a session, the client may come back for it.
            or (exchange.is_disconnected and exchange.connection is None)
        )

    async def _notify(self, method: str, params: JSONObject) -> None:
        sink = self.exchange.sink
        # Encoded before the look at the state, so that a bad value fails whoever listens.
        message = encode_notification(method, params)
        if self.options.strict:
            from django_mcp.server.exchange.strict import is_sound

            if not is_sound(method, params, self.rules):
                return
        if sink is not None and self._may_send and not self._is_cancelled:
            await sink.send(message)

    def bind_loop(self) -> None:
        """Remember the running loop, for a synchronous handler's way back to it."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()

    def _from_thread(self, coroutine: Coroutine[Any, Any, T], name: str) -> T:
        loop = self._loop
        if loop is None or threading.get_ident() == self._loop_thread:
            coroutine.close()
            raise RuntimeError(
                f"This would block the event loop: in an async handler write `await ctx.{name}()`."
            )
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()
