"""Event loops that end with a call, and what is stopped before they do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import AsyncToSync, async_to_sync

from django_mcp.push.process_hub import process_hub
from django_mcp.server.exchange.timers import end_tasks

P = ParamSpec("P")
T = TypeVar("T")

MAX_ROUNDS = 3
"""How often tasks are ended that were started meanwhile."""


async def end_loop() -> None:
    """Stop the hub, and every other task, of the running event loop, which ends with the running task.

    `asyncio.run` cancels them only once, and waits for ever for one that has swallowed it.
    """
    loop, hub = asyncio.get_running_loop(), process_hub()
    if hub.loop is loop:
        await hub.stop()
    # A task may start another as it ends.
    for _ in range(MAX_ROUNDS):
        # A task that is cancelled before its first step never awaits the coroutine that it wraps.
        await asyncio.sleep(0)
        if not (others := asyncio.all_tasks() - {asyncio.current_task()}):
            break
        await end_tasks(others)


async def take_hub() -> None:
    """Move the hub to the running event loop, unless streams are open on the one where it runs.

    Tasks under WSGI have an event loop of their own, which goes on after them with the hub.
    """
    hub = process_hub()
    if hub.is_running and hub.loop is not asyncio.get_running_loop() and not hub.streams:
        await hub.run(hub.stop)


def run_blocking(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Return what `async_to_sync` does; an event loop that it makes for the call is left without tasks."""

    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        # In a thread that serves a coroutine, it runs as a task of that coroutine's event loop.
        is_of_call = asyncio.get_running_loop() in AsyncToSync.loop_thread_executors
        ends_loop = is_of_call and len(asyncio.all_tasks()) == 1
        try:
            return await function(*args, **kwargs)
        finally:
            if ends_loop:
                await end_loop()

    return async_to_sync(run)
