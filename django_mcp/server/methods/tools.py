"""`tools/call`: find the tool, check the arguments, run it, and encode its result.

Errors that the client can correct (an unknown tool, wrong headers) are JSON-RPC errors. Those that
the model can correct (wrong arguments, a failure in the tool) are results with `isError`.
"""

from __future__ import annotations

from functools import partial

from django_mcp.protocol.errors import (
    HEADER_MISMATCH,
    MISSING_CLIENT_CAPABILITY,
    Refusal,
    invalid_params,
)
from django_mcp.protocol.headers import check_param_headers
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.tasks import NEVER
from django_mcp.registry.entries import ToolEntry
from django_mcp.registry.problems import Problem
from django_mcp.server.exchange.call import Failure, FailureKind
from django_mcp.server.exchange.derived import ALL_VISIBLE, covers
from django_mcp.server.handlers.context import Context
from django_mcp.server.handlers.run import (
    LARGE_BYTES,
    check_in_turn,
    describe_problems,
    note,
    short,
)
from django_mcp.server.handlers.tools import encode_failure, run_tool
from django_mcp.server.services.request_checks import refuse_scopes, refuse_tool_rate
from django_mcp.server.tasks.start import call_with_tasks


async def call(ctx: Context) -> bytes | Refusal:
    """Answer `tools/call`. Source: all revisions, server/tools "Calling Tools"."""
    params = ctx.message.params
    name, arguments = params.get("name"), params.get("arguments", {})
    if type(name) is not str:
        return invalid_params("name must be a string")
    if type(arguments) is not dict:
        return invalid_params("arguments must be an object")
    entry = ctx.server.registry.tools.get(name)
    visible = ctx.exchange.visible
    if entry is None or not (visible is ALL_VISIBLE or visible.includes(entry)):
        return invalid_params(f"Unknown tool: {short(name)}")
    ctx.entry = entry
    refusal = None if visible is ALL_VISIBLE else refuse_scopes(ctx.server, ctx, entry)
    if refusal is None and entry.throttle is not None:
        refusal = await refuse_tool_rate(ctx.server, ctx, entry, entry.throttle)
    if refusal is None and entry.header_params:
        refusal = _check_headers(ctx, entry, arguments)
    if refusal is not None:
        return refusal
    wanted = entry.required_client_capabilities
    if wanted and not covers(ctx.client_capabilities, wanted):
        return _miss_capabilities(ctx, entry)
    return await _check_and_run(ctx, entry, arguments)


async def _check_and_run(ctx: Context, entry: ToolEntry, arguments: JSONObject) -> bytes | Refusal:
    if ctx.options.validate_input:
        is_large = len(ctx.exchange.body) > LARGE_BYTES
        problems: list[Problem] | Failure | None = None
        if not is_large:
            problems = entry.input_validator.check(arguments)
        if problems is None:
            problems = await check_in_turn(ctx, entry, arguments)
        if isinstance(problems, Failure):
            return encode_failure(ctx, note(ctx, problems))
        if problems:
            failure = Failure(kind=FailureKind.ARGUMENTS, message=describe_problems(problems))
            return encode_failure(ctx, note(ctx, failure))
    if entry.task is NEVER and "task" not in ctx.message.params:
        return await run_tool(ctx, entry, arguments)
    return await call_with_tasks(ctx, entry, arguments, partial(run_tool, ctx, entry, arguments))


def _check_headers(ctx: Context, entry: ToolEntry, arguments: JSONObject) -> Refusal | None:
    headers = ctx.exchange.headers
    if headers is None or not ctx.rules.mirrors_headers:
        return None
    problem = check_param_headers(entry.header_params, arguments, headers)
    if problem is None:
        return None
    return Refusal(code=HEADER_MISMATCH, message=problem, status=400)


def _miss_capabilities(ctx: Context, entry: ToolEntry) -> bytes | Refusal:
    """Return the error for missing client capabilities, in the form of the revision."""
    names = ", ".join(entry.required_client_capabilities)
    message = f"Tool {entry.name} needs a client that declares: {names}"
    if not ctx.rules.is_stateless:
        return encode_failure(ctx, note(ctx, Failure(kind=FailureKind.TOOL_ERROR, message=message)))
    return Refusal(
        code=MISSING_CLIENT_CAPABILITY,
        message=message,
        data={"requiredCapabilities": entry.required_client_capabilities},
    )
