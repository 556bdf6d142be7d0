"""LoopPool: a bounded pool of threads whose work is awaited on an event loop, at little cost.

`ThreadPoolExecutor` creates a future with a lock and a condition for each piece of work, and the event
loop another one. Here there is only the loop's.

ThreadJob without a free thread waits in a queue that takes turns between principals, so that many entries of
one do not delay the others.
"""

from __future__ import annotations

import asyncio
import atexit
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from django_mcp.log import logger
from django_mcp.process import reset_on
from django_mcp.server.exchange.call import Call
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.quotas import Limits, QuotaMeter
from django_mcp.server.exchange.timers import call_in_loop

T = TypeVar("T", bound=Hashable)

REPORT_EVERY_S = 60.0
MAX_REPORTED = 20
"""How often an exhausted pool is logged, and with how many of its threads."""

EXHAUSTED_AFTER_S = 5.0
"""A pool is exhausted if work has waited for so long while no thread became free."""


class QueueFull(Exception):
    """A key, or all keys together, have as many entries as they may."""


class FairQueue(Generic[T]):
    """Entries by key. Keys take turns; entries of one key are first come, first served.

    It is not safe for threads: its owner holds a lock. If it has limits, its keys are quota keys.
    """

    def __init__(self, limits: Limits | None = None, anonymous_share: float = 1.0) -> None:
        self._limits = limits
        self._meter = QuotaMeter()
        self._anonymous_share = anonymous_share
        # With the bytes that each holds of what clients sent.
        self._entries: OrderedDict[Hashable, OrderedDict[T, int]] = OrderedDict()
        self.count = 0
        self.bytes = 0

    def put(self, key: Hashable, entry: T, size: int = 0) -> None:
        """Add an entry at the end of its key's line (or raise `QueueFull`); a new key goes last.

        Args:
            size: how many bytes it holds of what a client sent, if these are many.
        """
        if self._limits is not None:
            taken = self._meter.take(self._limits, str(key), size, share=self._anonymous_share)
            if taken is not None:
                raise QueueFull
        self._entries.setdefault(key, OrderedDict())[entry] = size
        self.count += 1
        self.bytes += size

    def take(self) -> T | None:
        """Remove and return the first entry of the key whose turn it is; None: there is none."""
        if not self.count:
            return None
        key, entries = self._entries.popitem(last=False)
        entry, size = entries.popitem(last=False)
        if entries:
            self._entries[key] = entries
        self._count_out(key, size)
        return entry

    def discard(self, key: Hashable, entry: T) -> bool:
        """Remove an entry if it is there, and return whether it was."""
        entries = self._entries.get(key)
        if entries is None or entry not in entries:
            return False
        size = entries.pop(entry)
        if not entries:
            del self._entries[key]
        self._count_out(key, size)
        return True

    def _count_out(self, key: Hashable, size: int) -> None:
        self.count -= 1
        self.bytes -= size
        if self._limits is not None:
            self._meter.give_back(str(key), size)


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolState:
    """The state of a pool.

    Attributes:
        waiting: pieces of work without a thread.
        short_s: for how long work has waited while no thread became free; None: no work waits.
        running: the work of each thread and its seconds so far, the longest first.
    """

    max_threads: int
    waiting: int
    short_s: float | None
    running: list[tuple[str, float]]

    @property
    def is_exhausted(self) -> bool:
        """Whether work that does not end holds all threads."""
        return self.short_s is not None and self.short_s >= EXHAUSTED_AFTER_S


class ThreadJob:
    """A piece of work for a thread of a pool: a function, of which nobody awaits the result."""

    began_s: float | None = None
    """When a thread took it, by the monotonic clock; None: it waits."""
    queued_as: Hashable = None
    """Its key at the time when it had to wait."""
    size = 0
    """The bytes that it holds of what a client sent, if these are many."""

    def __init__(self, function: Callable[[], object], size: int = 0) -> None:
        self._function = function
        self.size = size

    @property
    def key(self) -> Hashable:
        """The key of its caller in the queue."""
        return None

    @property
    def is_abandoned(self) -> bool:
        """Whether its result is no longer awaited."""
        return False

    @property
    def exchange(self) -> Exchange | None:
        """The exchange that it is for, as long as that needs it."""
        return None

    @property
    def call(self) -> Call | None:
        """The call whose handler it runs."""
        return None

    def describe(self) -> str:
        """Return a description for operators."""
        return "background work"

    def run(self) -> None:
        """Do it, in the thread."""
        self._function()


_pools: WeakSet[LoopPool] = WeakSet()


