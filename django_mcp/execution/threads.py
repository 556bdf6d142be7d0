"""Threads for handlers: bounded pools that all servers of a process share.

A handler has the context variables of its request, such as the language, the time zone or a tenant.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, TypeVar, cast

from asgiref.sync import AsyncToSync, sync_to_async

from django_mcp.conf import server_settings, settings, site_aliases
from django_mcp.execution.outages import Breaker
from django_mcp.execution.pool import AwaitedJob, FairQueue, LoopPool, PoolState, QueueFull
from django_mcp.execution.thread_loans import ThreadLoan, has_thread, is_awaited_in_loan
from django_mcp.process import PerProcess
from django_mcp.registry.options import Atomic
from django_mcp.server.exchange.call import Call
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.quotas import Limits, network_of
from django_mcp.server.ports import NoThread

T = TypeVar("T")

OUR_THREADS = 4
"""Threads for the package's own queries, and as many for those of asynchronous authenticators."""

OWN_CONNECTIONS = 2 * OUR_THREADS + 4
"""Connections that a process uses at most besides those of handlers. The threads that write calls and
sessions, that carry messages between processes, and that read the disabled entries have one each."""

WAITING_LIMITS = Limits(own_count=1000, own_bytes=0, count=10_000, bytes=0)
"""Calls that wait for a thread, of one caller and in all. `MAX_TASKS` bounds those of tasks."""

AUTHENTICATION_LIMIT_S = 10.0
"""How long a query of an asynchronous authenticator may wait and run."""

_runs_in_place: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "django_mcp_runs_in_place", default=False
)
_breaker: contextvars.ContextVar[Breaker | None] = contextvars.ContextVar(
    "django_mcp_breaker", default=None
)
caller_address: contextvars.ContextVar[str | None] = contextvars.ContextVar(
    "django_mcp_caller_address", default=None
)
"""The IP address of the client whose request is served. The package's own queries take turns between them."""

_submitting = threading.local()
"""The `call` that the event loop of this thread is giving to a pool, since asgiref passes on a function
alone. It is read before anything is awaited. A context variable would cost a microsecond more.
"""


class ThreadScope:
    """Runs synchronous handlers in threads, with usable connections, and tools in transactions.

    There are at most `DJANGO_MCP["SYNC_THREADS"]` threads; other calls wait, and principals take turns.
    Tasks have `TASK_THREADS` of their own. If `SYNC_THREADS` is 0, all handlers run on Django's
    thread-sensitive thread, one after the other, and so inside of a test case's transaction.

    Args:
        notes_writes: whether the log names synchronous tools that write although they are `read_only`. See
            `noting_async_writes` for the others.
    """

    def __init__(self, *, notes_writes: bool = False) -> None:
        self._notes_writes = notes_writes

    async def run(self, function: Callable[[], T], call: Call, atomic: Atomic = ()) -> T:
        aliases = site_aliases(atomic) if atomic else ()
        if self._notes_writes:
            # Loads `django.db`, which importing a server must not.
            from django_mcp.execution.noted_writes import noting_writes

            function = noting_writes(function, call, aliases)
        pools = _thread_pools.current or _thread_pools.get()
        # A handler that calls another runs it in its own thread. If it waited for a second thread of
        # the pool, all of them could wait for each other. What asgiref knows is slow to read, so it is last.
        is_nested = (
            has_thread.get()
            or _runs_in_place.get()
            or (
                is_awaited_in_loan() and getattr(AsyncToSync.executors, "current", None) is not None
            )
        )
        pool = None if is_nested else pools.pool if call.detached_run is None else pools.task_pool
        if pool is None:
            return cast(T, await pools.nested(function, call, aliases))
        call.exchange.channel.begin_wait()
        _submitting.call = call
        try:
            return cast(T, await pools.by_pool[pool](function, call, aliases))
        except QueueFull:
            raise NoThread from None
        except asyncio.CancelledError:
            # The thread continues, and asgiref has copied its context to this one.
            has_thread.set(False)
            pool.replace_abandoned()
            raise


async def answer_with_loan(get_reply: Callable[[Exchange], Awaitable[T]], exchange: Exchange) -> T:
    """Return a reply; the async ORM may use one thread of the handlers' pool for it."""
    pools = _thread_pools.current or _thread_pools.get()
    with ThreadLoan(None if _runs_in_place.get() else pools.pool, exchange):
        return await get_reply(exchange)


def loan_for_task(exchange: Exchange | None) -> ThreadLoan:
    """Return a block in which the async ORM of a task has a thread of the tasks' pool."""
    pools = _thread_pools.current or _thread_pools.get()
    return ThreadLoan(None if _runs_in_place.get() else pools.task_pool, exchange)


def loan_for_authentication(exchange: Exchange | None = None) -> ThreadLoan:
    """Return a block in which the async ORM of authenticators has a thread of another pool.

    A query without a result in time raises `StoreUnavailable`.
    """
    pools = _thread_pools.current or _thread_pools.get()
    pool = None if _runs_in_place.get() else pools.authentication_pool
    return ThreadLoan(pool, exchange, AUTHENTICATION_LIMIT_S)


def find_pool_states() -> dict[str, PoolState]:
    """Return the states of the pools for handlers and for tasks, by the name of the setting."""
    pools = _thread_pools.current
    if pools is None:
        return {}
    by_setting = {"SYNC_THREADS": pools.pool, "TASK_THREADS": pools.task_pool}
    return {name: pool.find_state() for name, pool in by_setting.items() if pool is not None}


def find_held() -> list[tuple[Exchange, Call | None]]:
    """Return what holds a thread for handlers or tasks: an exchange, and its call if a handler runs there."""
    pools = _thread_pools.current
    if pools is None:
        return []
    jobs = [job for pool in (pools.pool, pools.task_pool) if pool is not None for job in pool.jobs]
    return [(job.exchange, job.call) for job in jobs if job.exchange is not None]


