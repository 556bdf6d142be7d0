"""Long work on a call's arguments, one piece at a time, so that other calls get a turn in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar
from weakref import WeakKeyDictionary

from django_mcp.registry.entries import ToolEntry
from django_mcp.server.exchange.call import Failure, FailureKind
from django_mcp.server.exchange.timers import TaskTimers
from django_mcp.server.services import ServedCall

T = TypeVar("T")

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[asyncio.Lock, asyncio.Lock]]
_turns = WeakKeyDictionary()
"""One long check of calls, and one of detached calls, runs at a time on an event loop; under WSGI each request
has its own loop.

Several at once would not end sooner, since they share the interpreter's lock, and would delay others. Those
of detached calls may wait long for a thread."""


async def check_in_turn(
    call: ServedCall, entry: ToolEntry, function: Callable[[], T]
) -> T | Failure:
    """Return what a check of arguments returns, or that the deadline of the call passed meanwhile."""
    timeout_s = call.options.call_timeout_s if entry.timeout_s is None else entry.timeout_s
    deadline = (call.exchange.channel.timers or TaskTimers.of_current_task()).limit(timeout_s)
    try:
        return await run_in_turn(call, function)
    except asyncio.CancelledError:
        call.is_abandoned = True
        if not deadline.is_ours():
            raise
        return Failure(kind=FailureKind.TIMEOUT, message=f"No result within {timeout_s:g} s")
    finally:
        deadline.cancel()


async def run_in_turn(call: ServedCall, function: Callable[[], T]) -> T:
    """Run work on the arguments of a call where it may block, after that of other calls."""
    locks = _turns.setdefault(asyncio.get_running_loop(), (asyncio.Lock(), asyncio.Lock()))
    async with locks[call.detached_run is not None]:
        return await call.server.ports.scope.run(function, call)
