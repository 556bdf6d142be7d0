"""Operation: what is known of one message, and of the run of a task; and the instrument that watches them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from django_mcp.log import logger
from django_mcp.protocol.errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_CANCELLED,
    RESOURCE_NOT_FOUND,
    Refusal,
)
from django_mcp.protocol.headers import PROTOCOL_VERSION
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.messages import Malformed, Notification, Request, Response
from django_mcp.protocol.revisions import find_revision
from django_mcp.registry.entries import Entry
from django_mcp.server.exchange.call import FailureKind
from django_mcp.server.exchange.caller import ANONYMOUS
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.server.exchange.session import Session
from django_mcp.server.methods import METHODS
from django_mcp.server.operations import Authenticate, Instrument, Operations, Outcome
from django_mcp.server.ports import ConnectionObserver
from django_mcp.server.services import ServedCall, Services
from django_mcp.server.streams.stream import PushStream

T = TypeVar("T")

OTHER = "_OTHER"
"""Stands for names that the server does not have or that the caller may not see. A client can invent any number."""

NOTIFICATIONS = frozenset(
    f"notifications/{name}"
    for name in ("initialized", "cancelled", "progress", "roots/list_changed", "tasks/status")
)
"""Those that clients send."""

CALLERS_FAULTS = frozenset(
    (PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, RESOURCE_NOT_FOUND)
)
"""Codes that are no errors of the server. Source: the conventions of OpenTelemetry for MCP, "rpc.response.status_code"."""

CANCELLED = "cancelled"
"""The value of `error.type` for what its transport cancelled, as when the client had gone."""

_HTTP_VERSIONS: Mapping[Any, str] = {
    "1.0": "1.0",
    "1.1": "1.1",
    "2": "2",
    "2.0": "2",
    "3": "3",
    "3.0": "3",
}
"""The versions of HTTP, as the conventions write them. What else a server says may come from a client."""

_OUTCOMES = {FailureKind.TIMEOUT: "timeout", FailureKind.FAULT: "fault"}


class Operation:
    """A message of a client, or the run of a task, from its beginning to its end.

    Observers may keep it after its end: it holds nothing of what a client sent then.

    Attributes:
        server: the name of the server.
        method: of the message; `_OTHER`: the server has no such method.
        exchange, message, call, reply: what it is made of, until its end; what is malformed has no `message`, and
            what was not admitted no `call`.
        carried: what the call of a task left for it.
        span: its span, if it is recorded.
        is_task: it is the run of a task, after the response to its call.
        is_opened: it has opened a stream, so that the rest of its time is that of the stream.
        error: `error.type` of an exception that left it; None: none did.

    `settle` sets the others:

    Attributes:
        duration_s: until its end, or until its stream was opened.
        code: of the JSON-RPC error that it was answered with, if any.
        outcome: `done`, `asked`, `task`, `failed`, `refused`, `timeout`, `fault` or `cancelled`.
        size: bytes of the response, or of the result of a task.
        has_failed, reference: its result is an error, and the reference of that in the log.
        revision: the name of the protocol revision; None: it is not known.
        transport, http_version: as `network.transport` and `network.protocol.version` have them.
    """

    __slots__ = (
        "attached", "call", "carried", "code", "duration_s", "entry", "error", "exchange",
        "has_failed", "http_version", "is_opened", "is_settled", "is_task", "message", "method", "outcome",
        "reference", "refusal", "reply", "revision", "server", "size", "span", "started_s",
        "transport",
    )  # fmt: skip

    def __init__(
        self,
        server: Services,
        method: str,
        exchange: Exchange,
        message: Request | Notification | None = None,
    ) -> None:
        self.server = server.options.name
        self.method = method
        self.exchange: Exchange | None = exchange
        self.message: Request | Notification | None = message
        self.call: ServedCall | None = None
        self.carried: JSONObject | None = None
        self.is_task = self.is_opened = self.is_settled = False
        self.span: Any = None
        self.attached: Any = None
        self.reply: Reply | None = None
        self.refusal: Refusal | None = None
        self.error: str | None = None
        self.size = 0
        self.started_s = time.perf_counter()

    def end(self, result: Any) -> None:
        """Note its reply, or the outcome of the run of a task."""
        if isinstance(result, Reply):
            self.reply, self.refusal = result, result.refusal
            if result.body is not None:
                self.size = len(result.body)
        elif isinstance(result, Refusal):
            self.refusal = result
        elif result is not None:
            # The question of a run has no content.
            self.size = len(result) or 1

    def settle(self) -> None:
        """Determine what is known at its end, or when it opens a stream, for observers that need it."""
        exchange = self.exchange
        if self.is_settled or exchange is None:
            return
        self.is_settled = True
        self.duration_s = time.perf_counter() - self.started_s
        call = self.call
        if self.is_opened and self.error == CANCELLED:
            # Its client has gone, by which most streams end.
            self.error = None
        refusal = None if self.is_opened else self.refusal
        self.code: int | None = None if refusal is None else refusal.code
        self.http_version: str | None = None
        self.transport: str | None = None
        if call is not None:
            self.entry: Entry | None = call.entry
            failure = call.failure
            self.has_failed = failure is not None
            self.reference = None if failure is None else failure.reference
            self.revision: str | None = call.rules.name
        else:
            self.entry = self.reference = None
            self.has_failed = False
            self.revision = _find_revision(exchange)
        self.outcome = self._find_outcome(call)
        if exchange.headers is not None:
            self.transport = "tcp"
            scope = self.scope
            if scope is not None:
                self.http_version = _HTTP_VERSIONS.get(scope.get("http_version"))
        elif exchange.channel.is_pipe:
            self.transport = "pipe"

    @property
    def scope(self) -> Mapping[str, Any] | None:
        """The ASGI scope of its request, if there is one."""
        exchange = self.exchange
        builder = None if exchange is None else exchange.caller.build_request
        scope: Mapping[str, Any] | None = getattr(builder, "scope", None)
        return scope

    def _find_outcome(self, call: ServedCall | None) -> str:
        if self.error is not None or self.code == REQUEST_CANCELLED:
            return "fault" if self.error not in (None, CANCELLED) else CANCELLED
        if call is not None:
            if call.is_answered_early and not self.is_task:
                return "task"
            if call.failure is not None:
                return _OUTCOMES.get(call.failure.kind, "failed")
            if call.has_asked:
                return "asked"
        if self.code is not None:
            return "refused"
        has_answer = self.is_task or isinstance(self.message, Request)
        return "done" if self.size or self.is_opened or not has_answer else CANCELLED

    def forget(self) -> None:
        """Hold no more of what a client sent, or of the server."""
        self.exchange = self.call = self.message = self.reply = self.refusal = None

    @property
    def error_type(self) -> str | None:
        """The value of `error.type`; None: it is no error of the server, and its result is none either."""
        if self.error is not None:
            return self.error
        if self.code is not None:
            return None if self.code in CALLERS_FAULTS else str(self.code)
        return "tool_error" if self.has_failed else None


class Observer:
    """Observes operations, and what else servers do. The methods must not block."""

    def begin(self, operation: Operation) -> None:
        """Observe the beginning of an operation."""

    def opened(self, operation: Operation) -> None:
        """Observe that an operation has opened a stream."""

    def end(self, operation: Operation) -> None:
        """Observe the end of an operation, which is told to the observers in reverse order.

        Afterwards it holds no more of its exchange.
        """

    def carry(self) -> JSONObject | None:
        """Return what a task stores of the trace of the operation that is answered in this context."""
        return None

    def session_closed(self, session: Session) -> None:
        """Observe the end of a session, in any thread."""

    def stream_closed(self, stream: PushStream) -> None:
        """Observe the end of a stream."""

    def signed_in(self, server: str, outcome: str) -> None:
        """Observe what became of the credentials of a request, or of a request without any."""

    def refused(self, server: str, reply: Reply) -> None:
        """Observe that a request over HTTP was refused with a status of 400 or more."""


class Watching(Instrument):
    """Tells observers of the operations of servers. What an observer raises is logged, and harms no call.

    Args:
        observers: in the order in which they are told of a beginning.
        inner: another instrument, inside of this one.
    """

    def __init__(self, observers: Sequence[Observer], inner: Instrument | None = None) -> None:
        self._observers = tuple(observers)
        self._inner = inner or Instrument()

    def watch(self, plain: Operations) -> Operations:
        """See `Instrument.watch`."""
        plain = self._inner.watch(plain)

        def answer(
            server: Services, request: Request, exchange: Exchange
        ) -> Coroutine[Any, Any, Reply]:
            operation = Operation(server, find_method(server, request.method), exchange, request)
            return self._watch(operation, exchange, plain.answer(server, request, exchange))

        def take(
            server: Services, message: Notification | Response | Malformed, exchange: Exchange
        ) -> Coroutine[Any, Any, Reply]:
            taking = plain.take(server, message, exchange)
            if isinstance(message, Response):
                return taking
            if isinstance(message, Malformed):
                return self._watch(Operation(server, OTHER, exchange), exchange, taking)
            method = message.method if message.method in NOTIFICATIONS else OTHER
            return self._watch(Operation(server, method, exchange, message), exchange, taking)

        def run(
            call: ServedCall, derived: Any, kept: ConnectionState | None
        ) -> Coroutine[Any, Any, Outcome]:
            call.exchange.operation.call = call
            return plain.run(call, derived, kept)

        def run_task(
            call: ServedCall, carried: JSONObject | None, work: Coroutine[Any, Any, Outcome]
        ) -> Coroutine[Any, Any, Outcome]:
            operation = Operation(call.server, call.method, call.exchange)
            operation.call, operation.carried, operation.is_task = call, carried, True
            return self._watch(operation, call.exchange, plain.run_task(call, carried, work))

        return Operations(answer=answer, take=take, run=run, run_task=run_task, carry=self._carry)

    def watch_authentication(self, server: Services, authenticate: Authenticate) -> Authenticate:
        """See `Instrument.watch_authentication`."""

        async def watched(exchange: Exchange) -> Reply | None:
            reply = await authenticate(exchange)
            self.tell("signed_in", server.options.name, _describe_sign_in(exchange, reply))
            return reply

        return watched

    def refused(self, server: Services, reply: Reply) -> None:
        """See `Instrument.refused`."""
        self.tell("refused", server.options.name, reply)

    def tell(self, event: str, *given: Any) -> None:
        """Call a method of the observers."""
        for observer in self._observers:
            try:
                getattr(observer, event)(*given)
            except Exception:
                logger.exception("Could not record an operation")

    async def _watch(
        self, operation: Operation, exchange: Exchange, work: Coroutine[Any, Any, T]
    ) -> T:
        """Await the work of an operation, between what observers do at its beginning and at its end."""
        observers, before = self._observers, exchange.operation
        exchange.operation = operation
        for observer in observers:
            try:
                observer.begin(operation)
            except Exception:
                logger.exception("Could not record an operation")
        try:
            result = await work
            operation.end(result)
            return result
        except BaseException as error:
            operation.error = name_of(error)
            raise
        finally:
            exchange.operation = before
            # It was settled when its stream was opened.
            operation.is_settled = False
            for observer in reversed(observers):
                try:
                    observer.end(operation)
                except Exception:
                    logger.exception("Could not record an operation")
            operation.forget()

    def _carry(self) -> JSONObject | None:
        for observer in self._observers:
            carried = observer.carry()
            if carried:
                return carried
        return None


class WatchedConnections:
    """Tells observers of sessions and streams, beside another `ConnectionObserver`."""

    def __init__(self, inner: ConnectionObserver, watching: Watching) -> None:
        self._inner = inner
        self._watching = watching
        self.client_notification = inner.client_notification
        self.session_opened = inner.session_opened

    def session_closed(self, session: Session, reason: str) -> None:
        self._watching.tell("session_closed", session)
        self._inner.session_closed(session, reason)

    def stream_opened(self, stream: PushStream) -> None:
        operation = None if stream.exchange is None else stream.exchange.operation
        if operation is not None:
            operation.is_opened = True
            self._watching.tell("opened", operation)
        self._inner.stream_opened(stream)

    def stream_closed(self, stream: PushStream, reason: str) -> None:
        self._watching.tell("stream_closed", stream)
        self._inner.stream_closed(stream, reason)


def find_method(server: Services, method: str) -> str:
    """Return a method if the server has it at any revision, else `_OTHER`."""
    return method if method in METHODS or method in server.derived.added_methods else OTHER


def name_of(error: BaseException) -> str:
    """Return the value of `error.type` for an exception that left an operation."""
    is_cancelled = isinstance(error, asyncio.CancelledError | GeneratorExit)
    return CANCELLED if is_cancelled else type(error).__qualname__


def _find_revision(exchange: Exchange) -> str | None:
    headers, connection = exchange.headers, exchange.connection
    known = connection.revision if connection is not None else None
    if known is None and headers is not None:
        known = find_revision(headers.get(PROTOCOL_VERSION))
    return None if known is None else known.name


def _describe_sign_in(exchange: Exchange, reply: Reply | None) -> str:
    if reply is None:
        return "anonymous" if exchange.caller.principal is ANONYMOUS else "accepted"
    return {429: "limited", 503: "unavailable"}.get(reply.status, "refused")
