"""Where handlers get threads: bounded pools that all servers of a process share.

A handler sees the context variables of its request: the language, the time zone, a tenant.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from asgiref.sync import AsyncToSync, sync_to_async
from django.core.signals import setting_changed

from django_mcp.conf import find_aliases, server_settings, settings
from django_mcp.handlers.fair_queue import FairQueue, QueueFull
from django_mcp.handlers.leases import (
    ThreadLease,
    is_awaited_in_lease,
    principal_key,
    thread_user,
)
from django_mcp.handlers.pool import AwaitedWork, LoopPool
from django_mcp.handlers.pool_state import PoolState
from django_mcp.registry.atomic import Atomic
from django_mcp.server.exchange.quotas import Limits
from django_mcp.server.services.turns import NoThread

if TYPE_CHECKING:
    from django_mcp.handlers.breaker import Breaker
    from django_mcp.server.exchange.call import Call
    from django_mcp.server.exchange.exchange import Exchange

__all__ = [
    "ThreadScope",
    "answer_leasing",
    "find_pool_states",
    "in_calling_thread",
    "lease_for_authentication",
    "lease_for_task",
    "run_in_pool",
    "run_later",
    "through_breaker",
]

T = TypeVar("T")

OUR_THREADS = 4
"""Threads for what is no handler. It is quick, and most of it waits for the database. Our own limit."""

WAITING_LIMITS = Limits(own_count=1000, own_bytes=0, count=10_000, bytes=0)
"""Calls that wait for a thread, of one caller and in all. `MAX_TASKS` bounds those of tasks. Our own limit."""

AUTHENTICATION_LIMIT_S = 10.0
"""How long a query of an asynchronous authenticator may wait and run. Our own limit."""

_INTERNAL = "internal"
"""The `thread_user` of work that is no handler's."""

_runs_in_place: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "django_mcp_runs_in_place", default=False
)
_breaker: contextvars.ContextVar[Breaker | None] = contextvars.ContextVar(
    "django_mcp_breaker", default=None
)

_submitting = threading.local()
"""Whose work the event loop of this thread is giving to a pool, as `call`: asgiref hands on a function
alone. It is read before anything is awaited. A context variable would cost a microsecond more, since
asgiref copies each into the thread and back.
"""


class ThreadScope:
    """Run synchronous handlers in threads, with usable connections, tools in transactions.

    `DJANGO_MCP["SYNC_THREADS"]` threads at most; the others wait for one of them, and principals
    take turns. Tasks have `TASK_THREADS` of their own, so that long ones keep nobody waiting. With 0
    of the former all run on Django's thread-sensitive thread, one after the other, and so inside of
    a test case's transaction.
    """

    async def run(self, function: Callable[[], T], call: Call, atomic: Atomic = ()) -> T:
        """See `HandlerScope.run`."""
        aliases = find_aliases(atomic) if atomic else ()
        lanes = _lanes or _open_lanes()
        # A handler that calls another waits in its own thread, which can run it; were it to wait
        # for a second one of the pool, all of them could wait for each other.
        is_nested = (
            thread_user.get() is not None
            or _runs_in_place.get()
            or (
                getattr(AsyncToSync.executors, "current", None) is not None
                and is_awaited_in_lease()
            )
        )
        pool = None if is_nested else lanes.pool if call.run is None else lanes.task_pool
        if pool is None:
            return cast(T, await lanes.nested(function, call, aliases))
        call.exchange.waits_for_thread = True
        _submitting.call = call
        try:
            return cast(T, await lanes.by_pool[pool](function, call, aliases))
        except QueueFull:
            raise NoThread from None
        except asyncio.CancelledError:
            # The thread runs on, and asgiref has copied its context to ours.
            thread_user.set(None)
            pool.replace_abandoned()
            raise


async def answer_leasing(get_reply: Callable[[Exchange], Awaitable[T]], exchange: Exchange) -> T:
    """Return a reply, for which the async ORM may use one thread of the handlers' pool."""
    lanes = _lanes or _open_lanes()
    with ThreadLease(None if _runs_in_place.get() else lanes.pool, exchange):
        return await get_reply(exchange)


def lease_for_task(exchange: Exchange | None) -> ThreadLease:
    """Return a block in which the async ORM of a task has a thread of the tasks' pool."""
    lanes = _lanes or _open_lanes()
    return ThreadLease(None if _runs_in_place.get() else lanes.task_pool, exchange)


def lease_for_authentication(exchange: Exchange | None = None) -> ThreadLease:
    """Return a block in which the async ORM of authenticators has a thread, apart from handlers.

    A query that has no answer in time raises `StoreUnavailable`.
    """
    lanes = _lanes or _open_lanes()
    pool = None if _runs_in_place.get() else lanes.authentication_pool
    return ThreadLease(pool, exchange, AUTHENTICATION_LIMIT_S)


