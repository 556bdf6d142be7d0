"""What clients may see of the failure of a handler."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace

from django_mcp.log import logger
from django_mcp.protocol.errors import (
    INTERNAL_ERROR,
    MISSING_CLIENT_CAPABILITY,
    Refusal,
    ToolError,
)
from django_mcp.registry.access import Forbidden
from django_mcp.registry.problems import ArgumentErrors, Problem
from django_mcp.registry.signatures import Unavailable
from django_mcp.server.asking.questions import ask_params
from django_mcp.server.capabilities import covers
from django_mcp.server.exchange.call import CannotAsk, Failure, FailureKind, StateTooLarge
from django_mcp.server.handlers.watching import report_error
from django_mcp.server.ports import StateStoreFull, StoreUnavailable
from django_mcp.server.services import ServedCall


class HandlerTimeout(Exception):
    """A call took longer than it may."""


async def describe_error(call: ServedCall, error: Exception | SystemExit, what: str) -> Failure:
    """Return what the client may see of an exception; an unexpected one is logged.

    The message for an unexpected one contains nothing of it but a reference to the log record, unless the
    server shows faults.
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
    if isinstance(error, StoreUnavailable):
        return Failure(kind=FailureKind.TOOL_ERROR, message=error.message)
    if isinstance(error, ArgumentErrors):
        return refuse_arguments(error.problems)
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
    if call.server.ports.shows_faults:
        message += f": {type(error).__name__}: {short(str(error))}"
    return Failure(kind=FailureKind.FAULT, message=message, reference=reference)


def note_error(call: ServedCall, failure: Failure, error: BaseException) -> Failure:
    """Return a failure with what observers get of the exception."""
    trace_error = call.server.ports.trace_error
    trace = None if trace_error is None else trace_error(call, error)
    return replace(failure, error=type(error).__name__, trace=trace)


def refuse_asking(call: ServedCall, error: CannotAsk) -> Refusal | Failure:
    """Return the answer to a call whose handler needs to ask a client that cannot be asked."""
    if call.rules.interim_fields and not error.has_way:
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


def refuse_arguments(problems: Sequence[Problem]) -> Failure:
    """Return the failure of a call whose arguments are wrong."""
    message = describe_problems(problems)
    return Failure(kind=FailureKind.ARGUMENTS, message=message, problems=problems)


def describe_problems(problems: Sequence[Problem]) -> str:
    """Return what is wrong with arguments, a line each, for a model that may try again."""
    lines = [f"- {problem.pointer or '(arguments)'}: {problem.message}" for problem in problems]
    return "Invalid arguments:\n" + "\n".join(lines)


def _refuse(_call: ServedCall, message: str) -> Refusal:
    return Refusal(code=INTERNAL_ERROR, message=message)


def within_limit(
    call: ServedCall,
    what: str,
    encoded: bytes,
    refuse: Callable[[ServedCall, str], bytes | Refusal] = _refuse,
) -> bytes | Refusal:
    """Return an encoded result or, if it is too large, what `refuse` makes of a message that says so."""
    size, limit = len(encoded), call.options.max_result_bytes
    if size <= limit:
        return encoded
    return refuse(call, f"The {what} is too large: {size} bytes, at most {limit} are sent")


def short(text: str) -> str:
    """Return a client's text cut to a length fit for an error message."""
    return text if len(text) <= 200 else text[:200] + "…"
