"""Run a handler for a call: in the right place, within its time, and again for each of its rounds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from django_mcp.log import logger
from django_mcp.protocol.asks import Ask, InputRequired
from django_mcp.protocol.errors import ProtocolError, Refusal
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.records import Record
from django_mcp.registry.access import ObjectCheck
from django_mcp.registry.arguments import Handler
from django_mcp.registry.entries import ANSWERS, ToolEntry
from django_mcp.registry.problems import ArgumentErrors
from django_mcp.server.asking.by_argument import find_unasked, read_answers
from django_mcp.server.asking.questions import complete_asks, needs_thread_to_ask
from django_mcp.server.asking.round_trips import open_answers, sign_state
from django_mcp.server.exchange.answers import count_answer
from django_mcp.server.exchange.call import (
    CannotAsk,
    Failure,
    FailureKind,
    RetryAnswers,
    Suspended,
    SuspendedForOnce,
    SuspendedForWait,
)
from django_mcp.server.exchange.pending import ANSWER_DROPPED, PART_BYTES
from django_mcp.server.exchange.timers import TaskTimers
from django_mcp.server.handlers.failures import (
    HandlerTimeout,
    describe_error,
    note_error,
    refuse_asking,
)
from django_mcp.server.handlers.turns import run_in_turn
from django_mcp.server.ports import BUSY, NoThread
from django_mcp.server.services import ServedCall

_Due: TypeAlias = InputRequired | SuspendedForWait | Suspended
"""What a handler needs from outside before it can go on: the end of one of its rounds."""

_LOST_QUESTION = (
    "%s %s: the handler caught the exception by which a question leaves it, so the question was not "
    "asked. Catch Exception, not BaseException, around it"
)
_NESTED_ONCE = "once({!r}) runs inside once({!r}): call one after the other"


def check_only(_call: ServedCall, _value: Any) -> bytes:
    """Return nothing: the `finish` of a run that ends after the check of the handler, before the handler."""
    return b""


class HandlerRun(Record):
    """The run of a handler for a call.

    Attributes:
        arguments: checked against the schema, if there is one; not yet converted.
        finish: encodes the value of the handler.
        kind: what the log calls the handler, such as `"tool"`.
        name: its name there.
        timeout_s: how long each round may take; None: as long as the server's options say.
        may_ask: whether the answer may be a question to the client.
        takes_answers: whether the argument `answers` has answers to what the handler asks.
    """

    call: ServedCall
    handler: Handler
    arguments: JSONObject
    finish: Callable[[ServedCall, Any], bytes | Refusal]
    kind: str
    name: str
    timeout_s: float | None = None
    may_ask: bool = False
    takes_answers: bool = False

    @property
    def what(self) -> str:
        """The handler's name in the log, such as `"tool find_orders"`."""
        return f"{self.kind} {self.name}"

    async def run(self) -> bytes | Refusal | Failure:
        """Run the handler and return what `finish` makes of its value, or how it failed.

        An asynchronous handler runs where the request runs. A synchronous one runs in a thread, and so
        does `finish`, since a lazy result may still query the database.
        """
        call = self.call
        params = call.message.params
        if self.may_ask and ("inputResponses" in params or "requestState" in params):
            opened = await open_answers(call) if call.rules.interim_fields else RetryAnswers()
            if isinstance(opened, Refusal):
                return opened
            call.answers = opened
        try:
            if self.takes_answers:
                self._take_answers()
            outcome = await self._run_round()
            if type(outcome) is bytes or not isinstance(outcome, _Due):
                return outcome
            return await self._run_more_rounds(outcome)
        except CannotAsk as error:
            return refuse_asking(call, error)
        except (ProtocolError, NoThread) as error:
            if isinstance(error, NoThread) and (self.handler.is_async or call.answers.kept):
                return Failure(kind=FailureKind.TIMEOUT, message=BUSY)
            return error.to_refusal()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a site's code may raise anything
            explained = self.handler.explain(error, self.arguments)
            failure = await describe_error(call, explained, self.what)
            return note_error(call, failure, error)

    def _take_answers(self) -> None:
        """Take the answers to questions out of the arguments; raises `ArgumentErrors` if they are no object."""
        arguments = dict(self.arguments)
        if ANSWERS in arguments:
            self.call.answers.given = read_answers(arguments.pop(ANSWERS))
            self.arguments = arguments

    async def _run_more_rounds(self, outcome: bytes | Refusal | _Due) -> bytes | Refusal | Failure:
        """Run the handler again until it has an outcome, or needs what another request has to bring."""
        call = self.call
        while isinstance(outcome, _Due):
            call.is_suspended = True
            if isinstance(outcome, SuspendedForWait):
                call.answers.waited.add(outcome.key)
                await outcome.wait()
            else:
                state = outcome.state if isinstance(outcome, InputRequired) else None
                if call.unwinds_to_ask:
                    if isinstance(outcome, Suspended) and not self.may_ask:
                        message = "Nothing can be asked while this is answered"
                        return Failure(kind=FailureKind.FAULT, message=message)
                    return await self._ask(outcome.asks, state)
                # They are asked on the stream of the request.
                known, failed = await call.server.ports.handshakes.ask(call, outcome.asks)
                answers = call.answers
                answers.known.update(known)
                answers.failed.update(failed)
                answers.state = state
                answers.is_resubmit = True
            call.answers.begin()
            call.is_suspended = False
            outcome = await self._run_round()
        return outcome

    async def _run_round(self) -> bytes | Refusal | _Due:
        """Run the handler, and what it does once, within the deadline of one round."""
        call, timeout_s = self.call, self.timeout_s
        if timeout_s is None:
            options = call.options
            timeout_s = (
                options.call_timeout_s if call.detached_run is None else options.task_timeout_s
            )
        timers = call.exchange.channel.timers or TaskTimers.of_current_task()
        deadline = call.deadline = timers.limit(timeout_s)
        has_lost, started_s = False, time.perf_counter() if call.is_recorded else 0.0
        try:
            while True:
                try:
                    return await self._run_handler()
                except SuspendedForOnce as due:
                    await self._run_and_keep(due)
                except Exception as error:
                    if has_lost or not self._may_run_again(error):
                        raise
                    has_lost = True
                    call.answers.begin()
        except (Suspended, SuspendedForWait) as due:
            return due
        except asyncio.CancelledError:
            # The thread runs on, sees that the call is cancelled, and rolls back.
            call.is_abandoned = True
            if not deadline.is_ours():
                raise
            raise self._time_out(deadline.delay_s) from None
        finally:
            deadline.cancel()
            call.deadline = None
            if started_s:
                call.handled_s += time.perf_counter() - started_s

    async def _run_handler(self) -> bytes | Refusal | InputRequired:
        """Convert the arguments, and run the handler where it belongs."""
        call, handler, arguments = self.call, self.handler, self.arguments
        server = call.server
        if call.is_large:
            kwargs = await run_in_turn(call, partial(handler.read, arguments))
        else:
            kwargs = handler.read(arguments)
        if handler.injections:
            handler.inject(kwargs, call.context)
        if handler.is_async or self.finish is check_only:
            if handler.check is not None:
                await self._demand(handler.check, kwargs)
            if self.finish is check_only:
                return b""
            watch = server.ports.watch_async
            value = await (
                handler.function(**kwargs)
                if watch is None
                else watch(handler.function(**kwargs), call, self.what)
            )
            if type(value) is str or not self._needs_thread(value):
                return self._end(value)
            return await server.ports.scope.run(partial(self._end, value), call)
        call.bind_loop()
        return await server.ports.scope.run(partial(self._run_here, kwargs), call, self._aliases)

    def _run_here(self, kwargs: dict[str, Any]) -> bytes | Refusal | InputRequired:
        """Check the call and run a synchronous handler, in its thread."""
        handler = self.handler
        if handler.check is not None:
            handler.check.demand(self.call.context, kwargs)
        value = handler.function(**kwargs)
        if self.takes_answers and self._aliases:
            # The transaction rolls back what the handler did without them.
            unasked = find_unasked(self.call)
            if unasked:
                raise ArgumentErrors(unasked)
        return self._end(value)

    async def _demand(self, check: ObjectCheck, kwargs: Mapping[str, Any]) -> None:
        """Raise `Forbidden` unless the check of the handler permits the call."""
        call = self.call
        if check.is_async:
            await check.ademand(call.context, kwargs)
        else:
            await call.server.ports.scope.run(partial(check.demand, call.context, kwargs), call)

    def _needs_thread(self, value: Any) -> bool:
        """Return whether a value may query the database when it is encoded."""
        if isinstance(value, InputRequired):
            return needs_thread_to_ask(self.call, value.asks)
        return self.call.server.ports.converter.needs_thread(value)

    def _end(self, value: Any) -> bytes | Refusal | InputRequired:
        """Return the encoded value of the handler, or what it asks."""
        call, finish = self.call, self.finish
        if isinstance(value, InputRequired):
            return InputRequired(complete_asks(call, value.asks), value.state)
        if call.has_lost_question:
            logger.warning(_LOST_QUESTION, call.method, getattr(call.entry, "name", ""))
        outcome = finish(call, value)
        if type(outcome) is bytes and len(outcome) > PART_BYTES and call.detached_run is None:
            scope = count_answer(call.exchange, len(outcome), call.options)
            return outcome if scope is None else ANSWER_DROPPED[scope]
        return outcome

    @property
    def _aliases(self) -> bool | Sequence[str]:
        """The databases on which the handler runs in a transaction."""
        aliases = self.handler.aliases
        return self.call.options.atomic if aliases is None else aliases

    async def _run_and_keep(self, due: SuspendedForOnce) -> None:
        """Run a function that is due once, and keep its result for all rounds."""
        call = self.call
        try:
            result = await call.server.ports.scope.run(due.function, call, self._aliases)
        except SuspendedForOnce as inner:
            raise RuntimeError(_NESTED_ONCE.format(inner.key, due.key)) from None
        call.answers.kept[due.key] = result
        if call.detached_run is not None:
            await call.detached_run.keep(call.answers)
        call.answers.begin()

    def _may_run_again(self, error: Exception) -> bool:
        """Return whether the call lost against another transaction, and does no harm when it is run twice."""
        entry = self.call.entry
        is_harmless = not isinstance(entry, ToolEntry) or entry.may_run_again
        return is_harmless and self.call.server.ports.exceptions.is_conflict(error)

    def _time_out(self, timeout_s: float) -> Exception:
        """Return the exception of a round that took too long."""
        call, text = self.call, f"No result within {timeout_s:g} s"
        if not call.exchange.channel.waits_for_thread:
            return HandlerTimeout(text)
        if self.handler.is_async or call.answers.kept:
            # It may have done something already, so the client must not be told to send it again.
            return HandlerTimeout(f"{text}: the server is busy with other calls")
        logger.warning("%s was not run: it had no thread within %g s", call.method, timeout_s)
        return NoThread()

    async def _ask(self, asks: Mapping[str, Ask], state: Any) -> bytes | Failure:
        """Return the result that contains the questions, and the state of the call."""
        call = self.call
        if call.detached_run is not None:
            call.detached_run.park(asks, state)
            return b""
        try:
            signed = await sign_state(call, list(asks), state)
        except Exception as error:  # noqa: BLE001 - a state without a form in JSON, a database down
            failure = await describe_error(call, error, f"asking in {call.method}")
            return note_error(call, failure, error)
        call.has_asked = True
        result: JSONObject = {"requestState": signed}
        if asks:
            result["inputRequests"] = {key: ask.to_wire() for key, ask in asks.items()}
        return call.server.encode_interim(result, call.rules)