def find_pool_states() -> dict[str, PoolState]:
    """Return what the threads for handlers and for tasks do now, by the name of the setting."""
    lanes = _lanes
    if lanes is None or lanes.pool is None or lanes.task_pool is None:
        return {}
    pools = {"SYNC_THREADS": lanes.pool, "TASK_THREADS": lanes.task_pool}
    return {name: pool.find_state() for name, pool in pools.items()}


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
    if lanes.our_pool is None or _runs_in_place.get():
        return cast(T, await lanes.nested(function, None, ()))
    outer = thread_user.get()
    try:
        return cast(T, await lanes.by_pool[lanes.our_pool](function, None, ()))
    except asyncio.CancelledError:
        # See `ThreadScope.run`. One that has a thread of a pool already may wait for ours as well.
        thread_user.set(outer)
        raise


def run_later(function: Callable[[], object]) -> None:
    """Run `function` in the pool when a thread is free, with usable connections; nobody waits.

    Called from a thread with connections. Where there is no pool it runs at once.
    """
    # Loads the models' machinery, which importing a server must not.
    from django_mcp.handlers.db_connections import run_with_connections

    lanes = _lanes or _open_lanes()
    if lanes.our_pool is None or _runs_in_place.get():
        function()
        return

    lanes.our_pool.leave(partial(run_with_connections, function))


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


class _HandlerWork(AwaitedWork):
    """A synchronous handler that waits for a thread or has one."""

    def __init__(self, function: Callable[[], Any]) -> None:
        super().__init__(function)
        self._ctx: Call = _submitting.call
        del _submitting.call

    @property
    def key(self) -> Hashable:
        """See `Work.key`."""
        return principal_key(self._ctx.exchange)

    def describe(self) -> str:
        """See `Work.describe`."""
        ctx = self._ctx
        name = getattr(ctx.entry, "name", "")
        return f"{ctx.method} {name} by {principal_key(ctx.exchange)}"


class _Lanes:
    """The ways into a thread, opened when first used: after a fork, and after settings are read."""

    def __init__(self, max_threads: int, max_tasks: int, replacements: int) -> None:
        # Loads the models' machinery, which importing a server must not.
        from django_mcp.handlers.db_connections import run_with_connections
        from django_mcp.handlers.transactions import HandlerAbandoned, run_atomically

        def work(function: Callable[[], Any], ctx: Call | None, aliases: Sequence[str]) -> Any:
            if ctx is None:
                return run_with_connections(function)
            if ctx.is_cancelled:
                # It waited for a thread for longer than anybody waited for it.
                raise HandlerAbandoned
            ctx.exchange.waits_for_thread = False
            if aliases:
                function = partial(run_atomically, function, lambda: ctx.is_cancelled, aliases)
            return run_with_connections(function)

        def work_in_pool(
            function: Callable[[], Any], ctx: Call | None, aliases: Sequence[str]
        ) -> Any:
            token = thread_user.set(_INTERNAL if ctx is None else ctx)
            try:
                return work(function, ctx, aliases)
            finally:
                # asgiref copies what is left set to the caller's context.
                thread_user.reset(token)

        self.nested: Callable[..., Awaitable[Any]] = sync_to_async(work, thread_sensitive=True)
        self.by_pool: dict[LoopPool, Callable[..., Awaitable[Any]]] = {}
        self.pool: LoopPool | None = None
        self.task_pool: LoopPool | None = None
        self.our_pool: LoopPool | None = None
        self.authentication_pool: LoopPool | None = None
        if max_threads:
            few = min(max_threads, OUR_THREADS)
            self.pool = LoopPool(
                max_threads,
                "django-mcp",
                setting="SYNC_THREADS",
                replacements=replacements,
                make_work=_HandlerWork,
                waiting=FairQueue(WAITING_LIMITS, server_settings.anonymous_share),
            )
            self.task_pool = LoopPool(
                max_tasks, "django-mcp-task", setting="TASK_THREADS", make_work=_HandlerWork
            )
            self.our_pool = LoopPool(few, "django-mcp-own")
            self.authentication_pool = LoopPool(few, "django-mcp-auth")
            self.by_pool = {
                pool: sync_to_async(work_in_pool, thread_sensitive=False, executor=pool)
                for pool in (self.pool, self.task_pool, self.our_pool)
            }

    def close(self) -> None:
        """Let the threads end when their work has."""
        for pool in (self.pool, self.task_pool, self.our_pool, self.authentication_pool):
            if pool is not None:
                pool.shutdown(wait=False)


_lanes: _Lanes | None = None


_opening = threading.Lock()


def _open_lanes() -> _Lanes:
    global _lanes
    # Under WSGI each request has an event loop of its own, in a thread of its own.
    with _opening:
        if _lanes is None:
            _lanes = _Lanes(
                settings.SYNC_THREADS, settings.TASK_THREADS, settings.REPLACEMENT_THREADS
            )
        return _lanes


def _close_lanes(*, setting: str, **_kwargs: Any) -> None:
    global _lanes
    if setting == "DJANGO_MCP" and _lanes is not None:
        _lanes.close()
        _lanes = None


def _forget_lanes() -> None:
    # The threads stayed behind in the parent process.
    global _lanes, _opening
    _lanes, _opening = None, threading.Lock()


setting_changed.connect(_close_lanes, dispatch_uid="django_mcp.handlers.threads")
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_lanes)
