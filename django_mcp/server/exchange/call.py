"""Call: one request, for the server's own code, and the rounds in which its handler asks the client."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from msgspec import field

from django_mcp.protocol.asks import Ask
from django_mcp.protocol.errors import ToolError
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.messages import Request
from django_mcp.protocol.records import Record
from django_mcp.protocol.revisions import Revision
from django_mcp.registry.entries import Entry
from django_mcp.registry.problems import Problem
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.timers import Interrupt, TaskTimers
from django_mcp.server.options import Options

T = TypeVar("T")


# These are no `Exception`, so that a handler's own `except Exception` lets them pass.


@dataclass(eq=False)
class Suspended(BaseException):
    """Leave a handler to ask the client."""

    asks: Mapping[str, Ask]


@dataclass(eq=False)
class SuspendedForOnce(BaseException):
    """Leave a handler to run a function once, in a transaction of its own."""

    key: str
    function: Callable[[], Any]


@dataclass(eq=False)
class SuspendedForWait(BaseException):
    """Leave a handler until an event other than an answer of the client.

    The handler runs again when `wait` returns, and finds the key in `RetryAnswers.waited`.
    """

    key: str
    wait: Callable[[], Awaitable[None]]


LARGE_BYTES = 32 * 1024
"""From this size of a message on, other calls get a turn between the steps of a call."""

MAX_STATE_BYTES = 1024 * 1024
"""Bytes of the state of a call between two rounds, with the client's answers."""


class StateTooLarge(Exception):
    """The state of a call is larger than what is kept between two rounds."""


class CannotAsk(Exception):
    """The client cannot be asked: it lacks the capability, or the server cannot send it requests.

    Attributes:
        capability: the capability that it would have to declare.
        unasked: the questions, if an error can contain them instead.
        has_way: whether the text says how the call goes on all the same.
    """

    def __init__(
        self, message: str, capability: Mapping[str, Any], unasked: Sequence[Ask] = ()
    ) -> None:
        super().__init__(message)
        self.capability = capability
        self.unasked = unasked
        self.has_way = False


class NoAnswer(Exception):
    """A client gave no answer; the text says why."""


class AskFailed(ToolError):
    """The client did not answer a question. If a tool does not catch it, the model gets its text.

    Attributes:
        code: the client's error code; None if it did not answer in time.
    """

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class RetryAnswers(Record):
    """The answers and results of a call's earlier rounds.

    Attributes:
        known: the client's unchecked answers, by the key of the question.
        failed: the failures in place of answers, by the key of the question.
        kept: the results of `once`, by its key.
        state: what the `InputRequired` of the last round held as its state.
        is_resubmit: whether this round follows a question to the client.
        unfit: the number of answers that did not fit, by the key of the question.
        waited: keys of the `SuspendedForWait` that were raised during this request.
        is_leaving: whether a question has left the handler by its exception in this round.
        given: answers among the arguments of the call; None: there are none.
        taken: the key of the question that each name in `given` has answered.
        is_single_use: whether the next round may happen once, since the user's consent is among what is known.
        used: how many answers and results of `once` the handler has had in this round.
        is_in_once: whether a function of `aonce` runs.
    """

    known: JSONObject = field(default_factory=dict)
    failed: dict[str, AskFailed] = field(default_factory=dict)
    kept: JSONObject = field(default_factory=dict)
    state: Any = None
    is_resubmit: bool = False
    is_leaving: bool = False
    waited: set[str] = field(default_factory=set)
    unfit: Counter[str] = field(default_factory=Counter)
    given: JSONObject | None = None
    taken: dict[str, str] = field(default_factory=dict)
    is_single_use: bool = False
    used: int = 0
    is_in_once: bool = False
    _asked: int = 0
    _keys: dict[tuple[str, str], Any] | None = None

    def begin(self) -> None:
        """Restart the numbers of questions, since the handler runs from its start."""
        self._asked = self.used = 0
        self.is_leaving = False

    def next_key(self) -> str:
        """Return the key of a question without one: its number."""
        self._asked += 1
        return f"question-{self._asked}"

    def note_key(self, key: tuple[str, str], shown: Any) -> Any:
        """Return what this run has used the key for first, which is `shown` if it has not."""
        if self._keys is None or not self.used:
            # A run goes on to a second question only after an answer to the first.
            self._keys = {}
        return self._keys.setdefault(key, shown)


