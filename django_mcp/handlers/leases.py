"""The threads of the async ORM: a call has one of a pool for as long as it has queries to run.

Django's async ORM runs its queries by asgiref's `sync_to_async`, "thread-sensitive". Left alone,
that is one thread for the whole process, and nothing closes its database connections once they are
broken. Inside of a `ThreadLease` asgiref finds an executor that leases a thread for the call.
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
from typing import TYPE_CHECKING, Any

from asgiref.sync import AsyncToSync, SyncToAsync, ThreadSensitiveContext

from django_mcp.handlers.fair_queue import QueueFull
from django_mcp.handlers.pool import AwaitedWork, LoopPool, Work
from django_mcp.protocol.errors import ToolError
from django_mcp.protocol.records import Record
from django_mcp.server.exchange.quotas import quota_key_of
from django_mcp.server.services.ports import StoreUnavailable
from django_mcp.server.services.turns import BUSY

if TYPE_CHECKING:
    from django_mcp.server.exchange.exchange import Exchange

__all__ = ["ThreadLease", "is_awaited_in_lease", "principal_key", "thread_user"]

thread_user: contextvars.ContextVar[Any] = contextvars.ContextVar(
    "django_mcp_thread_user", default=None
)
"""What the running code has a thread of a pool for; None: it has none. One that has must not wait
for another, or all of them could wait for each other."""


def principal_key(exchange: Exchange | None) -> str:
    """Return who takes turns with others: a principal, or an address without one."""
    if exchange is None:
        return ""
    return quota_key_of(getattr(exchange.principal, "key", None), exchange.address)


LINGER_S = 0.1
"""How long a call keeps its thread after a query, should another follow. Our own limit."""


class ThreadLease(Record):
    """Let the async ORM of a call have a thread, in which its queries run one after the other.

    The first query takes the thread from the pool. It goes back soon after the last one, at once
    when other work waits for it, and with the end of the call. An open transaction, or a query whose
    rows are still being read, as by `aiterator()`, keeps it until then.

    Use:
        with ThreadLease(pool, exchange):
            ...  # on the event loop

    Args:
        pool: where threads come from; None: queries run where they would without a lease.
        exchange: the call; None: nobody's.
        limit_s: how long a query may wait and run; None: for as long as it is awaited.
    """

    pool: LoopPool | None
    exchange: Exchange | None
    limit_s: float | None = None
    _is_over: bool = False
    _turn: _Turn | None = None
    _tokens: Any = None
    outer: ThreadLease | None = None
    """The lease of the call that made this one, if there is one."""

    def __enter__(self) -> None:
        outer = _sensitive.get(None)
        # Another one is Django's own around a view, or a site's: its thread is theirs to choose.
        if self.pool is not None and (outer is None or outer is _context):
            self.outer = _lease.get()
            self._tokens = (_sensitive.set(_context), _lease.set(self))

    def __exit__(self, *_error: object) -> None:
        if self._tokens is not None:
            try:
                _sensitive.reset(self._tokens[0])
                _lease.reset(self._tokens[1])
            except ValueError:
                # The coroutine was closed from elsewhere, and its context has gone.
                pass
        self._is_over = True
        self.exchange = self.outer = None
        if self._turn is not None:
            self._turn.end()

    @property
    def is_busy(self) -> bool:
        """Whether the call's thread runs something now."""
        return self._turn is not None and self._turn.is_busy

    def submit(self, pool: LoopPool, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Have a query run in the call's thread; return a future of the running event loop."""
        work, turn = AwaitedWork(function), self._turn
        if self.limit_s is not None:
            work.fail_after(self.limit_s, StoreUnavailable)
        if turn is None or not turn.add(work):
            turn = _Turn(pool, self.exchange, work)
            if self._is_over:
                # Of something that outlives its call, as tasks of the event loop do.
                turn.end()
            try:
                has_thread = pool.put(turn)
            except QueueFull:
                raise ToolError(BUSY) from None
            if not has_thread and self.exchange is not None:
                self.exchange.waits_for_thread = True
            if not self._is_over:
                self._turn = turn
        if turn.began_s is None:
            work.done.add_done_callback(partial(turn.withdraw, work))
        return work.done


class _Turn(Work):
    """One period in which a call has a thread."""

    def __init__(self, pool: LoopPool, exchange: Exchange | None, first: AwaitedWork) -> None:
        self._pool = pool
        self._exchange = exchange
        self._works = deque([first])
        self._changed = threading.Condition()
        self._is_open = True
        self._is_over = False
        self._is_wanted = False
        self.is_busy = False

    @property
    def key(self) -> Hashable:
        """See `Work.key`."""
        return principal_key(self._exchange)

    @property
    def is_abandoned(self) -> bool:
        """See `Work.is_abandoned`."""
        return self._is_over

    def describe(self) -> str:
        """See `Work.describe`."""
        exchange = self._exchange
        if exchange is None:
            return "queries of an async call that has ended"
        return f"queries of an async call by {principal_key(exchange)}"

    def add(self, work: AwaitedWork) -> bool:
        """Have one more query run in the thread; return False if it was given back."""
        with self._changed:
            if not self._is_open:
                return False
            self._works.append(work)
            self._changed.notify()
            return True

    def end(self) -> None:
        """Keep the thread no longer than for what is queued: the call is over."""
        with self._changed:
            self._is_over = True
            self._exchange = None
            self._changed.notify()

    def give_back(self) -> None:
        """See `Idler.give_back`."""
        with self._changed:
            self._is_wanted = True
            self._changed.notify()

    def withdraw(self, work: AwaitedWork, _done: object) -> None:
        """Drop a query that was cancelled while it waited for a thread."""
        with self._changed:
            if work in self._works:
                self._works.remove(work)
            if self._is_open and not self._works and self._pool.withdraw(self):
                self._is_open = False

    def run(self) -> None:
        """See `Work.run`."""
        # Loads the models' machinery, which importing a server must not.
        from django_mcp.handlers.db_connections import usable_connections

        exchange = self._exchange
        if exchange is not None:
            exchange.waits_for_thread = False
        del exchange
        try:
            with usable_connections() as is_in_use:
                while (work := self._next(is_in_use)) is not None:
                    self.is_busy = True
                    work.run()
                    self.is_busy = False
                    del work
        except BaseException as error:
            with self._changed:
                self._is_open = False
            for left in self._works:
                left.fail(error)
            raise

    def _next(self, is_in_use: Callable[[], bool]) -> AwaitedWork | None:
        """Wait for the next query; None: the thread goes back."""
        with self._changed:
            until_s = time.monotonic() + LINGER_S
            while not self._works:
                if self._is_over or not (is_in_use() or self._may_idle(until_s)):
                    self._is_open = False
                    break
                self._changed.wait(LINGER_S)
            self._pool.end_idling(self)
            self._is_wanted = False
            return self._works.popleft() if self._works else None

    def _may_idle(self, until_s: float) -> bool:
        return not self._is_wanted and time.monotonic() < until_s and self._pool.begin_idling(self)


def is_awaited_in_lease() -> bool:
    """Return whether the running code was called from a leased thread, which waits for it.

    To be asked inside of `async_to_sync`: it is so if that is inside of `sync_to_async`. The thread can run what the code needs
    one for; were the code to wait for another thread of the pool, all of them could wait for each other.
    """
    lease = _lease.get()
    while lease is not None:
        if lease.is_busy:
            return True
        lease = lease.outer
    return False


class _LeasedThreads(Executor):
    """What asgiref asks for a thread inside of a lease."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Have `function` run in the thread of the call that asks; return a future."""
        call = partial(function, *args, **kwargs)
        callers = AsyncToSync.loop_thread_executors.get(asyncio.get_running_loop())
        if callers is not None:
            # A synchronous caller waits for this event loop, as in a test: its thread does the work.
            return callers.submit(call)
        lease = _lease.get()
        pool = None if lease is None or thread_user.get() is not None else lease.pool
        if lease is None or pool is None:
            return SyncToAsync.single_thread_executor.submit(_run_usably, call)
        return lease.submit(pool, call)


def _run_usably(call: Callable[[], Any]) -> Any:
    from django_mcp.handlers.db_connections import usable_connections

    with usable_connections():
        return call()


_sensitive = SyncToAsync.thread_sensitive_context
_lease: contextvars.ContextVar[ThreadLease | None] = contextvars.ContextVar(
    "django_mcp_lease", default=None
)


def _enter_once() -> ThreadSensitiveContext:
    """Return a context of asgiref's that leads to the leases, entered without a task.

    Entering one costs several microseconds; having a call be in it, a fraction of one. So there is
    one for all calls, and the executor finds out which call asks.
    """
    context = ThreadSensitiveContext(executor=_LeasedThreads())
    enter: Any = context.__aenter__
    entering = enter()
    try:
        contextvars.Context().run(entering.send, None)
    except StopIteration:
        return context
    raise RuntimeError("ThreadSensitiveContext waits when it is entered")


_context = _enter_once()
