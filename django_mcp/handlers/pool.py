"""LoopPool: a bounded pool of threads whose work is awaited on an event loop, at little cost.

`ThreadPoolExecutor` gives each piece of work a future with a lock and a condition, and the event
loop another one that follows it. Here there is only the loop's. The base class still owns the
threads, and so their end with the process.

Work that finds no free thread waits in a queue that takes turns between principals.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import queue
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol
from weakref import WeakSet

from django_mcp.handlers.fair_queue import FairQueue
from django_mcp.handlers.pool_state import PoolState

__all__ = ["AwaitedWork", "Idler", "LoopPool", "Work"]

logger = logging.getLogger("django_mcp")

REPORT_EVERY_S = 60.0
MAX_REPORTED = 20
"""How often an exhausted pool is logged, and how many of its threads are named. Our own limit."""


class Work:
    """A piece of work for a thread of a pool.

    Attributes:
        began_s: when a thread took it, by the monotonic clock; None: it waits.
        queued_as: its key at the time when it had to wait.
    """

    began_s: float | None = None
    queued_as: Hashable = None

    @property
    def key(self) -> Hashable:
        """Whose it is; asked for when it has to wait."""
        return None

    @property
    def is_abandoned(self) -> bool:
        """Whether nobody waits for it any more."""
        return False

    def describe(self) -> str:
        """Return what it is, for an operator."""
        return "background work"

    def run(self) -> None:
        """Do it, in the thread."""
        raise NotImplementedError


class Idler(Protocol):
    """Holds a thread between two pieces of its work, and can do without it."""

    def give_back(self) -> None:
        """Let the thread go, unless there is work for it by now. From any thread."""
        ...


_pools: WeakSet[LoopPool] = WeakSet()


def _close_pools() -> None:
    for pool in list(_pools):
        pool.close()


# Functions of `atexit` are called after the base class has waited for the threads. It has them end with
# this function itself, and there is no public one.
getattr(threading, "_register_atexit", atexit.register)(_close_pools)


class LoopPool(ThreadPoolExecutor):
    """Run work in at most `max_threads` threads; see `loop.run_in_executor`.

    Args:
        max_threads: how many.
        name: prefix of the threads' names.
        setting: what an operator raises to have more of them, for the log.
        replacements: how many more there may be in place of threads whose work nobody waits for.
        make_work: returns the work that `submit` is asked for.
        waiting: holds the work that waits, and says how much may.
    """

    def __init__(
        self,
        max_threads: int,
        name: str,
        *,
        setting: str | None = None,
        replacements: int = 0,
        make_work: Callable[[Callable[[], Any]], AwaitedWork] | None = None,
        waiting: FairQueue[Work] | None = None,
    ) -> None:
        super().__init__(max_threads + replacements, thread_name_prefix=name)
        self.max_threads = max_threads
        self._setting = setting
        self._reported_s: float | None = None
        self._replacements = replacements
        self._make_work = make_work or AwaitedWork
        self._lock = threading.Lock()
        self._queue: FairQueue[Work] = waiting or FairQueue()
        self._thread_count = 0
        self._idle_count = 0
        self._is_closed = False
        # Without timeouts: in a queue of several threads, `get` can go on with a negative one.
        self._handed_over: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._running: dict[Work, None] = {}
        self._idlers: dict[Idler, None] = {}
        self._short_since_s: float | None = None
        _pools.add(self)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Have `function` run in a thread; return a future of the running event loop."""
        call = partial(function, *args, **kwargs) if args or kwargs else function
        work = self._make_work(call)
        if not self.put(work):
            # What is cancelled while it waits must not stay in the queue, with all that it holds.
            work.done.add_done_callback(lambda _done: self.withdraw(work))
        return work.done

    def shutdown(self, *args: Any, **kwargs: Any) -> None:
        """See `ThreadPoolExecutor.shutdown`."""
        self.close()
        super().shutdown(*args, **kwargs)

    def close(self) -> None:
        """Have idle threads, and others when they come free, go back to the base class to end."""
        with self._lock:
            self._is_closed = True
            count, self._idle_count = self._idle_count, 0
            self._thread_count -= count
        for _ in range(count):
            self._handed_over.put(None)

    def leave(self, function: Callable[[], object]) -> None:
        """Have `function` run when a thread is free; nobody waits, and what it raises is logged."""
        self.put(_LeftWork(function))

    def put(self, work: Work) -> bool:
        """Give work to a thread, or have it wait for one; return whether a thread has it.

        Raises:
            QueueFull: it would have to wait, and too much does.
        """
        idler: Idler | None = None
        with self._lock:
            if self._idle_count:
                self._idle_count -= 1
                work.began_s = time.monotonic()
                self._running[work] = None
                self._handed_over.put(work)
                return True
            if self._has_room():
                self._thread_count += 1
                work.began_s = time.monotonic()
                self._running[work] = None
            else:
                work.queued_as = work.key
                self._queue.put(work.queued_as, work)
                if self._short_since_s is None:
                    self._short_since_s = time.monotonic()
                if not self._idlers:
                    return False
                idler = next(iter(self._idlers))
                del self._idlers[idler]
        if idler is not None:
            idler.give_back()
            return False
        self._start(work)
        return True

    def withdraw(self, work: Work) -> bool:
        """Let work not wait any longer; return whether it did."""
        with self._lock:
            has_waited = work.began_s is None and self._queue.discard(work.queued_as, work)
        if has_waited and self._setting is not None:
            self._report(self._setting)
        return has_waited

    def replace_abandoned(self) -> None:
        """Start a thread for work that waits, if one may take the place of a thread without use."""
        with self._lock:
            if not self._queue.count or not self._has_room():
                return
            work = self._take()
            self._thread_count += 1
        if work is not None:
            self._start(work)

    def begin_idling(self, idler: Idler) -> bool:
        """Note who could do without its thread; return False if it must: work waits already."""
        with self._lock:
            if self._queue.count:
                return False
            self._idlers[idler] = None
            return True

    def end_idling(self, idler: Idler) -> None:
        """Note that it needs its thread, or has let it go."""
        with self._lock:
            self._idlers.pop(idler, None)

    def find_state(self) -> PoolState:
        """Return what the threads do now."""
        now_s = time.monotonic()
        with self._lock:
            running = list(self._running)
            waiting, since_s = self._queue.count, self._short_since_s
        found = [(each.describe(), now_s - (each.began_s or now_s)) for each in running]
        return PoolState(
            max_threads=self.max_threads,
            waiting=waiting,
            short_s=None if since_s is None else now_s - since_s,
            running=sorted(found, key=lambda each: -each[1]),
        )

    def _report(self, setting: str) -> None:
        """Say in the log what holds the threads, when they are exhausted and it was not said lately."""
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

    def _has_room(self) -> bool:
        return self._thread_count < self.max_threads or (
            self._replacements > 0
            and self._thread_count
            < self.max_threads + min(self._replacements, self._count_abandoned())
        )

    def _count_abandoned(self) -> int:
        return sum(work.is_abandoned for work in self._running)

    def _take(self) -> Work | None:
        """Return work that waited; that a thread came free is noted."""
        work = self._queue.take()
        if work is not None:
            work.began_s = time.monotonic()
            self._running[work] = None
        self._short_since_s = time.monotonic() if self._queue.count else None
        return work

    # -- in the threads

    def _start(self, work: Work) -> None:
        try:
            # The base class holds the arguments for as long as the thread serves.
            super().submit(self._serve, [work])
        except RuntimeError:
            # The pool is closed, or the process ends.
            with self._lock:
                self._thread_count -= 1
                self._running.pop(work, None)
            raise

    def _serve(self, first: list[Work]) -> None:
        work: Work | None = first.pop()
        while work is not None:
            try:
                work.run()
            except BaseException:
                # Even an exit: the counts are what the next work relies on.
                logger.exception("Background work failed")
            following, stays = self._finish(work)
            # What a call holds must not live until the next one comes.
            work = None
            work = following if following is not None or not stays else self._handed_over.get()
            del following

    def _finish(self, work: Work) -> tuple[Work | None, bool]:
        """Return the next work, and whether the thread goes on without any."""
        with self._lock:
            del self._running[work]
            if self._is_closed and not self._queue.count:
                self._thread_count -= 1
                return None, False
            if self._thread_count > self.max_threads and not self._is_replacement_needed():
                self._thread_count -= 1
                return None, False
            if self._queue.count:
                return self._take(), True
            self._short_since_s = None
            self._idle_count += 1
            return None, True

    def _is_replacement_needed(self) -> bool:
        return self._thread_count <= self.max_threads + self._count_abandoned()


