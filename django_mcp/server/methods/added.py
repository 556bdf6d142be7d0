"""Methods that extensions add, and calls of tools that extensions wrap."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any

from django_mcp.protocol.errors import ProtocolError, Refusal, ToolError
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.entries import ToolEntry
from django_mcp.server.capabilities import Derived
from django_mcp.server.exchange.admission import unknown_method
from django_mcp.server.exchange.call import Failure, FailureKind
from django_mcp.server.extension import Answer, Extension, ExtensionMethod, NextCall, check_declared
from django_mcp.server.handlers.failures import within_limit
from django_mcp.server.handlers.tools import encode_failure, note_tool_error
from django_mcp.server.request_checks import check_scopes
from django_mcp.server.services import ServedCall


def find_added(name: str, derived: Derived) -> Callable[[ServedCall], Awaitable[bytes | Refusal]]:
    """Return a method of an extension, which admission has found."""
    extension, method = derived.added_methods[name]
    return partial(_answer, extension, method)


async def _answer(
    extension: Extension, method: ExtensionMethod, call: ServedCall
) -> bytes | Refusal:
    if not may_use(extension, call):
        return unknown_method(call.method, call.rules)
    refusal = check_declared(extension, call) if method.needs_declaration else None
    refusal = refusal or check_scopes(call, extension)
    return refusal or await _finish(extension, call, partial(method.answer, call))


def may_use(extension: Extension, call: ServedCall) -> bool:
    """Return whether the principal of a call may use the methods and listening keys of an extension."""
    visible = call.exchange.caller.visible
    is_served = visible.allowed is None or extension.serves_restricted
    return is_served and visible.permits(extension)


async def _finish(
    extension: Extension, call: ServedCall, answer_it: Callable[[], Awaitable[Answer]]
) -> bytes | Refusal:
    try:
        answer = await answer_it()
    except ProtocolError as error:
        return error.to_refusal()
    if isinstance(answer, bytes | Refusal):
        return answer
    finished: object = answer
    if not isinstance(finished, Mapping):
        kind = type(answer).__name__
        raise TypeError(f"{extension.identifier} answers {call.method} with {kind}, not a dict")
    return within_limit(call, "result", call.server.encode_answer(finished, call.rules))


async def call_wrapped(
    call: ServedCall,
    entry: ToolEntry,
    arguments: JSONObject,
    extensions: Iterable[Extension],
    run: Callable[[], Coroutine[Any, Any, bytes | Refusal]],
) -> bytes | Refusal:
    """Answer a call of a tool through extensions, the first of which is the outermost."""
    for extension in reversed(tuple(extensions)):
        run = partial(_wrap, extension, call, entry, arguments, NextCall(run))
    return await run()


async def _wrap(
    extension: Extension,
    call: ServedCall,
    entry: ToolEntry,
    arguments: JSONObject,
    call_next: NextCall,
) -> bytes | Refusal:
    async def answer_it() -> Answer:
        answer = await extension.call_tool(call, entry, arguments, call_next)
        if isinstance(answer, Mapping):
            note_tool_error(call, is_error=answer.get("isError") is True)
        return answer

    try:
        return await _finish(extension, call, answer_it)
    except ToolError as error:
        return encode_failure(call, Failure(kind=FailureKind.TOOL_ERROR, message=str(error)))
