"""Threads for handlers: bounded pools that all servers of a process share.

A handler has the context variables of its request, such as the language, the time zone or a tenant.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, TypeVar, cast

from asgiref.sync import AsyncToSync, sync_to_async

from django_mcp.conf import server_settings, settings, site_aliases
from django_mcp.execution.leases import ThreadLease, has_thread, is_awaited_in_lease
from django_mcp.execution.outages import Breaker, Warner, is_outage
from django_mcp.execution.pool import AwaitedWork, FairQueue, LoopPool, PoolState, QueueFull
from django_mcp.process import PerProcess, Sharing
from django_mcp.registry.options import Atomic
from django_mcp.server.exchange.call import Call
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.quotas import Limits, network_of
from django_mcp.server.services.ports import NoThread, StoreUnavailable

T = TypeVar("T")

OUR_THREADS = 4
"""Threads for the package's own queries, and as many for those of asynchronous authenticators."""

OWN_CONNECTIONS = 2 * OUR_THREADS + 4
"""Connections that a process uses at most besides those of handlers. The threads that write calls and
sessions, that carry messages between processes, and that read the disabled entries have one each."""

WAITING_LIMITS = Limits(own_count=1000, own_bytes=0, count=10_000, bytes=0)
"""Calls that wait for a thread, of one caller and in all. `MAX_TASKS` bounds those of tasks. Our own limit."""

AUTHENTICATION_LIMIT_S = 10.0
"""How long a query of an asynchronous authenticator may wait and run. Our own limit."""

LEAVE_AFTER_S = 1.0
"""How long a response waits for a write that can happen later, while SQLite is locked. Our own choice."""

MAX_LEFT = 10_000
"""Writes of a process that wait to happen later; beyond these, responses wait for theirs."""

LOCKED_S = 120.0
"""How long a request waits for SQLite's write lock. Our own limit."""

BRIEF_S = 0.1
"""How long a write takes at most if nobody else has the lock. Our own choice."""

EXIT_S = 5.0
"""How long the end of a process waits for SQLite's write lock. Our own limit."""

_left_trouble = Warner()

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
    """

    async def run(self, function: Callable[[], T], call: Call, atomic: Atomic = ()) -> T:
        aliases = site_aliases(atomic) if atomic else ()
        lanes = _lanes.current or _lanes.get()
        # A handler that calls another runs it in its own thread. If it waited for a second thread of
        # the pool, all of them could wait for each other.
        is_nested = (
            has_thread.get()
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
            # The thread continues, and asgiref has copied its context to this one.
            has_thread.set(False)
            pool.replace_abandoned()
            raise


async def answer_leasing(get_reply: Callable[[Exchange], Awaitable[T]], exchange: Exchange) -> T:
    """Return a reply; the async ORM may use one thread of the handlers' pool for it."""
    lanes = _lanes.current or _lanes.get()
    with ThreadLease(None if _runs_in_place.get() else lanes.pool, exchange):
        return await get_reply(exchange)


def lease_for_task(exchange: Exchange | None) -> ThreadLease:
    """Return a block in which the async ORM of a task has a thread of the tasks' pool."""
    lanes = _lanes.current or _lanes.get()
    return ThreadLease(None if _runs_in_place.get() else lanes.task_pool, exchange)


def lease_for_authentication(exchange: Exchange | None = None) -> ThreadLease:
    """Return a block in which the async ORM of authenticators has a thread of another pool.

    A query without a result in time raises `StoreUnavailable`.
    """
    lanes = _lanes.current or _lanes.get()
    pool = None if _runs_in_place.get() else lanes.authentication_pool
    return ThreadLease(pool, exchange, AUTHENTICATION_LIMIT_S)


def find_pool_states() -> dict[str, PoolState]:
    """Return the states of the pools for handlers and for tasks, by the name of the setting."""
    lanes = _lanes.current
    pools = {} if lanes is None else {"SYNC_THREADS": lanes.pool, "TASK_THREADS": lanes.task_pool}
    return {name: pool.find_state() for name, pool in pools.items() if pool is not None}


async def run_in_pool(function: Callable[[], T], breaker: Breaker | None = None) -> T:
    """Run a function of this package in a thread, with usable connections.

    There are a few threads for this, so that authentication and sessions do not wait for slow handlers.

    Args:
        breaker: through which it runs; None: that of `through_breaker`, if there is one.

    Raises:
        StoreUnavailable: it runs through a breaker, and the database does not answer.
    """
    breaker = breaker or _breaker.get()
    return await (_hop(function) if breaker is None else breaker.run(function, _hop))


