"""The checks of a call of a tool. Whatever calls a tool makes them before the tool's handler runs.

A client calls a tool by its name, through a tool that leads to it, by a link to a whole result, or through the form of
another tool. What `check=` says of a call is asked when the handler runs.
"""

from __future__ import annotations

from django_mcp.protocol.errors import MISSING_CLIENT_CAPABILITY, Refusal
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.entries import ToolEntry
from django_mcp.registry.problems import Problem
from django_mcp.server.capabilities import covers
from django_mcp.server.exchange.call import Failure, FailureKind
from django_mcp.server.handlers.argument_checks import settle_arguments
from django_mcp.server.handlers.turns import LARGE_BYTES
from django_mcp.server.request_checks import check_tool_rate
from django_mcp.server.services import ServedCall


async def check_call(
    call: ServedCall, entry: ToolEntry, arguments: JSONObject
) -> JSONObject | Refusal | Failure:
    """Count a call of a tool that the caller sees, and has the scopes for.

    Returns:
        The arguments to call it with, or why it is not called.
    """
    if entry.throttle is not None:
        refusal = await check_tool_rate(call, entry, entry.throttle)
        if refusal is not None:
            return refusal
    wanted = entry.required_client_capabilities
    if wanted and not covers(call.connection.client_capabilities, wanted):
        return _refuse_client(call, entry.name, wanted)
    if not (call.options.validate_input or entry.validate_input):
        return arguments
    problems = check_briefly(call, entry, arguments)
    if problems is None or problems:
        return await settle_arguments(call, entry, arguments, problems)
    return arguments


def check_briefly(
    call: ServedCall, entry: ToolEntry, arguments: JSONObject
) -> list[Problem] | None:
    """Return what is wrong with arguments; None: it takes long to say, so not on the event loop."""
    if len(call.exchange.body) > LARGE_BYTES:
        return None
    return entry.input_validator.check(arguments)


def _refuse_client(call: ServedCall, name: str, wanted: JSONObject) -> Refusal | Failure:
    message = f"Tool {name} needs a client that declares: {', '.join(wanted)}"
    if not call.rules.is_stateless:
        return Failure(kind=FailureKind.TOOL_ERROR, message=message)
    data = {"requiredCapabilities": wanted}
    return Refusal(code=MISSING_CLIENT_CAPABILITY, message=message, data=data)
