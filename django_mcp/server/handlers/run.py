"""Run a handler: bind its arguments, run it in the right place and within its time, describe its failure."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from django_mcp.log import logger
from django_mcp.protocol.asks import Ask, InputRequired
from django_mcp.protocol.errors import (
    INTERNAL_ERROR,
    MISSING_CLIENT_CAPABILITY,
    ProtocolError,
    Refusal,
    ToolError,
)
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.access import Forbidden, ObjectCheck
from django_mcp.registry.arguments import Handler
from django_mcp.registry.entries import ToolEntry
from django_mcp.registry.problems import ArgumentErrors, Problem
from django_mcp.registry.signatures import Unavailable
from django_mcp.server.asking.back_channel import ask_client, ask_params
from django_mcp.server.asking.questions import complete_asks, needs_thread_to_ask
from django_mcp.server.asking.rounds import open_answers, sign_state
from django_mcp.server.capabilities import covers
from django_mcp.server.exchange.answers import count_answer
from django_mcp.server.exchange.call import (
    CannotAsk,
    Failure,
    FailureKind,
    RetryAnswers,
    StateTooLarge,
    Suspended,
    SuspendedForOnce,
    SuspendedForWait,
)
from django_mcp.server.exchange.pending import ANSWER_DROPPED, PART_BYTES
from django_mcp.server.exchange.timers import TaskTimers
from django_mcp.server.handlers.watching import attach_trace, report_error, watch_steps
from django_mcp.server.ports import BUSY, NoThread, StateStoreFull
from django_mcp.server.services import ServedCall

T = TypeVar("T")

LARGE_BYTES = 32 * 1024
"""From this size of a message on, other calls get a turn between the steps of a call. Our own limit."""

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[asyncio.Lock, asyncio.Lock]]
_turns = WeakKeyDictionary()
"""One long check of calls, and one of detached calls, runs at a time on an event loop; under WSGI each request
has its own loop.

