"""Methods that extensions add, and calls of tools that extensions wrap."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from django_mcp.protocol.errors import ProtocolError, Refusal
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.entries import ToolEntry
from django_mcp.server.capabilities import Derived
from django_mcp.server.extension import Answer, Extension, ExtensionMethod, NextCall, declared_by
from django_mcp.server.services import ServedCall


def find_added(name: str, derived: Derived) -> Callable[[ServedCall], Awaitable[bytes | Refusal]]:
    """Return a method of an extension, which admission has found."""
    extension, method = derived.added_methods[name]
    return partial(_answer, extension, method)


async def _answer(
    extension: Extension, method: ExtensionMethod, call: ServedCall
) -> bytes | Refusal:
    refusal = declared_by(extension, call) if method.needs_declaration else None
    return refusal or await _finish(call, method.answer(call))


async def _finish(call: ServedCall, answering: Awaitable[Answer]) -> bytes | Refusal:
    try:
        answer = await answering
    except ProtocolError as error:
        return error.to_refusal()
    if isinstance(answer, bytes | Refusal):
        return answer
    return call.server.encode_result(dict(answer), call.rules)


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
    return await _finish(call, extension.call_tool(call, entry, arguments, call_next))
