"""Check the arguments of a call and convert them without blocking the event loop.

Long checks run in a thread. Steps that hold the interpreter's lock are bounded by the number of values
in a message (`Options.max_body_values`), and other calls get a turn before each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from django_mcp.protocol.json import JSONObject
from django_mcp.registry.arguments import Handler
from django_mcp.registry.entries import ToolEntry
from django_mcp.registry.problems import Problem
from django_mcp.server.exchange.call import Failure, FailureKind
from django_mcp.server.exchange.timers import TaskTimers
from django_mcp.server.handlers.context import Context

T = TypeVar("T")

LARGE_BYTES = 32 * 1024
"""From this size of a message on, other calls get a turn between the steps of a call. Our own limit."""


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
"""One long check runs at a time on an event loop; under WSGI each request has its own loop.

Several at once would not end sooner, since they share the interpreter's lock, and would delay others."""


async def check_at_length(
    ctx: Context[Any], entry: ToolEntry, arguments: JSONObject
) -> list[Problem] | Failure:
    """Return what is wrong with arguments, or that the deadline of the call passed meanwhile."""
    timeout_s = ctx.options.call_timeout_s if entry.timeout_s is None else entry.timeout_s
    deadline = (ctx.exchange.timers or TaskTimers.of_current_task()).limit(timeout_s)
    try:
        return await _run_in_turn(ctx, partial(entry.input_validator.problems, arguments))
    except asyncio.CancelledError:
        ctx.abandon()
        if not deadline.is_ours():
            raise
        return Failure(kind=FailureKind.TIMEOUT, message=f"No result within {timeout_s:g} s")
    finally:
        deadline.cancel()


def describe_problems(problems: Sequence[Problem]) -> str:
    """Return what is wrong with arguments, a line each, for a model that may try again."""
    lines = [f"- {problem.pointer or '(arguments)'}: {problem.message}" for problem in problems]
    return "Invalid arguments:\n" + "\n".join(lines)


async def read_in_thread(ctx: Context[Any], handler: Handler, arguments: JSONObject) -> Any:
    """Return the keyword arguments of a call; see `Handler.read`."""
    return await _run_in_turn(ctx, partial(handler.read, arguments))


async def _run_in_turn(ctx: Context[Any], function: Callable[[], T]) -> T:
    async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        return await ctx.server.scope.run(function, ctx)