async def run_in_pool(function: Callable[[], T], breaker: Breaker | None = None) -> T:
    """Run a function of this package in a thread, with usable connections.

    There are a few threads for this, so that authentication and sessions do not wait for slow handlers.

    Args:
        breaker: through which it runs; None: that of `through_breaker`, if there is one.

    Raises:
        StoreUnavailable: it runs through a breaker, and the database does not answer.
    """
    breaker = breaker or _breaker.get()
    if breaker is None:
        return await _hop(function)
    # The calling thread runs it to its end, however long that takes.
    return await breaker.run(function, _hop, is_limited=not _runs_in_place.get())


async def _hop(function: Callable[[], T]) -> T:
    pools = _thread_pools.current or _thread_pools.get()
    if pools.our_pool is None or _runs_in_place.get():
        return cast(T, await pools.nested(function, None, ()))
    outer = has_thread.get()
    try:
        return cast(T, await pools.by_pool[pools.our_pool](function, None, ()))
    except asyncio.CancelledError:
        # See `ThreadScope.run`. The caller may have a thread of another pool.
        has_thread.set(outer)
        raise


def find_own_pool() -> LoopPool | None:
    """Return the threads for the package's own queries; None: these run where they are."""
    pools = _thread_pools.current or _thread_pools.get()
    return None if _runs_in_place.get() else pools.our_pool


def find_breaker() -> Breaker | None:
    """Return the breaker of the block around the caller; see `through_breaker`."""
    return _breaker.get()


@contextmanager
def _setting(variable: contextvars.ContextVar[Any], value: object) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def through_breaker(breaker: Breaker) -> AbstractContextManager[None]:
    """Return a block in which `run_in_pool` uses a breaker, so that a silent database holds few threads."""
    return _setting(_breaker, breaker)


def in_calling_thread() -> AbstractContextManager[None]:
    """Return a block in which everything runs in the calling thread instead of a pool.

    For calls from synchronous code, with its connections and its transaction. On an event loop, it is
    Django's thread-sensitive thread.
    """
    return _setting(_runs_in_place, True)


class _OwnJob(AwaitedJob):
    """A query of the package that waits for a thread or has one."""

    @property
    def key(self) -> Hashable:
        return network_of(caller_address.get() or "")


class _HandlerJob(AwaitedJob):
    """A synchronous handler that waits for a thread or has one."""

    def __init__(self, function: Callable[[], Any]) -> None:
        super().__init__(function)
        self._ctx: Call = _submitting.call
        del _submitting.call

    @property
    def key(self) -> Hashable:
        return self._ctx.exchange.caller.quota_key

    @property
    def exchange(self) -> Exchange:
        return self._ctx.exchange

    @property
    def call(self) -> Call:
        return self._ctx

    def describe(self) -> str:
        call = self._ctx
        name = getattr(call.entry, "name", "")
        return f"{call.method} {name} by {call.exchange.caller.quota_key}"


class _ThreadPools:
    """The pools, created on first use: after a fork, and after the settings are read."""

    def __init__(self) -> None:
        # Loads `django.db`, which importing a server must not.
        from django_mcp.execution.db_connections import (
            HandlerAbandoned,
            avoid_pools,
            run_atomically,
            run_with_connections,
        )

        def work(function: Callable[[], Any], call: Call | None, aliases: Sequence[str]) -> Any:
            if call is None:
                return run_with_connections(function)

            if call.is_cancelled:
                # The call was cancelled while this waited for a thread.
                raise HandlerAbandoned
            call.exchange.channel.end_wait()
            if aliases:
                function = partial(run_atomically, function, call.must_roll_back, aliases)
            return run_with_connections(function, call.is_awaited)

        def work_in_pool(*args: Any) -> Any:
            token = has_thread.set(True)
            try:
                return work(*args)
            finally:
                # asgiref copies the context back to the caller.
                has_thread.reset(token)

        self.nested: Callable[..., Awaitable[Any]] = sync_to_async(work, thread_sensitive=True)
        self.by_pool: dict[LoopPool, Callable[..., Awaitable[Any]]] = {}
        self.pool: LoopPool | None = None
        self.task_pool: LoopPool | None = None
        self.our_pool: LoopPool | None = None
        self.authentication_pool: LoopPool | None = None
        max_threads = settings.SYNC_THREADS
        if max_threads:
            few = min(max_threads, OUR_THREADS)
            self.pool = LoopPool(
                max_threads,
                "django-mcp",
                setting="SYNC_THREADS",
                replacements=settings.REPLACEMENT_THREADS,
                make_work=_HandlerJob,
                waiting=FairQueue(WAITING_LIMITS, server_settings.anonymous_share),
            )
            self.task_pool = LoopPool(
                settings.TASK_THREADS,
                "django-mcp-task",
                setting="TASK_THREADS",
                make_work=_HandlerJob,
            )
            self.our_pool = LoopPool(few, "django-mcp-own", make_work=_OwnJob, prepare=avoid_pools)
            self.authentication_pool = LoopPool(few, "django-mcp-auth", prepare=avoid_pools)
            self.by_pool = {
                # asgiref's type is too narrow.
                pool: sync_to_async(work_in_pool, thread_sensitive=False, executor=cast(Any, pool))
                for pool in (self.pool, self.task_pool, self.our_pool)
            }

    def close(self) -> None:
        for pool in (self.pool, self.task_pool, self.our_pool, self.authentication_pool):
            if pool is not None:
                pool.close()


_thread_pools = PerProcess(_ThreadPools, settings=("DJANGO_MCP",), close=_ThreadPools.close)