Spawned: TypeAlias = asyncio.Future[T] | futures.Future[T]
"""A future of this event loop or another; `asyncio.wrap_future` makes either awaitable."""


class FailureKind(Enum):
    """How a handler failed.

    TOOL_ERROR: an error for the model, such as `ToolError`. ARGUMENTS: the arguments are wrong. DENIED,
    MISSING and INVALID: the framework's exceptions for these. TIMEOUT: it did not end in time, or got
    no thread after it had begun. FAULT: any other exception.
    """

    TOOL_ERROR = "tool_error"
    ARGUMENTS = "arguments"
    DENIED = "denied"
    MISSING = "missing"
    INVALID = "invalid"
    TIMEOUT = "timeout"
    FAULT = "fault"


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """The failure of a handler, with a text for the client."""

    kind: FailureKind
    message: str
    reference: str | None = None
    """Of a fault: names it in the log."""
    error: str = ""
    """The class of the exception."""
    problems: Sequence[Problem] = ()
    """What is wrong with the arguments, if that is why."""
    trace: Any = None
    """What `Ports.trace_error` returned of the exception."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToConfirm:
    """What the user has to confirm before a tool does it.

    Attributes:
        question: says what is done; "": the title and the arguments do.
        title: what the user chooses, such as `Delete`.
        arguments: of the call that does it, with its confirmation.
    """

    question: str
    title: str
    arguments: JSONObject


class DetachedRun(Protocol):
    """What runs a call whose response is sent, or is that of other requests."""

    @property
    def key(self) -> str:
        """Its name where it is stored."""

    def stop(self) -> None:
        """Cancel the handler, whose result is not needed. From any thread."""

    def is_lost(self) -> bool:
        """Return whether another run has the call, or will get it. From the handler's thread; may wait."""

    def park(self, asks: Mapping[str, Ask], state: Any) -> None:
        """Store questions for the client, which end this round."""

    async def keep(self, answers: RetryAnswers) -> None:
        """Store the results of `once`, so that they outlast this process."""


class QueryTimes(Record):
    """The queries of a call's handler.

    Attributes:
        is_sampled: whether they are counted; else there are none here.
        count: how many it has made.
        seconds: how long they have taken.
        thread: the one in which one of them runs now; 0: none does.
    """

    is_sampled: bool = True
    count: int = 0
    seconds: float = 0.0
    thread: int = 0