class AwaitedWork(Work):
    """A function to be run, and the future that tells its event loop what came of it."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[Any] = self._loop.create_future()

    @property
    def is_abandoned(self) -> bool:
        """See `Work.is_abandoned`."""
        return self.done.cancelled()

    def fail_after(self, delay_s: float, error: type[Exception]) -> None:
        """Raise `error` where the result is awaited, unless it is there by then."""
        timer = self._loop.call_later(
            delay_s, lambda: self._settle(self.done.set_exception, error())
        )
        self.done.add_done_callback(lambda _done: timer.cancel())

    def run(self) -> None:
        """See `Work.run`."""
        if self.done.done():
            return
        try:
            value = self._function()
        except StopIteration as error:
            # A future cannot carry it, since it would end the coroutine that awaits it.
            told = RuntimeError("StopIteration was raised in a thread")
            told.__cause__ = error
            self._tell(self.done.set_exception, told)
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            self._tell(self.done.set_exception, error)
        else:
            self._tell(self.done.set_result, value)

    def fail(self, error: BaseException) -> None:
        """Raise `error` where the result is awaited. From any thread."""
        self._tell(self.done.set_exception, error)

    def _tell(self, settle: Callable[[Any], None], outcome: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(self._settle, settle, outcome)
        except RuntimeError:
            # Without a loop, which may be closed by now, nobody waits.
            return

    def _settle(self, settle: Callable[[Any], None], outcome: Any) -> None:
        if not self.done.done():
            settle(outcome)


class _LeftWork(Work):
    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function

    def run(self) -> None:
        self._function()
