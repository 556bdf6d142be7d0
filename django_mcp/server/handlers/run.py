"""Run a handler: bind its arguments, run it in the right place and within its time, describe its failure."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

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
from django_mcp.server.asking.answers import open_answers, seal_state
from django_mcp.server.asking.back_channel import ask_client, ask_params
from django_mcp.server.asking.questions import complete_asks, needs_thread_to_ask
from django_mcp.server.exchange.call import (
    Answers,
    Asked,
    AskFailed,
    CannotAsk,
    Failure,
    FailureKind,
    OnceDue,
    Waiting,
)
from django_mcp.server.exchange.derived import covers
from django_mcp.server.exchange.task import TooMuchKnown
from django_mcp.server.exchange.timers import TaskTimers
from django_mcp.server.handlers.context import Context
from django_mcp.server.handlers.watching import attach_trace, report_error, watch_steps
from django_mcp.server.services.ports import BUSY, NoThread, StateStoreFull

T = TypeVar("T")

logger = logging.getLogger("django_mcp")

LARGE_BYTES = 32 * 1024
"""From this size of a message on, other calls get a turn between the steps of a call. Our own limit."""

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
"""One long check runs at a time on an event loop; under WSGI each request has its own loop.

Several at once would not end sooner, since they share the interpreter's lock, and would delay others."""


async def check_in_turn(
    ctx: Context, entry: ToolEntry, arguments: JSONObject
) -> list[Problem] | Failure:
    """Return what is wrong with arguments, or that the deadline of the call passed meanwhile."""
    timeout_s = ctx.options.call_timeout_s if entry.timeout_s is None else entry.timeout_s
    deadline = (ctx.exchange.timers or TaskTimers.of_current_task()).limit(timeout_s)
    try:
        return await _run_in_turn(ctx, partial(entry.input_validator.problems, arguments))
    except asyncio.CancelledError:
        ctx.abandon()
        if not deadline.is_ours():
            raise
        return Failure(kind=FailureKind.TIMEOUT, message=f"No result within {timeout_s:g} s")
    finally:
        deadline.cancel()


def describe_problems(problems: Sequence[Problem]) -> str:
    """Return what is wrong with arguments, a line each, for a model that may try again."""
    lines = [f"- {problem.pointer or '(arguments)'}: {problem.message}" for problem in problems]
    return "Invalid arguments:\n" + "\n".join(lines)


async def _run_in_turn(ctx: Context, function: Callable[[], T]) -> T:
    async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        return await ctx.server.scope.run(function, ctx)


_Due: TypeAlias = InputRequired | OnceDue | Waiting | Asked
"""What a handler needs before it can go on: the end of one of its rounds."""


class HandlerTimeout(Exception):
    """A call took longer than it may."""


