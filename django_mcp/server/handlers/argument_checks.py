"""Settle arguments of a tool that a short check has not accepted: read them by their schema, or refuse them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from django_mcp.protocol.errors import HEADER_MISMATCH, Refusal
from django_mcp.protocol.headers import check_param_headers
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.coercion import BRIEF_STEPS, MAX_STEPS, Coerced, coerce
from django_mcp.registry.entries import ToolEntry
from django_mcp.registry.problems import Problem
from django_mcp.server.exchange.call import Failure
from django_mcp.server.handlers.failures import refuse_arguments
from django_mcp.server.handlers.turns import check_in_turn
from django_mcp.server.services import ServedCall


async def settle_arguments(
    call: ServedCall, entry: ToolEntry, arguments: JSONObject, problems: Sequence[Problem] | None
) -> JSONObject | Failure:
    """Return the arguments to call a tool with, or why they are refused.

    Args:
        arguments: as the client sent them.
        problems: what is wrong with them; None: it takes long to say.
    """
    outcome: Sequence[Problem] | Coerced | Failure | None = None
    if problems is not None:
        outcome = _read_briefly(call, entry, arguments, problems)
    if outcome is None:
        # All of it in one turn, and within one deadline.
        outcome = await check_in_turn(call, entry, partial(_check, call, entry, arguments))
    if isinstance(outcome, Failure):
        return outcome
    if isinstance(outcome, Coerced):
        call.coerced = (*outcome.names, "?") if outcome.has_dropped else outcome.names
        return outcome.arguments
    if not outcome:
        return arguments
    return refuse_arguments(outcome)


def _read_briefly(
    call: ServedCall, entry: ToolEntry, arguments: JSONObject, problems: Sequence[Problem]
) -> Sequence[Problem] | Coerced | None:
    """Do as `_check` does, within a few steps; None: they were not enough."""
    coerced = _read(call, entry, arguments, BRIEF_STEPS)
    if coerced is None:
        return problems
    left = entry.input_validator.check(coerced.arguments)
    if left is None:
        return None
    return left or coerced


def _check(
    call: ServedCall, entry: ToolEntry, arguments: JSONObject
) -> Sequence[Problem] | Coerced:
    """Return the arguments in the form in which they are valid, else what is wrong with them.

    What is wrong is said of the arguments as they are read, so an argument that can be read is not blamed.
    """
    problems = entry.input_validator.problems(arguments)
    coerced = _read(call, entry, arguments, MAX_STEPS) if problems else None
    return (
        problems
        if coerced is None
        else entry.input_validator.problems(coerced.arguments) or coerced
    )


def _read(
    call: ServedCall, entry: ToolEntry, arguments: JSONObject, max_steps: int
) -> Coerced | None:
    """Read arguments as the settings allow; None: nothing reads otherwise, or it is not what the headers say."""
    options = call.options
    drops_unknown = options.unknown_arguments == "drop"
    if not (options.coerce_arguments or drops_unknown):
        return None
    coerced = coerce(
        arguments,
        # What is published may leave out what says how to read a value.
        entry.form_schema,
        defaulted=entry.defaulted,
        reads_values=options.coerce_arguments,
        drops_unknown=drops_unknown,
        has_own_references=entry.input_validator.has_own_references,
        max_values=options.max_body_values,
        max_steps=max_steps,
    )
    # Gateways judge a call by its headers, so these must say what it runs with.
    if coerced is None or check_headers(call, entry, coerced.arguments) is not None:
        return None
    return coerced


def check_headers(call: ServedCall, entry: ToolEntry, arguments: JSONObject) -> Refusal | None:
    """Return the refusal of a call whose `Mcp-Param-*` headers differ from its arguments, or None."""
    headers = call.exchange.headers
    if not entry.header_params or headers is None or not call.rules.mirrors_headers:
        return None
    problem = check_param_headers(entry.header_params, arguments, headers)
    if problem is None:
        return None
    return Refusal(code=HEADER_MISMATCH, message=problem, status=400)
