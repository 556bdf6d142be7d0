"""`tools/call`: find the tool, check the arguments, run it, and write its result.

What the caller can mend (unknown tool, wrong headers) is a JSON-RPC error; what the model can mend
(wrong arguments, a failure in the tool) is a result with `isError`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Any

from django_mcp.protocol.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    MISSING_CLIENT_CAPABILITY,
    Refusal,
)
from django_mcp.protocol.headers import check_params
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.tasks import NEVER
from django_mcp.registry.entries import ToolEntry
from django_mcp.registry.problems import Problem
from django_mcp.server.exchange.call import Failure, FailureKind
from django_mcp.server.exchange.capabilities import covers
from django_mcp.server.exchange.visibility import WHOLE
from django_mcp.server.handlers.argument_checks import (
    LARGE_BYTES,
    check_at_length,
    describe_problems,
)
from django_mcp.server.handlers.run import note, short
from django_mcp.server.handlers.tools import encode_failure, run_tool
from django_mcp.server.services.scopes_and_rates import refuse_scopes, refuse_tool_rate

if TYPE_CHECKING:
    from django_mcp.server.handlers.context import Context

logger = logging.getLogger("django_mcp")


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
    if entry is None or not (offer is WHOLE or offer.includes(entry)):
        return Refusal(code=INVALID_PARAMS, message=f"Unknown tool: {short(name)}")
    ctx.entry = entry
    refusal = None if offer is WHOLE else refuse_scopes(ctx.server, ctx, entry)
    if refusal is None and entry.throttle is not None:
        refusal = await refuse_tool_rate(ctx.server, ctx, entry, entry.throttle)
    if refusal is None and entry.header_params:
        refusal = _check_headers(ctx, entry, arguments)
    if refusal is not None:
        return refusal
    wanted = entry.required_client_capabilities
    if wanted and not covers(ctx.client_capabilities, wanted):
        return _miss_capabilities(ctx, entry)
    return await _check_and_start(ctx, entry, arguments)


async def _refuse(ctx: Context[Any], problems: list[Problem] | Failure) -> bytes:
    if isinstance(problems, list):
        problems = Failure(kind=FailureKind.ARGUMENTS, message=describe_problems(problems))
    return encode_failure(ctx, note(ctx, problems))


def _check_and_start(
    ctx: Context[Any], entry: ToolEntry, arguments: JSONObject
) -> Awaitable[bytes | Refusal]:
    """Return what checks the arguments and runs the tool; a short check is made at once."""
    problems: list[Problem] | None = []
    if ctx.options.validate_input:
        is_large = len(ctx.exchange.body) > LARGE_BYTES
        problems = None if is_large else entry.input_validator.check(arguments)
    if problems is None:
        return _check_at_length(ctx, entry, arguments)
    if problems:
        return _refuse(ctx, problems)
    if entry.task is NEVER and "task" not in ctx.message.params:
        return run_tool(ctx, entry, arguments)
    return _start(ctx, entry, arguments)


async def _check_at_length(
    ctx: Context[Any], entry: ToolEntry, arguments: JSONObject
) -> bytes | Refusal:
    problems = await check_at_length(ctx, entry, arguments)
    if problems == []:
        return await _start(ctx, entry, arguments)
    return await _refuse(ctx, problems)


def _start(
    ctx: Context[Any], entry: ToolEntry, arguments: JSONObject
) -> Awaitable[bytes | Refusal]:
    """Return what runs a tool, directly or as a task."""
    if entry.task is NEVER and "task" not in ctx.message.params:
        return run_tool(ctx, entry, arguments)
    from django_mcp.server.tasks.create import call_with_tasks

    return call_with_tasks(ctx, entry, arguments, partial(run_tool, ctx, entry, arguments))


def _check_headers(ctx: Context[Any], entry: ToolEntry, arguments: JSONObject) -> Refusal | None:
    headers = ctx.exchange.headers
    if headers is None or not ctx.rules.mirrors_headers:
        return None
    problem = check_params(entry.header_params, arguments, headers)
    if problem is None:
        return None
    return Refusal(code=HEADER_MISMATCH, message=problem, status=400)


def _miss_capabilities(ctx: Context[Any], entry: ToolEntry) -> bytes | Refusal:
    """Return the error for missing client capabilities, in the form of the revision."""
    names = ", ".join(entry.required_client_capabilities)
    message = f"Tool {entry.name} needs a client that declares: {names}"
    if not ctx.rules.is_stateless:
        return encode_failure(ctx, note(ctx, Failure(kind=FailureKind.TOLD, message=message)))
    return Refusal(
        code=MISSING_CLIENT_CAPABILITY,
        message=message,
        data={"requiredCapabilities": entry.required_client_capabilities},
    )
