"""An event loop that continues between the calls of a synchronous test while it listens.

The test's own thread does the synchronous work of that loop, on its connection and inside its
transaction: while the test waits for a call or for a notification, and never in between.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import wraps
from queue import SimpleQueue
from typing import Any, Concatenate, ParamSpec, TypeVar

from asgiref.sync import AsyncToSync, async_to_sync

from django_mcp.server.exchange.timers import find_running_loop

P = ParamSpec("P")
T = TypeVar("T")

_executors: Any = AsyncToSync.loop_thread_executors
"""Where asgiref looks up the thread for "thread-sensitive" code, such as Django's ORM."""


class CallerExecutor:
    """Runs submitted functions in the thread that waits in `work_until`."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(function(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - it belongs to the caller of submit
                future.set_exception(error)

        self._work.put(run)
        return future

    def work_until(self, future: Future[T]) -> T:
        """Run what is submitted until a future is done, and return its result."""
        future.add_done_callback(lambda _: self._work.put(None))
        while not future.done():
            work = self._work.get()
            if work is not None:
                work()
        return future.result()


class Portal:
    """An event loop in a thread of its own, which is called from the thread that created it."""

    def __init__(self) -> None:
        self.users = 0
        self.owner = threading.current_thread()
        self._executor = CallerExecutor()
        self._is_ready: Future[None] = Future()
        self._is_over: Future[None] = Future()
        self._thread = threading.Thread(target=self._live, name="mcp-test-loop", daemon=True)
        self._thread.start()
        self._is_ready.result()

    def run(
        self, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a coroutine function on the loop, and return its result."""

        async def run() -> T:
            # The executor of an enclosing `async_to_sync`, whose thread waits for this one.
            AsyncToSync.executors.current = None
            return await function(*args, **kwargs)

        return self._executor.work_until(asyncio.run_coroutine_threadsafe(run(), self._loop))

    def is_running_here(self) -> bool:
        """Return whether the running event loop is this one."""
        return asyncio.get_running_loop() is self._loop

    def close(self) -> None:
        """End the loop, and cancel what still runs there."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._executor.work_until(self._is_over)
        self._thread.join()

    def _live(self) -> None:
        try:
            asyncio.run(self._wait())
        finally:
            del _executors[self._loop]
            self._is_over.set_result(None)

    async def _wait(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        _executors[self._loop] = self._executor
        self._is_ready.set_result(None)
        await self._stop.wait()


_portal: Portal | None = None


def open_portal() -> Portal:
    """Return the loop that all listeners in this process share; each has to close it once.

    Raises:
        RuntimeError: another thread listens.
    """
    global _portal
    if _portal is None:
        _portal = Portal()
    elif _portal.owner is not threading.current_thread():
        raise RuntimeError("Another thread listens already: one at a time can")
    _portal.users += 1
    return _portal


def close_portal(portal: Portal) -> None:
    """End the loop when nothing uses it any more."""
    global _portal
    portal.users -= 1
    if not portal.users:
        _portal = None
        portal.close()


def loop_continues() -> bool:
    """Return whether the running event loop continues after the call, since the test listens."""
    return _portal is not None and _portal.is_running_here()


def in_sync(
    function: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """Return the synchronous form of a method.

    While the calling thread listens, it runs on the same loop, which receives the notifications.

    Raises:
        RuntimeError: it was called in a coroutine.
    """

    @wraps(function)
    def call(client: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if _portal is not None and _portal.owner is threading.current_thread():
            return _portal.run(function, client, *args, **kwargs)
        if find_running_loop() is not None:
            raise RuntimeError(
                "An asynchronous test needs AsyncMCPClient, whose methods are awaited: "
                "self.async_mcp in a test case, the fixture async_mcp_client in pytest."
            )
        return async_to_sync(function)(client, *args, **kwargs)

    return call
