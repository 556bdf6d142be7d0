"""Check the arguments of a call and convert them, without holding up the event loop.

What takes long runs in a thread. What holds the interpreter's lock is bounded by the number of values
in a message (`Options.max_body_values`), and other calls get a turn before each such step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from django_mcp.protocol.json import JSONObject
from django_mcp.registry.arguments import Handler
from django_mcp.registry.entries import ToolEntry
from django_mcp.registry.problems import Problem
from django_mcp.server.exchange.call import Failure, FailureKind
from django_mcp.server.exchange.timers import TaskTimers

if TYPE_CHECKING:
    from django_mcp.server.handlers.context import Context

__all__ = [
    "LARGE_BYTES",
    "HandlerTimeout",
    "read_in_thread",
    "check_at_length",
    "describe_problems",
]

T = TypeVar("T")

LARGE_BYTES = 32 * 1024
"""From this size of a message on, other calls get a turn between the steps of a call. Our own limit."""


class HandlerTimeout(Exception):
    """A call took longer than it may."""


async def check_at_length(
    ctx: Context[Any], entry: ToolEntry, arguments: JSONObject
) -> list[Problem] | Failure:
    """Return what is wrong with arguments, or that the deadline of the call passed meanwhile."""
    try:
        return await _in_time(
            ctx, entry.timeout_s, partial(entry.input_validator.problems, arguments)
        )
    except HandlerTimeout as error:
        return Failure(kind=FailureKind.TIMEOUT, message=str(error))


def describe_problems(problems: Sequence[Problem]) -> str:
    """Return what is wrong with arguments, a line each, for a model that may try again."""
    lines = [f"- {problem.pointer or '(arguments)'}: {problem.message}" for problem in problems]
    return "Invalid arguments:\n" + "\n".join(lines)


async def read_in_thread(ctx: Context[Any], handler: Handler, arguments: JSONObject) -> Any:
    """Return the keyword arguments of a call; see `Handler.read`."""
    server = ctx.server
    return await server.turns.run(server.scope, ctx, partial(handler.read, arguments))


async def _in_time(ctx: Context[Any], timeout_s: float | None, function: Callable[[], T]) -> T:
    if timeout_s is None:
        timeout_s = ctx.options.call_timeout_s
    timers = ctx.exchange.timers or TaskTimers()
    deadline = timers.limit(timeout_s)
    try:
        return await ctx.server.turns.run(ctx.server.scope, ctx, function)
    except asyncio.CancelledError:
        ctx.abandon()
        if not deadline.is_ours():
            raise
        raise HandlerTimeout(f"No result within {timeout_s:g} s") from None
    finally:
        deadline.cancel()
