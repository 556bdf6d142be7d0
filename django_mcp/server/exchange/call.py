"""Call: one request while it is answered, as the server's own code knows it.

The context that a handler gets is a subclass with methods for handlers.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent import futures
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

from django_mcp.protocol.asks import Ask
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.messages import Request, RequestId
from django_mcp.protocol.records import Record
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.rounds import Answers
from django_mcp.server.exchange.timers import TaskTimers

if TYPE_CHECKING:
    from django_mcp.protocol.revisions import Revision
    from django_mcp.registry.entries import Entry
    from django_mcp.server.options import Options

__all__ = ["Call", "Failure", "FailureKind", "Run", "Spawned"]

T = TypeVar("T")

Spawned: TypeAlias = asyncio.Future[T] | futures.Future[T]
"""What runs on this event loop, or on another; `asyncio.wrap_future` makes either awaitable."""


class FailureKind(Enum):
    """In which way a handler failed.

    TOLD is the handler's own word to the model, ARGUMENTS what cannot be converted; DENIED, MISSING
    and INVALID are exceptions that the framework has for these; FAULT is everything unforeseen.
    """

    TOLD = "told"
    ARGUMENTS = "arguments"
    DENIED = "denied"
    MISSING = "missing"
    INVALID = "invalid"
    TIMEOUT = "timeout"
    FAULT = "fault"


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """How a handler failed, with a text that may be shown."""

    kind: FailureKind
    message: str
    reference: str | None = None
    """Of a fault: by which the log has it."""


class Run(Protocol):
    """The run of a task, as the call that it makes knows it."""

    @property
    def is_detached(self) -> bool:
        """Whether the call is a task by now; before, it may still be answered directly."""
        ...

    def stop(self) -> None:
        """Stop the handler: nobody waits for its result. From any thread."""
        ...

    def park(self, asks: Mapping[str, Ask], state: Any) -> None:
        """Leave questions to be asked after this round."""
        ...

    async def keep(self, answers: Answers) -> None:
        """Write down what was done once, so that it holds whatever becomes of this process."""
        ...


class Call(Record):
    """One request on a connection whose revision is settled, from its admission to its response."""

    exchange: Exchange
    message: Request
    connection: ConnectionState
    rules: Revision
    """The record of the revision in effect."""
    options: Options
    """The server's settings as they were when the request came."""
    method: str
    """The method of the request, such as `"tools/call"`."""
    meta: JSONObject
    """The `_meta` of the request; empty when it had none. Treat it as hostile."""
    task: Spawned[Any] | TaskTimers | None = None
    """What runs it, where it can be cancelled."""
    _answers: Answers | None = None
    _is_cancelled: bool = False
    cancelled_by: Literal["client", "server"] | None = None
    """Who cancelled it for good; a client that did expects no response."""
    is_finished: bool = False
    """Whether the response is made: nothing is sent ahead of it any more. A task goes on sending."""
    entry: Entry | None = None
    """What is called, once it is found."""
    failure: Failure | None = None
    """How it failed, if it did."""
    has_asked: bool = False
    """Whether the response is a question to the client."""
    is_task: bool = False
    """Whether the response is a task, which goes on after it."""
    run: Run | None = None
    """The run of a task that this is the call of; None: it is answered directly."""
    _loop: asyncio.AbstractEventLoop | None = None
    _loop_thread: int = 0

    # -- the request and its sender

    @property
    def request_id(self) -> RequestId:
        """The JSON-RPC id of the request, in the type it came in."""
        return self.message.id

    @property
    def params(self) -> JSONObject:
        """The params of the request as they came; treat them as hostile."""
        return self.message.params

    def forget_params(self) -> None:
        """Release the params and the body, for a request that stays open for long."""
        self.message.params = {}
        self.meta = {}
        self.exchange.forget_body()

    @property
    def revision(self) -> str:
        """The protocol revision in effect, such as `"2025-11-25"`: for logs, not for branches."""
        return self.rules.name

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

    # -- cancellation

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for the response any more: cancelled, timed out, or client gone.

        Asynchronous handlers get a `CancelledError` besides. A synchronous handler should look
        here in long loops and return; what a tool wrote in its transaction is then rolled back.
        """
        return self._is_cancelled or (
            self.exchange.is_disconnected and self.exchange.cancels_on_disconnect
        )

    def cancel(self, by: Literal["client", "server"] = "server") -> None:
        """Mark the request as cancelled and interrupt its handler. On the event loop only."""
        if self._is_cancelled or self.is_finished:
            return
        self.cancelled_by = by
        self._is_cancelled = True
        if self.task is not None:
            self.exchange.interrupt(self.task.cancel)

    def abandon(self) -> None:
        """Mark the request as cancelled without interrupting anything."""
        self._is_cancelled = True

    def bind_loop(self) -> None:
        """Remember the running loop, for a synchronous handler's way back to it."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()

    # -- questions to the client

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
    def is_resubmit(self) -> bool:
        """Whether this call answers the questions of an earlier one."""
        return self.answers.is_resubmit

    @property
    def has_back_channel(self) -> bool:
        """Whether the server's own request reaches the client while this one is answered."""
        exchange = self.exchange
        if (
            exchange.connection is None
            or exchange.connection is not self.connection
            or self.is_finished
        ):
            return False
        if exchange.server_request is not None:
            return True
        return exchange.sink is not None and exchange.can_stream and not exchange.is_buffered

    @property
    def unwinds_to_ask(self) -> bool:
        """Whether a question ends this run of the handler, and its answer begins another."""
        return bool(self.rules.interim_fields) or self.run is not None