async def _hop(function: Callable[[], T]) -> T:
    lanes = _lanes.current or _lanes.get()
    if lanes.our_pool is None or _runs_in_place.get():
        return cast(T, await lanes.nested(function, None, ()))
    outer = has_thread.get()
    try:
        return cast(T, await lanes.by_pool[lanes.our_pool](function, None, ()))
    except asyncio.CancelledError:
        # See `ThreadScope.run`. The caller may have a thread of another pool.
        has_thread.set(outer)
        raise


async def write_in_pool(
    function: Callable[[], T],
    breaker: Breaker | None = None,
    *,
    otherwise: Callable[[], T] | None = None,
) -> T:
    """Run a function of this package that writes its tables, like `run_in_pool`.

    If they are in a SQLite file, one thread does all these writes, in order. It waits for the write
    lock, which a transaction of a tool may have for long.

    Args:
        otherwise: returns the result when the write has waited for `LEAVE_AFTER_S`. The write happens
            later, also if the caller is gone; then it is logged if it fails. None: wait for it.

    Raises:
        StoreUnavailable: the database does not answer, or the lock was not free for `LOCKED_S`.
    """
    lanes, breaker = _lanes.current or _lanes.get(), breaker or _breaker.get()
    if breaker is not None:
        breaker.check()
    if lanes.write_pool is None or not writes_wait():
        return await run_in_pool(function, breaker)
    if lanes.write_pool.waiting_count >= MAX_LEFT:
        otherwise = None
    work = _OwnWrite(function, lanes.write_pool, is_left=otherwise is not None)
    lanes.write_pool.put(work)
    limit_s = LOCKED_S if otherwise is None else LEAVE_AFTER_S
    try:
        await asyncio.wait((work.done,), timeout=limit_s)
        if work.done.done():
            found = cast(T, work.done.result())
            if breaker is not None:
                breaker.note_answer()
            return found
    except Exception as error:
        if breaker is not None and is_outage(error):
            raise breaker.fail(error) from error
        raise
    finally:
        work.done.cancel()
        if otherwise is None:
            lanes.write_pool.withdraw(work)
    if otherwise is None:
        raise StoreUnavailable
    return otherwise()


async def wait_for_other_writers() -> bool:
    """Wait until SQLite is not locked; return whether what is missing may be there now.

    Another process may have answered a request whose write still waits for the lock.
    """
    if not writes_wait():
        return False

    async def look() -> bool:
        began_s = time.monotonic()
        await write_in_pool(_take_lock)
        was_locked = time.monotonic() - began_s > BRIEF_S
        # Those who waited too are quick.
        await asyncio.sleep(LEAVE_AFTER_S if was_locked else BRIEF_S)
        return True

    return await _looking.ask(None, look)


_looking: Sharing[bool] = Sharing()


def _take_lock() -> None:
    # Loads models, which importing a server must not.
    from django.db import router, transaction

    from django_mcp.models import sessions

    with transaction.atomic(router.db_for_write(sessions.Session)):
        pass


def writes_wait() -> bool:
    """Return whether the package's writes have a thread of their own, in which they wait for SQLite's lock."""
    lanes = _lanes.current or _lanes.get()
    return (
        lanes.write_pool is not None and not _runs_in_place.get() and _tables_are_locked.get().is_so
    )


def run_later(function: Callable[[], object]) -> None:
    """Run `function` in a thread when one is free, with usable connections, without a result.

    Called from a thread with connections. Without a pool it runs at once.
    """
    lanes = _lanes.current or _lanes.get()
    if lanes.our_pool is None or lanes.later_pool is None or _runs_in_place.get():
        function()
        return
    # Loads `django.db`, which importing a server must not.
    from django_mcp.execution.db_connections import run_with_connections

    # It writes, and what waits for the lock of SQLite must not hold the threads of those who read.
    pool = lanes.later_pool if _tables_are_locked.get().is_so else lanes.our_pool
    pool.leave(partial(run_with_connections, function, partial(_is_open, pool)))


