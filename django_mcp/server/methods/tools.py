"""`tools/call`: find the tool, check the arguments, run it, and write its result.

What the caller can mend (unknown tool, wrong headers) is a JSON-RPC error; what the model can mend
(wrong arguments, a failure in the tool) is a result with `isError`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Any

from django_mcp.protocol.content import Text
from django_mcp.protocol.errors import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_CLIENT_CAPABILITY,
    Refusal,
)
from django_mcp.protocol.headers import check_params
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.results import ABSENT, ToolResult
from django_mcp.protocol.revisions import lower
from django_mcp.protocol.tasks import NEVER
from django_mcp.registry.entries import ToolEntry
from django_mcp.registry.problems import Problem
from django_mcp.server.exchange.capabilities import covers
from django_mcp.server.exchange.visibility import WHOLE
from django_mcp.server.handlers.argument_checks import (
    check_at_length,
    check_briefly,
    describe_problems,
)
from django_mcp.server.handlers.run import note, run_handler, short
from django_mcp.server.services.ports import Failure, FailureKind
from django_mcp.server.services.scopes_and_rates import refuse_scopes, refuse_tool_rate

if TYPE_CHECKING:
    from django_mcp.server.handlers.context import Context

logger = logging.getLogger("django_mcp")

_TOLD = Failure(kind=FailureKind.TOLD, message="The result says so itself")


async def call(ctx: Context[Any]) -> bytes | Refusal:
    """Answer `tools/call`. Source: all revisions, server/tools "Calling Tools"."""
    params = ctx.message.params
    name, arguments = params.get("name"), params.get("arguments", {})
    if type(name) is not str:
        return Refusal(code=INVALID_PARAMS, message="name must be a string")
    if type(arguments) is not dict:
        return Refusal(code=INVALID_PARAMS, message="arguments must be an object")
    entry = ctx.server.registry.tools.get(name)
    offer = ctx.exchange.offer
    if entry is None or not offer.includes(entry):
        return Refusal(code=INVALID_PARAMS, message=f"Unknown tool: {short(name)}")
    ctx.entry = entry
    refusal = None if offer is WHOLE else refuse_scopes(ctx, entry)
    if refusal is None and entry.throttle is not None:
        refusal = await refuse_tool_rate(ctx, entry, entry.throttle)
    if refusal is None:
        refusal = _check_headers(ctx, entry, arguments)
    if refusal is not None:
        return refusal
    wanted = entry.required_client_capabilities
    if wanted and not covers(ctx.client_capabilities, wanted):
        return _miss_capabilities(ctx, entry)
    problems: list[Problem] | Failure | None = check_briefly(ctx, entry, arguments)
    if problems is None:
        problems = await check_at_length(ctx, entry, arguments)
    return await _start(ctx, entry, arguments) if problems == [] else _refuse(ctx, problems)


def _refuse(ctx: Context[Any], problems: list[Problem] | Failure) -> bytes:
    if isinstance(problems, list):
        problems = Failure(kind=FailureKind.ARGUMENTS, message=describe_problems(problems))
    return _in_band(ctx, note(ctx, problems))


def _start(
    ctx: Context[Any], entry: ToolEntry, arguments: JSONObject
) -> Awaitable[bytes | Refusal]:
    """Return what runs a tool, directly or as a task."""
    if entry.task is NEVER and "task" not in ctx.message.params:
        return run(ctx, entry, arguments)
    from django_mcp.server.tasks.create import call_with_tasks

    return call_with_tasks(ctx, entry, arguments, partial(run, ctx, entry, arguments))


async def run(ctx: Context[Any], entry: ToolEntry, arguments: JSONObject) -> bytes | Refusal:
    """Run a tool, and return its encoded result or the refusal."""
    outcome = await run_handler(
        ctx,
        entry.handler,
        arguments,
        partial(_finish, ctx, entry),
        what=f"tool {entry.name}",
        timeout_s=entry.timeout_s,
        may_ask=True,
    )
    return _in_band(ctx, outcome) if isinstance(outcome, Failure) else outcome


def _finish(ctx: Context[Any], entry: ToolEntry, value: Any) -> bytes | Refusal:
    if type(value) is str and entry.output_schema is None:
        # The commonest result by far, without the values in between.
        return _within_limit(ctx, ctx.server.encode_text(value, ctx.rules))
    return _encode(ctx, entry, entry.handler.convert(value))


def _encode(ctx: Context[Any], entry: ToolEntry, result: ToolResult) -> bytes | Refusal:
    validator = entry.output_validator
    if validator is not None and not result.is_error and _is_output_validated(ctx, entry):
        problems = (
            [Problem(pointer="", message="structured content is missing")]
            if result.structured is ABSENT
            else validator.problems(result.structured)
        )
        if problems:
            logger.error(
                "Tool %s broke its output schema: %s", entry.name, describe_problems(problems)
            )
            return Refusal(
                code=INTERNAL_ERROR, message=f"Tool {entry.name} did not keep its output schema"
            )
    if result.is_error:
        note(ctx, _TOLD)
    wire = lower("tools/call", result.to_wire(), ctx.rules)
    return _within_limit(ctx, ctx.server.encode_result(wire, ctx.rules))


def _within_limit(ctx: Context[Any], encoded: bytes) -> bytes:
    limit = ctx.options.max_result_bytes
    if len(encoded) > limit:
        text = (
            f"The result is too large: {len(encoded)} bytes, at most {limit} are sent. "
            "Ask for less."
        )
        return _in_band(ctx, note(ctx, Failure(kind=FailureKind.TOLD, message=text)))
    return encoded


def _is_output_validated(ctx: Context[Any], entry: ToolEntry) -> bool:
    if entry.validate_output is not None:
        return entry.validate_output
    return ctx.options.validate_output


def _in_band(ctx: Context[Any], failure: Failure) -> bytes:
    result = ToolResult(content=[Text(failure.message)], is_error=True).to_wire()
    return ctx.server.encode_result(result, ctx.rules)


def _check_headers(ctx: Context[Any], entry: ToolEntry, arguments: JSONObject) -> Refusal | None:
    headers = ctx.exchange.headers
    if not entry.header_params or headers is None or not ctx.rules.mirrors_headers:
        return None
    problem = check_params(entry.header_params, arguments, headers)
    if problem is None:
        return None
    return Refusal(code=HEADER_MISMATCH, message=problem, status=400)


def _miss_capabilities(ctx: Context[Any], entry: ToolEntry) -> bytes | Refusal:
    """Tell a client what it did not declare, in the words that its revision has for it."""
    names = ", ".join(entry.required_client_capabilities)
    message = f"Tool {entry.name} needs a client that declares: {names}"
    if not ctx.rules.is_stateless:
        return _in_band(ctx, note(ctx, Failure(kind=FailureKind.TOLD, message=message)))
    return Refusal(
        code=MISSING_CLIENT_CAPABILITY,
        message=message,
        data={"requiredCapabilities": entry.required_client_capabilities},
    )
