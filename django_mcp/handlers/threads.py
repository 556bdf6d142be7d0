"""Where synchronous handlers run: a bounded pool of threads that all servers of a process share.

A handler sees the context variables of its request: the language, the time zone, a tenant.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

from asgiref.sync import sync_to_async
from django.core.signals import setting_changed

from django_mcp.conf import settings
from django_mcp.handlers.pool import LoopPool
from django_mcp.server.context import Context

if TYPE_CHECKING:
    from django_mcp.handlers.breaker import Breaker

__all__ = ["ThreadScope", "in_calling_thread", "run_in_pool", "run_later", "through_breaker"]

T = TypeVar("T")

OUR_THREADS = 4
"""Threads for what is no handler. It is quick, and most of it waits for the database. Ours."""

_is_in_handler: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "django_mcp_is_in_handler", default=False
)
_runs_in_place: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "django_mcp_runs_in_place", default=False
)
_breaker: contextvars.ContextVar[Breaker | None] = contextvars.ContextVar(
    "django_mcp_breaker", default=None
)


class ThreadScope:
    """Run synchronous handlers in threads, with usable connections and in transactions.

    `DJANGO_MCP["SYNC_THREADS"]` threads at most; the others wait for one of them. Tasks have
    `TASK_THREADS` of their own, so that long ones keep nobody waiting. With 0 of the former all run
    on Django's thread-sensitive thread, one after the other, and so inside of a test case's
    transaction.
    """

    async def run(self, function: Callable[[], T], ctx: Context[Any]) -> T:
        """See `HandlerScope.run`."""
        lanes = _lanes or _open_lanes()
        # A handler that calls another waits in its own thread, which can run it; were it to wait
        # for a second one of the pool, all of them could wait for each other.
        is_nested = _is_in_handler.get() or _runs_in_place.get()
        lane = lanes.nested if is_nested else lanes.pooled if ctx.run is None else lanes.tasks
        return cast(T, await lane(function, ctx))


async def run_in_pool(function: Callable[[], T]) -> T:
    """Run `function`, which is no handler of a user's, in a thread; with usable connections.

    These have a few threads of their own: who a client is, and whether its session goes on, must not
    wait for handlers that are slow.

    Raises:
        StoreUnavailable: it runs through a breaker, and the database does not answer.
    """
    breaker = _breaker.get()
    return await (_hop(function) if breaker is None else breaker.run(function, _hop))


async def _hop(function: Callable[[], T]) -> T:
    lanes = _lanes or _open_lanes()
    lane = lanes.nested if _runs_in_place.get() else lanes.ours
    return cast(T, await lane(function, None))


def run_later(function: Callable[[], object]) -> None:
    """Run `function` in the pool when a thread is free, with usable connections; nobody waits.

    Called from a thread with connections. Where there is no pool it runs at once.
    """
    # Loads the models' machinery, which importing a server must not.
    from django_mcp.handlers.connections import run_with_connections

    lanes = _lanes or _open_lanes()
    if lanes.our_pool is None or _runs_in_place.get():
        function()
        return

    lanes.our_pool.leave(lambda: run_with_connections(function, lambda: False))


@contextmanager
def through_breaker(breaker: Breaker) -> Iterator[None]:
    """Have what `run_in_pool` runs go through a breaker: a silent database must not fill the threads."""
    token = _breaker.set(breaker)
    try:
        yield
    finally:
        _breaker.reset(token)


@contextmanager
def in_calling_thread() -> Iterator[None]:
    """Have what would run in the pool run in the thread that waits for it.

    For calls that begin in synchronous code: there the thread is that code's own, with its
    connections and its transaction. Begun on an event loop, it is Django's thread-sensitive one.
    """
    token = _runs_in_place.set(True)
    try:
        yield
    finally:
        _runs_in_place.reset(token)


class _Lanes:
    """The ways into a thread, opened when first used: after a fork, and after settings are read."""

    def __init__(self, max_threads: int, max_tasks: int) -> None:
        # Loads the models' machinery, which importing a server must not.
        from django_mcp.handlers.connections import run_with_connections
        from django_mcp.handlers.transactions import HandlerAbandoned

        def work(function: Callable[[], Any], ctx: Context[Any] | None) -> Any:
            if ctx is not None and ctx.is_cancelled:
                # It waited for a thread for longer than anybody waited for it.
                raise HandlerAbandoned
            token = _is_in_handler.set(True)
            try:
                return run_with_connections(function, lambda: ctx is not None and ctx.is_cancelled)
            finally:
                _is_in_handler.reset(token)

        self.nested: Callable[..., Awaitable[Any]] = sync_to_async(work, thread_sensitive=True)
        self.pooled = self.tasks = self.ours = self.nested
        self.pool: LoopPool | None = None
        self.task_pool: LoopPool | None = None
        self.our_pool: LoopPool | None = None
        if max_threads:
            self.pool = LoopPool(max_threads, "django-mcp")
            self.pooled = sync_to_async(work, thread_sensitive=False, executor=self.pool)
            self.task_pool = LoopPool(max_tasks, "django-mcp-task")
            self.tasks = sync_to_async(work, thread_sensitive=False, executor=self.task_pool)
            self.our_pool = LoopPool(min(max_threads, OUR_THREADS), "django-mcp-own")
            self.ours = sync_to_async(work, thread_sensitive=False, executor=self.our_pool)


_lanes: _Lanes | None = None


_opening = threading.Lock()


def _open_lanes() -> _Lanes:
    global _lanes
    # Under WSGI each request has an event loop of its own, in a thread of its own.
    with _opening:
        if _lanes is None:
            _lanes = _Lanes(settings.SYNC_THREADS, settings.TASK_THREADS)
        return _lanes


def _close_lanes(*, setting: str, **_kwargs: Any) -> None:
    global _lanes
    if setting == "DJANGO_MCP" and _lanes is not None:
        for pool in (_lanes.pool, _lanes.task_pool, _lanes.our_pool):
            if pool is not None:
                pool.shutdown(wait=False)
        _lanes = None


def _forget_lanes() -> None:
    # The threads stayed behind in the parent process.
    global _lanes, _opening
    _lanes, _opening = None, threading.Lock()


setting_changed.connect(_close_lanes, dispatch_uid="django_mcp.handlers.threads")
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_lanes)