def _is_open(pool: LoopPool) -> bool:
    """Return whether what is left to a pool may still wait for a lock."""
    return pool.closed_s is None or time.monotonic() < pool.closed_s + EXIT_S


class _Tables:
    """Whether the tables of the package are in a SQLite file, which has one writer at a time."""

    def __init__(self) -> None:
        # Loads models, which importing a server must not.
        from django.db import connections, router

        from django_mcp.execution.write_lock import has_write_lock
        from django_mcp.models import sessions

        self.is_so = has_write_lock(connections[router.db_for_write(sessions.Session)])


_tables_are_locked = PerProcess(_Tables, settings=("DJANGO_MCP", "DATABASES", "DATABASE_ROUTERS"))


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


class _OwnWork(AwaitedWork):
    """A query of the package that waits for a thread or has one."""

    @property
    def key(self) -> Hashable:
        return network_of(caller_address.get() or "")


class _OwnWrite(AwaitedWork):
    """A write of the package that waits for SQLite's lock. One that `is_left` happens in any case."""

    def __init__(self, function: Callable[[], Any], pool: LoopPool, *, is_left: bool) -> None:
        super().__init__(partial(contextvars.copy_context().run, self._write, function))
        self._pool = pool
        self._is_left = is_left

    @property
    def is_wanted(self) -> bool:
        return self._is_left or not self.done.done()

    def _write(self, function: Callable[[], Any]) -> Any:
        # Loads `django.db`, which importing a server must not.
        from django_mcp.execution.db_connections import run_with_connections

        has_thread.set(True)
        try:
            return run_with_connections(
                function, lambda: self.is_wanted and _is_open(self._pool), is_own_write=True
            )
        except Exception as error:
            if self.done.done() and self._is_left:
                _left_trouble.warn(
                    "Could not write what a request had left to be written: %r", error
                )
            raise


class _HandlerWork(AwaitedWork):
    """A synchronous handler that waits for a thread or has one."""

    def __init__(self, function: Callable[[], Any]) -> None:
        super().__init__(function)
        self._ctx: Call = _submitting.call
        del _submitting.call

    @property
    def key(self) -> Hashable:
        return self._ctx.exchange.quota_key

    def describe(self) -> str:
        call = self._ctx
        name = getattr(call.entry, "name", "")
        return f"{call.method} {name} by {call.exchange.quota_key}"


class _Lanes:
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

            def goes_on() -> bool:
                return not call.is_cancelled

            if call.is_cancelled:
                # The call was cancelled while this waited for a thread.
                raise HandlerAbandoned
            call.exchange.waits_for_thread = False
            if aliases:
                function = partial(run_atomically, function, call.must_roll_back, aliases)
            return run_with_connections(function, goes_on)

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
        self.write_pool: LoopPool | None = None
        self.later_pool: LoopPool | None = None
        max_threads = settings.SYNC_THREADS
        if max_threads:
            few = min(max_threads, OUR_THREADS)
            self.pool = LoopPool(
                max_threads,
                "django-mcp",
                setting="SYNC_THREADS",
                replacements=settings.REPLACEMENT_THREADS,
                make_work=_HandlerWork,
                waiting=FairQueue(WAITING_LIMITS, server_settings.anonymous_share),
            )
            self.task_pool = LoopPool(
                settings.TASK_THREADS,
                "django-mcp-task",
                setting="TASK_THREADS",
                make_work=_HandlerWork,
            )
            self.our_pool = LoopPool(few, "django-mcp-own", make_work=_OwnWork, prepare=avoid_pools)
            self.authentication_pool = LoopPool(few, "django-mcp-auth", prepare=avoid_pools)
            # Only for tables in SQLite, which has one writer at a time.
            self.write_pool = LoopPool(1, "django-mcp-write")
            self.later_pool = LoopPool(1, "django-mcp-later")
            self.by_pool = {
                # asgiref's type is too narrow.
                pool: sync_to_async(work_in_pool, thread_sensitive=False, executor=cast(Any, pool))
                for pool in (self.pool, self.task_pool, self.our_pool)
            }

    def close(self) -> None:
        for pool in (
            self.pool,
            self.task_pool,
            self.our_pool,
            self.authentication_pool,
            self.write_pool,
            self.later_pool,
        ):
            if pool is not None:
                pool.close()


_lanes = PerProcess(_Lanes, settings=("DJANGO_MCP",), close=_Lanes.close)