async def run_handler(
    ctx: Context,
    handler: Handler,
    arguments: JSONObject,
    finish: Callable[[Any], bytes | Refusal],
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
        finish: encodes the value.
        what: names the handler in the log, such as `"tool find_orders"`.
        timeout_s: None: the server's.
        may_ask: whether the answer may be a question to the client.
    """
    params, meta = ctx.message.params, ctx.meta
    if may_ask and ("inputResponses" in params or "requestState" in params):
        opened = await open_answers(ctx.server, ctx) if ctx.rules.interim_fields else Answers()
        if isinstance(opened, Refusal):
            return opened
        ctx.answers = opened
    # A `tracestate` without a parent means nothing.
    is_traced = "traceparent" in meta or "baggage" in meta
    detach_trace = attach_trace(meta) if is_traced else None
    try:
        outcome = await _run(ctx, handler, arguments, finish, timeout_s, what)
        if type(outcome) is bytes or not isinstance(outcome, _Due):
            return outcome
        run_again = partial(_run, ctx, handler, arguments, finish, timeout_s, what)
        return await _run_rounds(ctx, handler, run_again, outcome, may_ask=may_ask)
    except CannotAsk as error:
        return _refuse_asking(ctx, error)
    except (ProtocolError, NoThread) as error:
        if isinstance(error, NoThread) and (handler.is_async or ctx.answers.kept):
            # It may have done something already, so the client must not be told to send it again.
            return note(ctx, Failure(kind=FailureKind.TIMEOUT, message=BUSY))
        return error.to_refusal()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a site's code may raise anything
        return await _note_error(ctx, error, what)
    finally:
        if detach_trace is not None:
            detach_trace()


async def _run_rounds(
    ctx: Context,
    handler: Handler,
    run_again: Callable[[], Awaitable[bytes | Refusal | _Due]],
    outcome: bytes | Refusal | _Due,
    *,
    may_ask: bool,
) -> bytes | Refusal | Failure:
    """Run the handler again until it has an outcome, or needs what another request has to bring."""
    while isinstance(outcome, _Due):
        if isinstance(outcome, OnceDue):
            aliases = ctx.options.atomic if handler.aliases is None else handler.aliases
            ctx.answers.kept[outcome.key] = await ctx.server.scope.run(
                outcome.function, ctx, aliases
            )
            if ctx.run is not None:
                await ctx.run.keep(ctx.answers)
        elif isinstance(outcome, Waiting):
            ctx.answers.waited.add(outcome.key)
            await outcome.wait()
        else:
            state = outcome.state if isinstance(outcome, InputRequired) else None
            if ctx.unwinds_to_ask:
                if isinstance(outcome, Asked) and not may_ask:
                    message = "Nothing can be asked while this is answered"
                    return note(ctx, Failure(kind=FailureKind.FAULT, message=message))
                return await _ask(ctx, outcome.asks, state)
            await _ask_back(ctx, outcome.asks, state)
        ctx.answers.begin()
        outcome = await run_again()
    return outcome


async def _run(
    ctx: Context,
    handler: Handler,
    arguments: JSONObject,
    finish: Callable[[Any], bytes | Refusal],
    timeout_s: float | None,
    what: str,
) -> bytes | Refusal | _Due:
    server = ctx.server
    if timeout_s is None:
        options = ctx.options
        timeout_s = options.call_timeout_s if ctx.run is None else options.task_timeout_s
    timers = ctx.exchange.timers or TaskTimers.of_current_task()
    deadline = timers.limit(timeout_s)
    try:
        if len(ctx.exchange.body) > LARGE_BYTES:
            kwargs = await _run_in_turn(ctx, partial(handler.read, arguments))
        else:
            kwargs = handler.read(arguments)
        if handler.injections:
            handler.inject(kwargs, ctx)
        if handler.is_async:
            if handler.check is not None:
                await _demand(ctx, handler.check, kwargs)
            limit_s = server.max_step_s
            value = await (
                handler.function(**kwargs)
                if limit_s is None
                else watch_steps(handler.function(**kwargs), limit_s, what)
            )
            if type(value) is str or not _needs_thread(ctx, value):
                return _end(ctx, finish, value)
            return await server.scope.run(partial(_end, ctx, finish, value), ctx)
        ctx.bind_loop()
        function = partial(_run_here, ctx, handler, kwargs, finish)
        aliases = ctx.options.atomic if handler.aliases is None else handler.aliases
        return await server.scope.run(function, ctx, aliases)
    except (Asked, OnceDue, Waiting) as due:
        return due
    except asyncio.CancelledError:
        # The thread runs on, sees that the call is cancelled, and rolls back.
        ctx.abandon()
        if not deadline.is_ours():
            raise
        raise _time_out(ctx, handler, timeout_s) from None
    finally:
        deadline.cancel()


def _needs_thread(ctx: Context, value: Any) -> bool:
    if isinstance(value, InputRequired):
        return needs_thread_to_ask(ctx, value.asks)
    return ctx.server.converter.needs_thread(value)


def _time_out(ctx: Context, handler: Handler, timeout_s: float | None) -> Exception:
    text = f"No result within {timeout_s:g} s"
    if not ctx.exchange.waits_for_thread:
        return HandlerTimeout(text)
    if handler.is_async or ctx.answers.kept:
        # It may have done something already, so the client must not be told to send it again.
        return HandlerTimeout(f"{text}: the server is busy with other calls")
    logger.warning("%s was not run: it had no thread within %g s", ctx.method, timeout_s)
    return NoThread()


async def _demand(ctx: Context, check: ObjectCheck, arguments: Mapping[str, Any]) -> None:
    if check.is_async:
        await check.ademand(ctx, arguments)
    else:
        await ctx.server.scope.run(partial(check.demand, ctx, arguments), ctx)


def _run_here(
    ctx: Context,
    handler: Handler,
    arguments: dict[str, Any],
    finish: Callable[[Any], bytes | Refusal],
) -> bytes | Refusal | InputRequired:
    if handler.check is not None:
        handler.check.demand(ctx, arguments)
    return _end(ctx, finish, handler.function(**arguments))


def _end(
    ctx: Context, finish: Callable[[Any], bytes | Refusal], value: Any
) -> bytes | Refusal | InputRequired:
    if isinstance(value, InputRequired):
        return InputRequired(complete_asks(ctx, value.asks), value.state)
    return finish(value)


async def _ask(ctx: Context, asks: Mapping[str, Ask], state: Any) -> bytes | Failure:
    """Return the result that contains the questions, and the state of the call."""
    if ctx.run is not None:
        ctx.run.park(asks, state)
        return b""
    try:
        sealed = await seal_state(ctx.server, ctx, ctx.answers, list(asks), state)
    except Exception as error:  # noqa: BLE001 - a state without a form in JSON, a database down
        return await _note_error(ctx, error, f"asking in {ctx.method}")
    ctx.has_asked = True
    result: JSONObject = {"requestState": sealed}
    if asks:
        result["inputRequests"] = {key: ask.to_wire() for key, ask in asks.items()}
    return ctx.server.encode_interim(result, ctx.rules)


async def _ask_back(ctx: Context, asks: Mapping[str, Ask], state: Any) -> None:
    """Ask on the stream of the request, and keep the answers for the handler's next round."""
    found = await ask_client(ctx.server, ctx, asks)
    answers = ctx.answers
    for key, answer in found.items():
        if isinstance(answer, AskFailed):
            answers.failed[key] = answer
        else:
            answers.known[key] = answer
    answers.state = state
    answers.is_resubmit = True


def _refuse_asking(ctx: Context, error: CannotAsk) -> Refusal | Failure:
    if ctx.rules.interim_fields:
        return Refusal(
            code=MISSING_CLIENT_CAPABILITY,
            message=str(error),
            data={"requiredCapabilities": error.capability},
        )
    code, asks = ctx.rules.visit_code, error.unasked
    if (
        code is not None
        and asks
        and all(
            ask.kind == "url" and covers(ctx.client_capabilities, ask.capability) for ask in asks
        )
    ):
        # Source: 2025-11-25 client/elicitation "URL Elicitation Required Error".
        return Refusal(
            code=code,
            message="This needs you to visit a page first; then send the request once more",
            data={"elicitations": [ask_params(ask, ctx.rules) for ask in asks]},
        )
    return note(ctx, Failure(kind=FailureKind.TOOL_ERROR, message=str(error)))


def note(ctx: Context, failure: Failure) -> Failure:
    """Record in the context how its handler failed, for observers, and return that."""
    ctx.failure = failure
    return failure


async def _note_error(ctx: Context, error: Exception | SystemExit, what: str) -> Failure:
    failure = await _describe(ctx, error, what)
    return note(ctx, replace(failure, error=type(error).__name__))


async def _describe(ctx: Context, error: Exception | SystemExit, what: str) -> Failure:
    """Return what the client may see of an exception; an unexpected one is logged.

    The message for an unexpected one contains nothing of it but a reference to the log record.
    """
    if isinstance(error, Forbidden):
        return await _forbid(ctx, error, what)
    if isinstance(error, ToolError | Unavailable | TooMuchKnown | StateStoreFull):
        return Failure(kind=FailureKind.TOOL_ERROR, message=str(error))
    if isinstance(error, ArgumentErrors):
        return Failure(kind=FailureKind.ARGUMENTS, message=describe_problems(error.problems))
    if isinstance(error, HandlerTimeout):
        logger.warning("%s timed out: %s", what, error)
        return Failure(kind=FailureKind.TIMEOUT, message=str(error))
    # `SystemExit` would end the server and all its other calls.
    failure = ctx.server.exceptions.map(error) if isinstance(error, Exception) else None
    if failure is not None:
        is_checked = ctx.entry is not None and ctx.entry.access.check is not None
        if is_checked and failure.kind in (FailureKind.DENIED, FailureKind.MISSING):
            # What is missing must look like what the check hides.
            return ctx.server.exceptions.missing()
        return failure
    reference = secrets.token_hex(6)
    logger.error("%s failed, reference %s", what, reference, exc_info=error)
    await report_error(ctx, error, reference)
    message = f"Internal error (reference {reference})"
    return Failure(kind=FailureKind.FAULT, message=message, reference=reference)


async def _forbid(ctx: Context, error: Forbidden, what: str) -> Failure:
    exceptions, cause = ctx.server.exceptions, error.__cause__
    is_expected = cause is None or isinstance(cause, ToolError)
    if not is_expected and not (isinstance(cause, Exception) and exceptions.map(cause)):
        logger.error("The check of %s failed, so it was refused", what, exc_info=cause)
        await report_error(ctx, cause or error, None)
    return exceptions.missing()


def within_limit(
    ctx: Context, what: str, encoded: bytes, data: JSONObject | None = None
) -> bytes | Refusal:
    """Return an encoded result, or the refusal of one that is too large."""
    size, limit = len(encoded), ctx.options.max_result_bytes
    if size <= limit:
        return encoded
    message = f"The {what} is too large: {size} bytes, at most {limit} are sent"
    return Refusal(code=INTERNAL_ERROR, message=message, data=data)


def short(text: str) -> str:
    """Return a client's text cut to a length fit for an error message."""
    return text if len(text) <= 200 else text[:200] + "…"
