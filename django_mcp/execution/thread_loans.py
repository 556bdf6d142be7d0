"""Threads for the async ORM: a call has one thread of a pool while it runs queries.

Django's async ORM runs its queries by asgiref's thread-sensitive `sync_to_async`. By default that is
one thread for the whole process, whose broken database connections are never closed. Inside of a
`ThreadLoan`, asgiref finds an executor that lends a thread for the call.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Executor
from functools import partial
from typing import Any, ClassVar

from asgiref.sync import AsyncToSync, SyncToAsync

from django_mcp.execution.pool import AwaitedJob, LoopPool, QueueFull, ThreadJob
from django_mcp.protocol.errors import ToolError
from django_mcp.protocol.records import Record
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.ports import BUSY, StoreUnavailable

has_thread: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "django_mcp_has_thread", default=False
)
"""Whether the running code has a thread of a pool. Then it must not wait for another, or all of them
could wait for each other."""

query_wrapper: contextvars.ContextVar[Callable[[Callable[[], Any]], Callable[[], Any]] | None] = (
    contextvars.ContextVar("django_mcp_query_wrapper", default=None)
)
"""Wraps the functions by which the running code queries the database in a thread, if it is set."""

LINGER_S = 0.02
"""How long a call keeps its thread after a query, in case another follows."""

LOOK_EVERY_S = 0.005
"""How often such a thread looks whether other work waits for it."""


class ThreadLoan(Record, weakref=True):
    """Gives the async ORM of a call a thread, in which its queries run one after the other.

    The first query takes the thread from the pool. It goes back soon after the last query, sooner if
    other work waits for it, and at the end of the call. An open transaction, or a query whose rows are
    still being read, as by `aiterator()`, keeps it longer.

    Without a pool, queries run as without a loan. A query may wait and run for `limit_s`, if it is set.
    """

    pool: LoopPool | None
    exchange: Exchange | None
    limit_s: float | None = None
    _is_over: bool = False
    _turn: _Turn | None = None
    _token: Any = None
    outer: ThreadLoan | None = None
    """The loan of the call that made this one, if there is one."""
    _exited: ClassVar[bool] = False
    """For asgiref. A task of the event loop may outlive its call, and still query the database."""

    def __enter__(self) -> None:
        outer = _current.get(None)
        # A context of Django's around a view, or of the site, chooses its own thread.
        if self.pool is not None and (outer is None or type(outer) is ThreadLoan):
            self.outer = outer
            self._token = _current.set(self)

    def __exit__(self, *_error: object) -> None:
        if self._token is not None:
            try:
                _current.reset(self._token)
            except ValueError:
                # The coroutine was closed in another context.
                pass
        self._is_over = True
        self.exchange = self.outer = None
        if self._turn is not None:
            self._turn.end()

    # asgiref looks the executor of its context up by these: all loans have the same one. Entering a
    # context of asgiref for each call, or a context variable beside it, would cost a call 1 %.

    def __hash__(self) -> int:
        return hash(ThreadLoan)

    def __eq__(self, other: object) -> bool:
        return type(other) is ThreadLoan

    def submit(self, pool: LoopPool, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Run a query in the call's thread; return a future of the running event loop."""
        job, turn = AwaitedJob(function), self._turn
        if self.limit_s is not None:
            job.fail_after(self.limit_s, StoreUnavailable)
        if turn is None or not turn.add(job):
            turn = _Turn(pool, self.exchange, job)
            if self._is_over:
                # A task of the event loop may outlive its call.
                turn.end()
            channel = None if self.exchange is None or self._is_over else self.exchange.channel
            if channel is not None:
                # First, since the thread may end the wait at once.
                channel.begin_wait()
            try:
                pool.put(turn)
            except QueueFull:
                if channel is not None:
                    channel.end_wait()
                raise ToolError(BUSY) from None
            if not self._is_over:
                self._turn = turn
        if turn.began_s is None:
            job.done.add_done_callback(partial(turn.withdraw, job))
        return job.done