class Call(Record):
    """An admitted request, until its response."""

    exchange: Exchange
    message: Request
    connection: ConnectionState
    rules: Revision
    """The record of the revision in effect."""
    options: Options
    """The server's settings when the request arrived."""
    method: str
    """The method of the request, such as `"tools/call"`."""
    meta: JSONObject
    """The `_meta` of the request; empty when it had none. Treat it as hostile."""
    cancellable: Spawned[Any] | TaskTimers | None = None
    """The asyncio task that runs it, if it can be cancelled."""
    deadline: Interrupt | None = None
    """That of the round of its handler that runs now, if one does."""
    _answers: RetryAnswers | None = None
    is_abandoned: bool = False
    """Whether it was cancelled or timed out; `is_cancelled` counts a client that has left as well."""
    cancelled_by: Literal["client", "server"] | None = None
    """Who cancelled it; a client that did expects no response."""
    is_large: bool = False
    """Whether its message was larger than `LARGE_BYTES`; of a task, that of the call that became it."""
    is_finished: bool = False
    """Whether the response exists and no run continues the call, so that nothing is sent any more."""
    entry: Entry | None = None
    """The entry that is called, once it is found."""
    failure: Failure | None = None
    has_asked: bool = False
    """Whether the response is a question to the client."""
    is_answered_early: bool = False
    """Whether the response is not the handler's, which continues; the call is observed at its end."""
    on_progress: Callable[[str], None] | None = None
    """Takes each progress message of the handler, as a text."""
    show_question: Callable[[ToConfirm], None] | None = None
    """Takes what the user has to confirm, if the client shows it on a page."""
    coerced: Sequence[str] = ()
    """The arguments that were read otherwise than they were sent, since they did not fit; `?`: unknown ones."""
    result_chars: int = 0
    """How many characters a model reads of the result of a tool."""
    is_cut: bool = False
    """Whether the result of a tool was larger than `MAX_RESULT_TOKENS`, so that rows were left out."""
    started_s: float = 0.0
    """When it began, by `time.perf_counter`."""
    is_recorded: bool = False
    """Whether an observer gets its outcome."""
    handled_s: float = 0.0
    """How long its handler has run in all rounds, with the waits for a thread, if it is recorded."""
    query_times: QueryTimes | None = None
    """Those of its handler; None: nobody has asked whether to count them."""
    is_suspended: bool = False
    """Whether its handler waits for an answer or an event, and will run again."""
    public_id: str = ""
    """By which operators name it, once a report of this process has."""
    links: Sequence[str] = ()
    """The URIs that the result of the tool links to, if the principal's credentials are restricted."""
    detached_run: DetachedRun | None = None
    """What runs it apart from its request; None: it is answered directly."""
    _loop: asyncio.AbstractEventLoop | None = None
    _loop_thread: int = 0

    @property
    def params(self) -> JSONObject:
        """The params of the request as they came, unchecked."""
        return self.message.params

    def forget_params(self) -> None:
        """Release the params and the body of a request that stays open for long."""
        self.message.params = {}
        self.meta = {}
        self.exchange.body = b""
        forget = getattr(self.exchange.caller.build_request, "forget_body", None)
        if forget is not None:
            forget()

    @property
    def client_extensions(self) -> Mapping[str, JSONObject]:
        """The extensions that the client declared, with its settings, without malformed ones."""
        declared = self.connection.client_capabilities.get("extensions")
        if type(declared) is not dict:
            return {}
        return {key: value for key, value in declared.items() if type(value) is dict}

    @property
    def is_cancelled(self) -> bool:
        """Whether the response is not needed: cancelled, timed out, or the client disconnected."""
        channel = self.exchange.channel
        return self.is_abandoned or (channel.is_disconnected and channel.cancels_on_disconnect)

    def is_awaited(self) -> bool:
        """Return whether the response is still needed. From any thread."""
        return not self.is_cancelled

    def must_roll_back(self) -> bool:
        """Return whether the transaction of a handler must not be committed. From its thread; may wait."""
        return self.is_cancelled or (self.detached_run is not None and self.detached_run.is_lost())

    def cancel(self, by: Literal["client", "server"] = "server") -> None:
        """Mark the request as cancelled and interrupt its handler. On the event loop only."""
        if self.is_abandoned or self.is_finished:
            return
        self.cancelled_by = by
        self.is_abandoned = True
        if self.cancellable is not None:
            self.exchange.channel.interrupt(self.cancellable.cancel)

    def bind_loop(self) -> None:
        """Remember the running loop, to which a synchronous handler submits coroutines."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()

    @property
    def loop_elsewhere(self) -> asyncio.AbstractEventLoop | None:
        """The loop that `bind_loop` remembered, unless it runs in this thread."""
        return None if threading.get_ident() == self._loop_thread else self._loop

    @property
    def answers(self) -> RetryAnswers:
        """The answers and results of this call's earlier rounds."""
        if self._answers is None:
            self._answers = RetryAnswers()
        return self._answers

    @answers.setter
    def answers(self, answers: RetryAnswers) -> None:
        self._answers = answers

    @property
    def has_lost_question(self) -> bool:
        """Whether the handler went on after it had asked: it caught the exception of the question."""
        return self._answers is not None and self._answers.is_leaving

    @property
    def has_back_channel(self) -> bool:
        """Whether the server can send the client a request during this one."""
        if self.exchange.connection is not self.connection or self.is_finished:
            return False
        channel = self.exchange.channel
        if channel.server_request is not None:
            return True
        return channel.sink is not None and channel.can_stream and not channel.is_buffered

    @property
    def unwinds_to_ask(self) -> bool:
        """Whether a question ends this run of the handler, and its answer starts another."""
        return bool(self.rules.interim_fields) or self.detached_run is not None
