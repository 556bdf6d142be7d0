"""Task runners: the web worker that received the call, or the workers of a queue.

A runner is a class without arguments that `DJANGO_MCP["TASK_RUNNER"]` names. One with a queue makes
the queue call `run_task`.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Coroutine
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

from asgiref.sync import AsyncToSync

from django_mcp.execution.threads import loan_for_task
from django_mcp.extensions.tasks.core.memory import LoopRunner
from django_mcp.extensions.tasks.core.run import execute, hand_back_runs
from django_mcp.known_servers import find_server
from django_mcp.process import reset_on
from django_mcp.push.loops import end_loop
from django_mcp.push.process_hub import close_hub, process_hub
from django_mcp.server.exchange.call import Spawned
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.timers import hold
from django_mcp.server.server import BaseServer

T = TypeVar("T")

HAND_BACK_LIMIT_S = 5.0
"""How long the end of a process waits for its tasks to be handed back."""


class InProcessRunner(LoopRunner):
    """Run tasks in the web worker: on its event loop, or under WSGI on a separate one.

    They survive their request and its stream. If the worker itself ends, another one restarts a task
    whose tool is `idempotent` or `read_only`; any other fails.
    """

    def spawn(self, work: Coroutine[Any, Any, T], exchange: Exchange | None) -> Spawned[T]:
        """See `TaskRunner.spawn`."""
        work = _with_loan(work, exchange)
        if exchange is None or not exchange.channel.is_buffered:
            return super().spawn(work, exchange)
        # The event loop of this request ends with it.
        return hold(asyncio.run_coroutine_threadsafe(_beside(work), _loop_beside()))


async def _with_loan(work: Coroutine[Any, Any, T], exchange: Exchange | None) -> T:
    with loan_for_task(exchange):
        return await work


async def _beside(work: Coroutine[Any, Any, T]) -> T:
    # The context is a copy of the request's, in which asgiref finds the thread that waited for the
    # response. It waits no more, so nothing can run there.
    AsyncToSync.executors.current = None
    return await work


@cache
def _loop_beside() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="django-mcp-tasks", daemon=True)
    thread.start()
    # Functions of `atexit` are called after the threads of pools have ended, which wait for the tasks.
    # CPython's own pools end their threads with this function, and there is no public one.
    getattr(threading, "_register_atexit", atexit.register)(_hand_back, loop, thread)
    return loop


def _hand_back(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    """Let another process continue the tasks of this one, which is ending.

    WSGI servers give no earlier signal.
    """
    # In a forked process, the thread stayed behind in the parent.
    if thread.is_alive():
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(_stop(), loop).result(HAND_BACK_LIMIT_S)


async def _stop() -> None:
    # Closed first, since otherwise the hub would restart the tasks in this process.
    await close_hub(process_hub())
    await hand_back_runs(process_hub())


reset_on(_loop_beside.cache_clear, fork=True)


def run_task(server_name: str, task_id: str) -> None:
    """Run one task in this process, and return when it has ended or asks something.

    The queues of runners call it. It does nothing if another worker runs the task, or if the task
    was cancelled or deleted.

    Args:
        server_name: the name of the task's server.
        task_id: its id.
    """
    server = find_server(server_name, imports_urlconf=True)
    if server is None:
        raise LookupError(f"There is no MCP server called {server_name!r} in this process.")
    asyncio.run(_with_loan(_execute(server, task_id), None))


async def _execute(server: BaseServer, task_id: str) -> None:
    try:
        await execute(server.engine, task_id)
    finally:
        # The event loop ends here, so pending notifications are sent first.
        await server.engine.hub.flush()
        await end_loop()
