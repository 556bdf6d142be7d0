"""Count the queries of sampled calls, and measure how long they take; see `RECORD_QUERIES`.

Nothing here is loaded while that setting is 0. What is counted are the statements that Django executes on the
connections of the threads that run the handler and convert its result. That is the thread of a synchronous
handler, and the thread that is lent to the ORM of an asynchronous one. Threads that the handler starts by itself
have connections of their own, which nothing watches.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from threading import get_ident
from time import perf_counter
from typing import Any, TypeVar

from asgiref.sync import AsyncToSync, sync_to_async
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_mcp.conf import settings
from django_mcp.execution.thread_loans import query_wrapper
from django_mcp.execution.threads import ThreadScope
from django_mcp.registry.options import Atomic
from django_mcp.server.exchange.call import Call, QueryTimes

T = TypeVar("T")

_NOT_SAMPLED = QueryTimes(is_sampled=False)


_running: ContextVar[tuple[QueryTimes, ...]] = ContextVar("django_mcp_query_times", default=())
"""Those of the asynchronous handlers around the running code: a call that one of them makes is a part of it."""


class CountingScope(ThreadScope):
    """Counts the queries of the functions that it runs in threads for sampled calls."""

    async def run(self, function: Callable[[], T], call: Call, atomic: Atomic = ()) -> T:
        times = _find_times(call)
        counted = _running.get() if times is None else (*_running.get(), times)
        if counted:
            # In the transaction: what begins and commits it is no query of the handler.
            function = _counting(function, counted)
        return await super().run(function, call, atomic)


async def count_async(running: Awaitable[T], call: Call) -> T:
    """Await an asynchronous handler, and count its queries if its call is sampled."""
    times = _find_times(call)
    if times is None:
        return await running
    counted, outer = (*_running.get(), times), query_wrapper.get()

    def wrap(function: Callable[[], Any]) -> Callable[[], Any]:
        function = _counting(function, counted)
        return function if outer is None else outer(function)

    # A synchronous caller, such as a view under WSGI, runs the queries in its own thread, past the loans of threads.
    of_caller = getattr(AsyncToSync.executors, "current", None) is not None
    tokens, stack = (_running.set(counted), query_wrapper.set(wrap)), ExitStack()
    try:
        if of_caller:
            await sync_to_async(lambda: stack.enter_context(_watching(counted)))()
        return await running
    finally:
        _running.reset(tokens[0])
        query_wrapper.reset(tokens[1])
        if of_caller:
            await sync_to_async(stack.close)()


def _find_times(call: Call) -> QueryTimes | None:
    """Return what counts the queries of a call; None: it is not sampled. All of its rounds have the same."""
    if not call.is_recorded:
        return None
    times = call.query_times
    if times is None:
        is_sampled = random.random() < settings.RECORD_QUERIES  # noqa: S311
        times = call.query_times = QueryTimes() if is_sampled else _NOT_SAMPLED
    return times if times.is_sampled else None


def _counting(function: Callable[[], T], counted: Sequence[QueryTimes]) -> Callable[[], T]:
    def run() -> T:
        with _watching(counted):
            return function()

    return run


@contextmanager
def _watching(counted: Sequence[QueryTimes]) -> Iterator[None]:
    """Count the statements of this thread's connections."""
    # Two aliases can have one connection: a test's mirror of a replica.
    used: Collection[BaseDatabaseWrapper] = {id(each): each for each in connections.all()}.values()
    # Outside of the others, one of which waits for SQLite's lock and tries again.
    counters = [_Counter(times) for times in counted]
    for connection in used:
        connection.execute_wrappers[:0] = counters
    try:
        yield
    finally:
        for connection in used:
            for counter in counters:
                connection.execute_wrappers.remove(counter)


class _Counter:
    """An execute wrapper. A statement that another one needs, such as the one that takes SQLite's lock, is a part of it."""

    def __init__(self, times: QueryTimes) -> None:
        self._times = times

    def __call__(self, execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        times, thread = self._times, get_ident()
        if times.thread == thread:
            return execute(sql, params, many, context)
        times.thread, began_s = thread, perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            times.seconds += perf_counter() - began_s
            times.count += 1
            times.thread = 0
