"""`tools/call`: find the tool, check the arguments, run it, and encode its result.

Errors that the client can correct (an unknown tool, wrong headers) are JSON-RPC errors. Those that
the model can correct (wrong arguments, a failure in the tool) are results with `isError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from django_mcp.protocol.errors import Refusal, invalid_params
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.entries import Redirect, ToolEntry
from django_mcp.registry.problems import ArgumentErrors, Problem, find_near_to_sent
from django_mcp.server.exchange.call import Failure
from django_mcp.server.exchange.visibility import ALL_VISIBLE
from django_mcp.server.handlers.argument_checks import check_headers, settle_arguments
from django_mcp.server.handlers.call_checks import begin_check, check_briefly
from django_mcp.server.handlers.challenges import to_result
from django_mcp.server.handlers.failures import refuse_arguments, short
from django_mcp.server.handlers.tools import encode_failure, run_tool
from django_mcp.server.methods.added import call_wrapped
from django_mcp.server.request_checks import check_scopes, note_hidden
from django_mcp.server.services import ServedCall


async def call(call: ServedCall) -> bytes | Refusal:
    """Answer `tools/call`. Source: all revisions, server/tools "Calling Tools"."""
    params = call.message.params
    name, arguments = params.get("name"), params.get("arguments")
    if arguments is None:
        arguments = {}
    if type(name) is not str:
        return invalid_params("name must be a string")
    if type(arguments) is not dict:
        return invalid_params("arguments must be an object")
    entry, visible = call.server.registry.tools.get(name), call.exchange.caller.visible
    if visible is not ALL_VISIBLE:
        entry = _unless_hidden(call, entry)
    if entry is None:
        return invalid_params(f"Unknown tool: {short(name)}{_suggest(call, name)}")
    call.entry = entry
    if entry.redirect is not None:
        other = await _find_other(call, entry, entry.redirect, arguments)
        if isinstance(other, bytes):
            return other
        entry, arguments = other
    refusal = None if visible is ALL_VISIBLE else check_scopes(call, entry)
    if refusal is not None:
        return to_result(call, refusal)
    return await _check_and_run(call, entry, arguments)


def _find(call: ServedCall, name: str) -> ToolEntry | None:
    """Return the tool of a name, if there is one that the caller sees."""
    return _unless_hidden(call, call.server.registry.tools.get(name))


def _unless_hidden(call: ServedCall, entry: ToolEntry | None) -> ToolEntry | None:
    """Return a tool if the caller sees it."""
    if entry is None or call.exchange.caller.visible.includes(entry):
        return entry
    note_hidden(call, entry)
    return None


async def _find_other(
    call: ServedCall, entry: ToolEntry, redirect: Redirect, arguments: JSONObject
) -> tuple[ToolEntry, JSONObject] | bytes:
    """Return the tool that a call stands for and its arguments, or the error of wrong ones.

    From then on it is a call of that tool: for its rules and limits, for retries, and for records.
    """
    problems = check_briefly(call, entry, arguments)
    if problems is None or problems:
        settled = await settle_arguments(call, entry, arguments, problems)
        if isinstance(settled, Failure):
            return encode_failure(call, settled)
        arguments = settled
    try:
        name, arguments = redirect(arguments, partial(_find, call))
    except ArgumentErrors as error:
        return _refuse_arguments(call, error.problems)
    other = _find(call, name)
    if other is None or other.redirect is not None:
        return _refuse_arguments(
            call, [Problem("", f"There is no tool {short(name)}{_suggest(call, name)}")]
        )
    call.entry = other
    call.message.params = {**call.message.params, "name": name, "arguments": arguments}
    return other, arguments


def _refuse_arguments(call: ServedCall, problems: Sequence[Problem]) -> bytes:
    return encode_failure(call, refuse_arguments(problems))


def _suggest(call: ServedCall, name: str) -> str:
    """Return a sentence with the visible tool whose name is most like an unknown one; "" if none is.

    It is the same for a tool that the principal cannot see and for one that does not exist.
    """
    tools, visible = call.server.registry.tools.values(), call.exchange.caller.visible
    names = [
        each.name
        for each in tools
        if each.name != name and (visible is ALL_VISIBLE or visible.includes(each))
    ]
    near = find_near_to_sent(name, names)
    return f". Did you mean {near}?" if near is not None else ""


async def _check_and_run(
    call: ServedCall, entry: ToolEntry, arguments: JSONObject
) -> bytes | Refusal:
    if entry.header_params:
        refusal = check_headers(call, entry, arguments)
        if refusal is not None:
            return refusal
    begun = begin_check(call, entry, arguments)
    if isinstance(begun, dict):
        arguments = begun
    else:
        checked = await begun
        if isinstance(checked, Refusal):
            return checked
        if isinstance(checked, Failure):
            return encode_failure(call, checked)
        arguments = checked
    wrapping = call.derived.wrapping
    extensions = () if wrapping is None else wrapping.find(entry.name, call)
    if not extensions:
        return await run_tool(call, entry, arguments)
    run = partial(run_tool, call, entry, arguments)
    return await call_wrapped(call, entry, arguments, extensions, run)