class _Turn(ThreadJob):
    """One period in which a call has a thread."""

    def __init__(self, pool: LoopPool, exchange: Exchange | None, first: AwaitedJob) -> None:
        self._pool = pool
        self._exchange = exchange
        self._jobs = deque([first])
        self._changed = threading.Condition()
        self._is_open = True
        self._is_over = False
        self.is_busy = False

    @property
    def key(self) -> Hashable:
        return "" if self._exchange is None else self._exchange.caller.quota_key

    @property
    def is_abandoned(self) -> bool:
        return self._is_over

    @property
    def exchange(self) -> Exchange | None:
        return self._exchange

    def describe(self) -> str:
        exchange = self._exchange
        if exchange is None:
            return "queries of an async call that has ended"
        return f"queries of an async call by {exchange.caller.quota_key}"

    def add(self, job: AwaitedJob) -> bool:
        """Queue one more query for the thread; return False if the thread was given back."""
        with self._changed:
            if not self._is_open:
                return False
            self._jobs.append(job)
            self._changed.notify()
            return True

    def end(self) -> None:
        """Give the thread back after the queued queries: the call has ended."""
        with self._changed:
            self._is_over = True
            self._exchange = None
            self._changed.notify()

    def withdraw(self, job: AwaitedJob, _done: object) -> None:
        """Remove a query that was cancelled while it waited for a thread."""
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)
            if self._is_open and not self._jobs and self._pool.withdraw(self):
                self._is_open = False

    def run(self) -> None:
        # Loads `django.db`, which importing a server must not.
        from django_mcp.execution.db_connections import usable_connections

        exchange = self._exchange
        if exchange is not None:
            exchange.channel.end_wait()
        del exchange
        try:
            with usable_connections(lambda: not self._is_over) as is_in_use:
                while (job := self._next(is_in_use)) is not None:
                    self.is_busy = True
                    job.run()
                    self.is_busy = False
                    del job
        except BaseException as error:
            with self._changed:
                self._is_open = False
            for left in self._jobs:
                left.fail(error)
            raise

    def _next(self, is_in_use: Callable[[], bool]) -> AwaitedJob | None:
        """Wait for the next query; None: give the thread back."""
        with self._changed:
            until_s = time.monotonic() + LINGER_S
            while not self._jobs:
                is_idle = self._pool.has_waiting or time.monotonic() >= until_s
                must_stay = is_idle and is_in_use()
                if self._is_over or (is_idle and not must_stay):
                    self._is_open = False
                    return None
                self._changed.wait(LINGER_S if must_stay else LOOK_EVERY_S)
            return self._jobs.popleft()


def is_awaited_in_loan() -> bool:
    """Return whether a lent thread waits for the running code, which is inside of `async_to_sync`.

    Then that thread runs what needs a thread. If the code waited for another thread of the pool, all of
    them could wait for each other.
    """
    loan = _find_loan()
    while loan is not None:
        if loan._turn is not None and loan._turn.is_busy:
            return True
        loan = loan.outer
    return False


class _LentThreads(Executor):
    """The executor that asgiref uses inside of a loan."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run `function` in the thread of the running call; return a future."""
        call: Callable[[], Any] = partial(function, *args, **kwargs)
        wrap = query_wrapper.get()
        if wrap is not None:
            call = wrap(call)
        callers = AsyncToSync.loop_thread_executors.get(asyncio.get_running_loop())
        if callers is not None:
            # A synchronous caller waits for this event loop, as in a test: its thread runs the query.
            return callers.submit(call)
        loan = _find_loan()
        pool = None if loan is None or has_thread.get() else loan.pool
        if loan is not None and pool is not None:
            return loan.submit(pool, call)
        # Loads `django.db`, which importing a server must not.
        from django_mcp.execution.db_connections import usable_connections

        # It is also a decorator, which makes one for each call.
        return SyncToAsync.single_thread_executor.submit(usable_connections()(call))


_current: Any = SyncToAsync.thread_sensitive_context
"""What asgiref knows as the context of the running code: the loan of the call, or a context of the site."""


def _find_loan() -> ThreadLoan | None:
    current = _current.get(None)
    return current if type(current) is ThreadLoan else None


_any_loan: Any = ThreadLoan(None, None)
SyncToAsync.context_to_thread_executor[_any_loan] = _LentThreads()
