"""The package's own writes: in SQLite they have threads of their own, which wait for the write lock.

A tool may hold the lock for long, and readers must not wait behind a write that waits for it.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

from django_mcp.execution.outages import Breaker, Warner, is_outage
from django_mcp.execution.pool import AwaitedJob, LoopPool
from django_mcp.execution.thread_loans import has_thread
from django_mcp.execution.threads import find_breaker, find_own_pool, run_in_pool
from django_mcp.process import PerProcess, Sharing
from django_mcp.server.ports import StoreUnavailable

T = TypeVar("T")

DEFER_AFTER_S = 1.0
"""How long a response waits for a write that can happen later, while SQLite is locked."""

MAX_DEFERRED = 10_000
MAX_DEFERRED_BYTES = 64 * 1024 * 1024
"""Writes of a process that wait to happen later, and what clients sent in them; beyond these, responses
wait for theirs."""

LOCKED_S = 120.0
"""How long a request waits for SQLite's write lock."""

BRIEF_S = 0.1
"""How long a write takes at most if nobody else has the lock."""

EXIT_S = 5.0
"""How long the end of a process waits for SQLite's write lock."""

_deferred_trouble = Warner()


async def write_in_pool(
    function: Callable[[], T],
    breaker: Breaker | None = None,
    *,
    otherwise: Callable[[], T] | None = None,
    size: int = 0,
) -> T:
    """Run a function of this package that writes its tables, like `run_in_pool`.

    If they are in a SQLite file, one thread does all these writes, in order. It waits for the write
    lock, which a transaction of a tool may have for long.

    Args:
        otherwise: returns the result when the write has waited for `DEFER_AFTER_S`. The write happens
            later, also if the caller is gone; then it is logged if it fails. None: wait for it.
        size: how many bytes it holds of what a client sent, if these are many.

    Raises:
        StoreUnavailable: the database does not answer, or the lock was not free for `LOCKED_S`.
    """
    breaker = breaker or find_breaker()
    if breaker is not None:
        breaker.check()
    if not writes_wait():
        return await run_in_pool(function, breaker)
    pool = (_pools.current or _pools.get()).awaited
    if pool.waiting_count >= MAX_DEFERRED or pool.waiting_bytes + size > MAX_DEFERRED_BYTES:
        otherwise = None
    job = _OwnWrite(function, pool, size, is_deferred=otherwise is not None)
    pool.put(job)
    limit_s = LOCKED_S if otherwise is None else DEFER_AFTER_S
    try:
        await asyncio.wait((job.done,), timeout=limit_s)
        if job.done.done():
            outcome = cast(T, job.done.result())
            if breaker is not None:
                breaker.note_answer()
            return outcome
    except Exception as error:
        if breaker is not None and is_outage(error):
            raise breaker.fail(error) from error
        raise
    finally:
        job.done.cancel()
        if otherwise is None:
            pool.withdraw(job)
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
        await asyncio.sleep(DEFER_AFTER_S if was_locked else BRIEF_S)
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
    return find_own_pool() is not None and _tables_are_locked.get().is_so


def run_later(function: Callable[[], object]) -> None:
    """Run `function` in a thread when one is free, with usable connections, without a result.

    Called from a thread with connections. Without a pool it runs at once.
    """
    pool = find_own_pool()
    if pool is None:
        function()
        return
    # Loads `django.db`, which importing a server must not.
    from django_mcp.execution.db_connections import run_with_connections

    if writes_wait():
        # What waits for the lock of SQLite must not hold the threads of those who read.
        pool = (_pools.current or _pools.get()).left
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


class _OwnWrite(AwaitedJob):
    """A write of the package that waits for SQLite's lock."""

    def __init__(
        self, function: Callable[[], Any], pool: LoopPool, size: int, *, is_deferred: bool
    ) -> None:
        super().__init__(partial(contextvars.copy_context().run, self._write, function), size)
        self._pool = pool
        self.is_deferred = is_deferred

    def _write(self, function: Callable[[], Any]) -> Any:
        # Loads `django.db`, which importing a server must not.
        from django_mcp.execution.db_connections import run_with_connections

        has_thread.set(True)
        try:
            return run_with_connections(function, self._goes_on, is_own_write=True)
        except Exception as error:
            if self.done.done() and self.is_deferred:
                _deferred_trouble.warn(
                    "Could not write what a request had left to be written: %r", error
                )
            raise

    def _goes_on(self) -> bool:
        return (self.is_deferred or not self.done.done()) and _is_open(self._pool)


class _Pools:
    """A thread for writes that somebody waits for, and one for those that nobody does."""

    def __init__(self) -> None:
        self.awaited = LoopPool(1, "django-mcp-write")
        self.left = LoopPool(1, "django-mcp-later")

    def close(self) -> None:
        self.awaited.close()
        self.left.close()


_pools = PerProcess(_Pools, settings=("DJANGO_MCP",), close=_Pools.close)