def _close_pools() -> None:
    for pool in list(_pools):
        pool.close()


# Functions of `atexit` are called after the interpreter has waited for the threads. CPython's own pools
# use this function, and there is no public one.
getattr(threading, "_register_atexit", atexit.register)(_close_pools)
reset_on(_pools.clear, fork=True)


class LoopPool(Executor):
    """Runs work in at most `max_threads` threads; see `loop.run_in_executor`.

    Up to `replacements` more threads may run in place of threads whose work was abandoned. The log
    names the `setting`. Each thread calls `prepare` first, which must not raise.
    """

    def __init__(
        self,
        max_threads: int,
        name: str,
        *,
        setting: str | None = None,
        replacements: int = 0,
        make_work: Callable[[Callable[[], Any]], AwaitedJob] | None = None,
        waiting: FairQueue[ThreadJob] | None = None,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        self.max_threads = max_threads
        self._name = name
        self._setting = setting
        self._reported_s: float | None = None
        self._replacements = replacements
        self._make_job = make_work or AwaitedJob
        self._prepare = prepare
        self._lock = threading.Lock()
        self._queue: FairQueue[ThreadJob] = waiting or FairQueue()
        self._thread_count = 0
        self._idle_count = 0
        self._is_closed = False
        self.closed_s: float | None = None
        """When it was closed, by the monotonic clock."""
        # Without timeouts: with several threads, `get` can continue with a negative one.
        self._handed_over: queue.SimpleQueue[ThreadJob | None] = queue.SimpleQueue()
        self._running: dict[ThreadJob, None] = {}
        self._short_since_s: float | None = None
        _pools.add(self)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run `function` in a thread; return a future of the running event loop."""
        call = partial(function, *args, **kwargs) if args or kwargs else function
        job = self._make_job(call)
        if not self.put(job):
            # Cancelled work must not stay in the queue, with everything that it refers to.
            job.done.add_done_callback(lambda _done: self.withdraw(job))
        return job.done

    def close(self) -> None:
        """Let the threads end: idle ones now, others after their work."""
        with self._lock:
            self._is_closed, self.closed_s = True, time.monotonic()
            count, self._idle_count = self._idle_count, 0
            self._thread_count -= count
        for _ in range(count):
            self._handed_over.put(None)

    def leave(self, function: Callable[[], object], size: int = 0) -> None:
        """Run `function` when a thread is free, without a result; exceptions are logged."""
        self.put(ThreadJob(function, size))

    def put(self, job: ThreadJob) -> bool:
        """Give work to a thread, or queue it (or raise `QueueFull`); return whether a thread has it."""
        with self._lock:
            if not self._idle_count and self._thread_count >= self._find_limit():
                job.queued_as = job.key
                self._queue.put(job.queued_as, job, job.size)
                if self._short_since_s is None:
                    self._short_since_s = time.monotonic()
                return False
            job.began_s = time.monotonic()
            self._running[job] = None
            if self._idle_count:
                self._idle_count -= 1
                self._handed_over.put(job)
                return True
            self._thread_count += 1
        self._start(job)
        return True

    def withdraw(self, job: ThreadJob) -> bool:
        """Remove work from the queue; return whether it was there."""
        with self._lock:
            has_waited = job.began_s is None and self._queue.discard(job.queued_as, job)
        if has_waited and self._setting is not None:
            self._report(self._setting)
        return has_waited

    def replace_abandoned(self) -> None:
        """Start a thread for waiting work, if one may replace a thread with abandoned work."""
        with self._lock:
            if not self._queue.count or self._thread_count >= self._find_limit():
                return
            self._thread_count += 1
        # If it cannot start, the work waits for another thread.
        with suppress(RuntimeError):
            self._start()

    @property
    def has_waiting(self) -> bool:
        """Whether work waits for a thread."""
        return self._queue.count > 0

    @property
    def waiting_count(self) -> int:
        """How much work waits for a thread."""
        return self._queue.count

    @property
    def waiting_bytes(self) -> int:
        """How many bytes of what clients sent the waiting work holds."""
        return self._queue.bytes

    @property
    def jobs(self) -> list[ThreadJob]:
        """The work of the threads."""
        with self._lock:
            return list(self._running)

    def find_state(self) -> PoolState:
        """Return the state of the pool."""
        now_s = time.monotonic()
        with self._lock:
            working, waiting, since_s = list(self._running), self._queue.count, self._short_since_s
        running = [(job.describe(), now_s - (job.began_s or now_s)) for job in working]
        return PoolState(
            max_threads=self.max_threads,
            waiting=waiting,
            short_s=None if since_s is None else now_s - since_s,
            running=sorted(running, key=lambda each: -each[1]),
        )

    def _report(self, setting: str) -> None:
        """Log the work of all threads if the pool is exhausted, unless that was done recently."""
        now_s, state = time.monotonic(), self.find_state()
        is_due = self._reported_s is None or now_s - self._reported_s >= REPORT_EVERY_S
        if not (state.is_exhausted and is_due):
            return
        self._reported_s = now_s
        running = [f"{what} for {seconds:.0f} s" for what, seconds in state.running]
        if len(running) > MAX_REPORTED:
            running[MAX_REPORTED:] = [f"{len(running) - MAX_REPORTED} more"]
        logger.error(
            "A call had no thread: none of %d came free for %.0f s, and %d more calls wait. The threads "
            "run: %s. Find out why these do not end, give them a timeout of their own towards what "
            "they wait for, or raise DJANGO_MCP[%r].",
            state.max_threads,
            state.short_s,
            state.waiting,
            "; ".join(running),
            setting,
        )

    # -- with the lock

    def _find_limit(self) -> int:
        """Return how many threads there may be now, with those in place of abandoned ones."""
        if self._thread_count < self.max_threads or not self._replacements:
            return self.max_threads
        abandoned = sum(job.is_abandoned for job in self._running)
        return self.max_threads + min(self._replacements, abandoned)

    # -- in the threads

    def _start(self, *first: ThreadJob) -> None:
        """Start a thread that has been counted, with the work that it has or without any."""
        try:
            name = f"{self._name}_{self._thread_count}"
            # A thread holds its arguments for as long as it runs. The interpreter waits for it at the
            # end, whatever thread has started it.
            args = (list(first),)
            threading.Thread(target=self._serve, args=args, name=name, daemon=False).start()
        except RuntimeError:
            # The process ends, or may have no more threads.
            with self._lock:
                self._thread_count -= 1
                for job in first:
                    del self._running[job]
            raise

    def _serve(self, first: list[ThreadJob]) -> None:
        if self._prepare is not None:
            self._prepare()
        job, stays = (first.pop(), True) if first else self._finish(None)
        # While it waits for more, it holds nothing of what it did.
        while job is not None or stays:
            job = job or self._handed_over.get()
            if job is None:
                return
            try:
                job.run()
            except BaseException:
                # Also an exit, since the counts must stay right.
                logger.exception("Background work failed")
            job, stays = self._finish(job)

    def _finish(self, job: ThreadJob | None) -> tuple[ThreadJob | None, bool]:
        """Return the next work, and whether the thread waits if there is none."""
        with self._lock:
            if job is not None:
                del self._running[job]
            is_surplus = self._thread_count > self._find_limit()
            if is_surplus or (self._is_closed and not self._queue.count):
                self._thread_count -= 1
                return None, False
            following = self._queue.take()
            self._short_since_s = time.monotonic() if self._queue.count else None
            if following is None:
                self._idle_count += 1
            else:
                following.began_s = time.monotonic()
                self._running[following] = None
            return following, True


class AwaitedJob(ThreadJob):
    """A function, and the future of its result on an event loop."""

    is_deferred = False
    """Whether to do it also when nobody awaits its result any more."""

    def __init__(self, function: Callable[[], Any], size: int = 0) -> None:
        super().__init__(function, size)
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[Any] = self._loop.create_future()

    @property
    def is_abandoned(self) -> bool:
        return self.done.cancelled()

    def fail_after(self, delay_s: float, error: type[Exception]) -> None:
        """Raise `error` where the result is awaited, unless there is one by then."""
        timer = self._loop.call_later(delay_s, self._settle, self.done.set_exception, error())
        self.done.add_done_callback(lambda _done: timer.cancel())

    def run(self) -> None:
        if self.done.done() and not self.is_deferred:
            return
        try:
            value = self._function()
        except StopIteration as error:
            # A future cannot carry it, since it would end the coroutine that awaits it.
            wrapped = RuntimeError("StopIteration was raised in a thread")
            wrapped.__cause__ = error
            self.fail(wrapped)
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            self.fail(error)
        else:
            call_in_loop(self._loop, self._settle, self.done.set_result, value)

    def fail(self, error: BaseException) -> None:
        """Raise `error` where the result is awaited. From any thread."""
        call_in_loop(self._loop, self._settle, self.done.set_exception, error)

    def _settle(self, settle: Callable[[Any], None], outcome: Any) -> None:
        if not self.done.done():
            settle(outcome)