Several at once would not end sooner, since they share the interpreter's lock, and would delay others. Those
of detached calls may wait long for a thread."""


async def check_in_turn(
    call: ServedCall, entry: ToolEntry, arguments: JSONObject
) -> list[Problem] | Failure:
    """Return what is wrong with arguments, or that the deadline of the call passed meanwhile."""
    timeout_s = call.options.call_timeout_s if entry.timeout_s is None else entry.timeout_s
    deadline = (call.exchange.timers or TaskTimers.of_current_task()).limit(timeout_s)
    try:
        return await _run_in_turn(call, partial(entry.input_validator.problems, arguments))
    except asyncio.CancelledError:
        call.is_abandoned = True
        if not deadline.is_ours():
            raise
        return Failure(kind=FailureKind.TIMEOUT, message=f"No result within {timeout_s:g} s")
    finally:
        deadline.cancel()


def describe_problems(problems: Sequence[Problem]) -> str:
    """Return what is wrong with arguments, a line each, for a model that may try again."""
    lines = [f"- {problem.pointer or '(arguments)'}: {problem.message}" for problem in problems]
    return "Invalid arguments:\n" + "\n".join(lines)


async def _run_in_turn(call: ServedCall, function: Callable[[], T]) -> T:
    locks = _turns.setdefault(asyncio.get_running_loop(), (asyncio.Lock(), asyncio.Lock()))
    async with locks[call.run is not None]:
        return await call.server.ports.scope.run(function, call)


_Due: TypeAlias = InputRequired | SuspendedForWait | Suspended
"""What a handler needs from outside before it can go on: the end of one of its rounds."""

_LOST_QUESTION = (
    "%s %s: the handler caught the exception by which a question leaves it, so the question was not "
    "asked. Catch Exception, not BaseException, around it"
)
_NESTED_ONCE = "once({!r}) runs inside once({!r}): call one after the other"


class HandlerTimeout(Exception):
    """A call took longer than it may."""


async def run_handler(
    call: ServedCall,
    handler: Handler,
    arguments: JSONObject,
    finish: Callable[[Any], bytes | Refusal] | None,
    *,
    what: str,
    timeout_s: float | None = None,
    may_ask: bool = False,
) -> bytes | Refusal | Failure:
    """Run a handler and return what `finish` makes of its value, or how it failed.

    An asynchronous handler runs where the request runs. A synchronous one runs in a thread, and so
    does `finish`, since a lazy result may still query the database.

    Args:
        arguments: checked against the schema, if there is one; not yet converted.
        finish: encodes the value. None: the handler is not run, only its check.
        what: names the handler in the log, such as `"tool find_orders"`.
        timeout_s: None: the server's.
        may_ask: whether the answer may be a question to the client.
    """
    params, meta = call.message.params, call.meta
    if may_ask and ("inputResponses" in params or "requestState" in params):
        opened = await open_answers(call) if call.rules.interim_fields else RetryAnswers()
        if isinstance(opened, Refusal):
            return opened
        call.answers = opened
    # A `tracestate` without a parent means nothing.
    is_traced = "traceparent" in meta or "baggage" in meta
    detach_trace = attach_trace(meta) if is_traced else None
    try:
        outcome = await _run(call, handler, arguments, finish, timeout_s, what)
        if type(outcome) is bytes or not isinstance(outcome, _Due):
            return outcome
        run_again = partial(_run, call, handler, arguments, finish, timeout_s, what)
        return await _run_rounds(call, run_again, outcome, may_ask=may_ask)
    except CannotAsk as error:
        return _refuse_asking(call, error)
    except (ProtocolError, NoThread) as error:
        if isinstance(error, NoThread) and (handler.is_async or call.answers.kept):
            return Failure(kind=FailureKind.TIMEOUT, message=BUSY)
        return error.to_refusal()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a site's code may raise anything
        failure = await _describe(call, handler.explain(error, arguments), what)
        return replace(failure, error=type(error).__name__)
    finally:
        if detach_trace is not None:
            detach_trace()


async def _run_rounds(
    call: ServedCall,
    run_again: Callable[[], Awaitable[bytes | Refusal | _Due]],
    outcome: bytes | Refusal | _Due,
    *,
    may_ask: bool,
) -> bytes | Refusal | Failure:
    """Run the handler again until it has an outcome, or needs what another request has to bring."""
    while isinstance(outcome, _Due):
        if isinstance(outcome, SuspendedForWait):
            call.answers.waited.add(outcome.key)
            await outcome.wait()
        else:
            state = outcome.state if isinstance(outcome, InputRequired) else None
            if call.unwinds_to_ask:
                if isinstance(outcome, Suspended) and not may_ask:
                    message = "Nothing can be asked while this is answered"
                    return Failure(kind=FailureKind.FAULT, message=message)
                return await _ask(call, outcome.asks, state)
            # They are asked on the stream of the request.
            known, failed = await ask_client(call, outcome.asks)
            answers = call.answers
            answers.known.update(known)
            answers.failed.update(failed)
            answers.state = state
            answers.is_resubmit = True
        call.answers.begin()
        outcome = await run_again()
    return outcome


async def _run(
    call: ServedCall,
    handler: Handler,
    arguments: JSONObject,
    finish: Callable[[Any], bytes | Refusal] | None,
    timeout_s: float | None,
    what: str,
) -> bytes | Refusal | _Due:
    """Run the handler, and what it does once, within the deadline of one round."""
    if timeout_s is None:
        options = call.options
        timeout_s = options.call_timeout_s if call.run is None else options.task_timeout_s
    timers = call.exchange.timers or TaskTimers.of_current_task()
    deadline = call.deadline = timers.limit(timeout_s)
    has_lost = False
    try:
        while True:
            try:
                return await _run_once(call, handler, arguments, finish, what)
            except SuspendedForOnce as due:
                await _keep(call, handler, due)
            except Exception as error:
                if has_lost or not _may_run_again(call, error):
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
        raise _time_out(call, handler, deadline.delay_s) from None
    finally:
        deadline.cancel()
        call.deadline = None


def _may_run_again(call: ServedCall, error: Exception) -> bool:
    """Return whether a call lost against another transaction, and does no harm when it is run twice."""
    is_harmless = not isinstance(call.entry, ToolEntry) or call.entry.may_run_again
    return is_harmless and call.server.ports.exceptions.is_conflict(error)


async def _run_once(
    call: ServedCall,
    handler: Handler,
    arguments: JSONObject,
    finish: Callable[[Any], bytes | Refusal] | None,
    what: str,
) -> bytes | Refusal | InputRequired:
    server = call.server
    if call.is_large or len(call.exchange.body) > LARGE_BYTES:
        kwargs = await _run_in_turn(call, partial(handler.read, arguments))
    else:
        kwargs = handler.read(arguments)
    if handler.injections:
        handler.inject(kwargs, call.context)
    if handler.is_async or finish is None:
        if handler.check is not None:
            await _demand(call, handler.check, kwargs)
        if finish is None:
            return b""
        limit_s = server.ports.max_step_s
        value = await (
            handler.function(**kwargs)
            if limit_s is None
            else watch_steps(handler.function(**kwargs), limit_s, what)
        )
        if type(value) is str or not _needs_thread(call, value):
            return _end(call, finish, value)
        return await server.ports.scope.run(partial(_end, call, finish, value), call)
    call.bind_loop()
    function = partial(_run_here, call, handler, kwargs, finish)
    aliases = call.options.atomic if handler.aliases is None else handler.aliases
    return await server.ports.scope.run(function, call, aliases)


async def _keep(call: ServedCall, handler: Handler, due: SuspendedForOnce) -> None:
    """Run a function that is due once, and keep its result for all rounds."""
    aliases = call.options.atomic if handler.aliases is None else handler.aliases
    try:
        call.answers.kept[due.key] = await call.server.ports.scope.run(due.function, call, aliases)
    except SuspendedForOnce as inner:
        raise RuntimeError(_NESTED_ONCE.format(inner.key, due.key)) from None
    if call.run is not None:
        await call.run.keep(call.answers)
    call.answers.begin()


def _needs_thread(call: ServedCall, value: Any) -> bool:
    if isinstance(value, InputRequired):
        return needs_thread_to_ask(call, value.asks)
    return call.server.ports.converter.needs_thread(value)


def _time_out(call: ServedCall, handler: Handler, timeout_s: float) -> Exception:
    text = f"No result within {timeout_s:g} s"
    if not call.exchange.waits_for_thread:
        return HandlerTimeout(text)
    if handler.is_async or call.answers.kept:
        # It may have done something already, so the client must not be told to send it again.
        return HandlerTimeout(f"{text}: the server is busy with other calls")
    logger.warning("%s was not run: it had no thread within %g s", call.method, timeout_s)
    return NoThread()


async def _demand(call: ServedCall, check: ObjectCheck, arguments: Mapping[str, Any]) -> None:
    if check.is_async:
        await check.ademand(call.context, arguments)
    else:
        await call.server.ports.scope.run(partial(check.demand, call.context, arguments), call)


def _run_here(
    call: ServedCall,
    handler: Handler,
    arguments: dict[str, Any],
    finish: Callable[[Any], bytes | Refusal],
) -> bytes | Refusal | InputRequired:
    if handler.check is not None:
        handler.check.demand(call.context, arguments)
    return _end(call, finish, handler.function(**arguments))


def _end(
    call: ServedCall, finish: Callable[[Any], bytes | Refusal], value: Any
) -> bytes | Refusal | InputRequired:
    if isinstance(value, InputRequired):
        return InputRequired(complete_asks(call, value.asks), value.state)
    if call.has_lost_question:
        logger.warning(_LOST_QUESTION, call.method, getattr(call.entry, "name", ""))
    outcome = finish(value)
    if type(outcome) is bytes and len(outcome) > PART_BYTES and call.run is None:
        scope = count_answer(call.exchange, len(outcome), call.options)
        return outcome if scope is None else ANSWER_DROPPED[scope]
    return outcome


async def _ask(call: ServedCall, asks: Mapping[str, Ask], state: Any) -> bytes | Failure:
    """Return the result that contains the questions, and the state of the call."""
    if call.run is not None:
        call.run.park(asks, state)
        return b""
    try:
        signed = await sign_state(call, list(asks), state)
    except Exception as error:  # noqa: BLE001 - a state without a form in JSON, a database down
        failure = await _describe(call, error, f"asking in {call.method}")
        return replace(failure, error=type(error).__name__)
    call.has_asked = True
    result: JSONObject = {"requestState": signed}
    if asks:
        result["inputRequests"] = {key: ask.to_wire() for key, ask in asks.items()}
    return call.server.encode_interim(result, call.rules)


def _refuse_asking(call: ServedCall, error: CannotAsk) -> Refusal | Failure:
    if call.rules.interim_fields:
        return Refusal(
            code=MISSING_CLIENT_CAPABILITY,
            message=str(error),
            data={"requiredCapabilities": error.capability},
        )
    code, asks = call.rules.visit_code, error.unasked
    if (
        code is not None
        and asks
        and all(
            ask.kind == "url" and covers(call.connection.client_capabilities, ask.capability)
            for ask in asks
        )
    ):
        # Source: 2025-11-25 client/elicitation "URL Elicitation Required Error".
        return Refusal(
            code=code,
            message="This needs you to visit a page first; then send the request once more",
            data={"elicitations": [ask_params(ask, call.rules) for ask in asks]},
        )
    return Failure(kind=FailureKind.TOOL_ERROR, message=str(error))


async def _describe(call: ServedCall, error: Exception | SystemExit, what: str) -> Failure:
    """Return what the client may see of an exception; an unexpected one is logged.

    The message for an unexpected one contains nothing of it but a reference to the log record.
    """
    exceptions = call.server.ports.exceptions
    if isinstance(error, Forbidden):
        cause = error.__cause__
        is_expected = cause is None or isinstance(cause, ToolError)
        if not is_expected and not (isinstance(cause, Exception) and exceptions.map(cause)):
            logger.error("The check of %s failed, so it was refused", what, exc_info=cause)
            await report_error(call, cause or error, None)
        return exceptions.missing()
    if isinstance(error, ToolError | Unavailable | StateTooLarge | StateStoreFull):
        return Failure(kind=FailureKind.TOOL_ERROR, message=str(error))
    if isinstance(error, ArgumentErrors):
        return Failure(kind=FailureKind.ARGUMENTS, message=describe_problems(error.problems))
    if isinstance(error, HandlerTimeout):
        logger.warning("%s timed out: %s", what, error)
        return Failure(kind=FailureKind.TIMEOUT, message=str(error))
    # `SystemExit` would end the server and all its other calls.
    failure = exceptions.map(error) if isinstance(error, Exception) else None
    if failure is not None:
        is_checked = call.entry is not None and call.entry.access.check is not None
        if is_checked and failure.kind in (FailureKind.DENIED, FailureKind.MISSING):
            # What is missing must look like what the check hides.
            return exceptions.missing()
        return failure
    reference = secrets.token_hex(6)
    logger.error("%s failed, reference %s", what, reference, exc_info=error)
    await report_error(call, error, reference)
    message = f"Internal error (reference {reference})"
    return Failure(kind=FailureKind.FAULT, message=message, reference=reference)


def within_limit(
    call: ServedCall, what: str, encoded: bytes, data: JSONObject | None = None
) -> bytes | Refusal:
    """Return an encoded result, or the refusal of one that is too large."""
    size, limit = len(encoded), call.options.max_result_bytes
    if size <= limit:
        return encoded
    message = f"The {what} is too large: {size} bytes, at most {limit} are sent"
    return Refusal(code=INTERNAL_ERROR, message=message, data=data)


def short(text: str) -> str:
    """Return a client's text cut to a length fit for an error message."""
    return text if len(text) <= 200 else text[:200] + "…"
