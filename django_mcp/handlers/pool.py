"""LoopPool: a bounded pool of threads whose work is awaited on an event loop, at little cost.

`ThreadPoolExecutor` gives each piece of work a future with a lock and a condition, and the event
loop another one that follows it. Here there is only the loop's. It still owns the threads, and so
their end with the process.

Many threads help where they wait for something. Where they compute, all but one wait for the
interpreter's lock, and pay for it. So beyond a few, threads take part only while the process has
processor time to spare.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

__all__ = ["LoopPool"]

logger = logging.getLogger("django_mcp")

LINGER_S = 0.1
"""A thread that has worked waits this long for more before it goes back to the executor, which
alone can end it: so long may the end of the process be held up. Ours."""

FEW = 6
"""So many threads take part whatever the load. With 16 clients whose calls make one query each, 4 to
8 cost the same, and 16 a sixth more. Ours."""

PATIENCE_S = 0.1
"""Work that has waited for so long gets a thread even so: those at work may be those who wait."""

LOOK_EVERY_S = 0.02
SATURATED = 0.8
"""Of a processor; with the interpreter's lock one is all there is. Ours."""


class LoopPool(ThreadPoolExecutor):
    """Run work in at most `max_threads` threads; see `loop.run_in_executor`."""

    def __init__(self, max_threads: int, name: str) -> None:
        super().__init__(max_threads, thread_name_prefix=name)
        self._max_threads = max_threads
        self._waiting: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._counts = threading.Lock()
        self._unfinished = 0
        self._working = 0
        self._load = _Load()

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Have `function` run in a thread; return a future of the running event loop."""
        work = _Work(function, args, kwargs)
        if not self.leave(work):
            work.hurry_every(PATIENCE_S, self._add_thread)
        return work.done

    def leave(self, function: Callable[[], object]) -> bool:
        """Have `function` run when a thread is free; nobody waits for it, and what it raises is logged.

        Returns:
            Whether there are threads for all the work. Only then is one sure to come for this: of more
            than a few, each may go after what it does now.
        """
        with self._counts:
            self._unfinished += 1
            self._waiting.put(function)
            is_short = self._working < min(self._unfinished, self._max_threads)
            if is_short and self._working >= FEW and self._load.is_saturated():
                return False
            self._working += is_short
            is_enough = self._working >= self._unfinished
        if is_short:
            super().submit(self._work)
        return is_enough

    def _add_thread(self) -> None:
        with self._counts:
            if self._working >= min(self._unfinished, self._max_threads):
                return
            self._working += 1
        super().submit(self._work)

    def _work(self) -> None:
        while True:
            try:
                function = self._waiting.get(timeout=LINGER_S)
            except queue.Empty:
                with self._counts:
                    # Or else it came at this moment, and counts on this thread.
                    if self._waiting.empty():
                        self._working -= 1
                        return
                continue
            try:
                function()
            except BaseException:
                # Even an exit: the counts below are what the next work relies on.
                logger.exception("What was left for a thread failed")
            # What a call holds must not live until the next one comes.
            del function
            with self._counts:
                self._unfinished -= 1
                if self._working > FEW and self._load.is_saturated():
                    self._working -= 1
                    return


class _Load:
    """Whether this process uses all the processor time that it can; asked for under a lock."""

    __slots__ = ("_cpu_s", "_is_saturated", "_looked_s")

    def __init__(self) -> None:
        self._looked_s = time.monotonic()
        self._cpu_s = time.process_time()
        self._is_saturated = False

    def is_saturated(self) -> bool:
        """Tell of the last moments, or of the time since anybody asked."""
        now_s = time.monotonic()
        passed_s = now_s - self._looked_s
        if passed_s >= LOOK_EVERY_S:
            cpu_s = time.process_time()
            self._is_saturated = _HAS_LOCK and cpu_s - self._cpu_s > SATURATED * passed_s
            self._looked_s, self._cpu_s = now_s, cpu_s
        return self._is_saturated


_HAS_LOCK = getattr(sys, "_is_gil_enabled", lambda: True)()


class _Work:
    """What is to be done, and the future that tells its event loop what came of it."""

    __slots__ = ("_args", "_function", "_hurry", "_kwargs", "_loop", "done", "has_begun")

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self._function, self._args, self._kwargs = function, args, kwargs
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[Any] = self._loop.create_future()
        self.has_begun = False
        self._hurry: asyncio.TimerHandle | None = None

    def hurry_every(self, interval_s: float, hurry: Callable[[], None]) -> None:
        """Call `hurry` again and again until this has begun: the thread it adds may take other work."""

        def look() -> None:
            if not self.has_begun and not self.done.cancelled():
                hurry()
                self.hurry_every(interval_s, hurry)

        self._hurry = self._loop.call_later(interval_s, look)

    def __call__(self) -> None:
        self.has_begun = True
        if self.done.cancelled():
            return
        try:
            value = self._function(*self._args, **self._kwargs)
        except StopIteration as error:
            # A future cannot carry it, since it would end the coroutine that awaits it.
            told = RuntimeError("StopIteration was raised in a thread")
            told.__cause__ = error
            self._tell(self.done.set_exception, told)
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            self._tell(self.done.set_exception, error)
        else:
            self._tell(self.done.set_result, value)

    def _tell(self, settle: Callable[[Any], None], outcome: Any) -> None:
        # Without a loop, which may be closed by now, nobody waits.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._settle, settle, outcome)

    def _settle(self, settle: Callable[[Any], None], outcome: Any) -> None:
        if self._hurry is not None:
            self._hurry.cancel()
        if not self.done.done():
            settle(outcome)
