"""Objects that each process keeps in memory: its id, objects made once, values that expire, and queries that callers share."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
import uuid
from collections.abc import Callable, Collection, Coroutine, Hashable
from functools import cache
from typing import Any, Generic, TypeVar

from django.core.signals import setting_changed

from django_mcp.log import logger

T = TypeVar("T")


def reset_on(
    reset: Callable[[], object], *, settings: Collection[str] = (), fork: bool = False
) -> None:
    """Call a function that forgets something when the settings that it was made from change, as in tests.

    With `fork`, also in the child of a fork: threads, connections and the state of a lock stay behind in
    the parent.
    """

    def on_change(*, setting: str, **_kwargs: object) -> None:
        if setting in settings:
            reset()

    if settings:
        setting_changed.connect(on_change, weak=False)
    if fork and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=reset)


_at_end: list[Callable[[], object]] = []


def at_end(write: Callable[[], object]) -> None:
    """Call a function at the end of this process, in a thread that may use the database.

    It is called at the exit of the interpreter, and before that where the server tells of its end: uvicorn
    ends by the signal that it was stopped with, so that no exit follows. What it wrote the first time it
    has not to write the second time.
    """
    _at_end.append(write)


@atexit.register
def finish() -> None:
    """Write what is queued in this process: call the functions of `at_end`, the last one first."""
    for write in reversed(_at_end):
        try:
            write()
        except Exception:
            logger.exception("Could not finish before the process ends")


class PerProcess(Generic[T]):
    """An object with threads or connections, which each process makes once, on first use.

    It is `current`, or None until then. A change of one of the `settings` closes it, from any thread.
    """

    def __init__(
        self,
        make: Callable[[], T],
        *,
        settings: Collection[str] = (),
        close: Callable[[T], object] | None = None,
    ) -> None:
        self.current: T | None = None
        self._make = make
        self._close = close
        self._lock = threading.Lock()
        reset_on(self.close, settings=settings)
        reset_on(self._forget, fork=True)

    def get(self) -> T:
        """Return the object of this process."""
        made = self.current
        if made is None:
            with self._lock:
                made = self.current
                if made is None:
                    made = self.current = self._make()
        return made

    def close(self) -> None:
        """Close the object, if there is one."""
        made, self.current = self.current, None
        if made is not None and self._close is not None:
            self._close(made)

    def _forget(self) -> None:
        self.current, self._lock = None, threading.Lock()


class Sharing(Generic[T]):
    """Run a query once for all callers that come before its result. The result is not kept.

    Cached values of a busy session expire for all its calls at the same moment.
    """

    def __init__(self) -> None:
        # Under WSGI each request has an event loop of its own, and can only await that loop's tasks.
        self._asked: dict[tuple[asyncio.AbstractEventLoop, Hashable], asyncio.Task[T]] = {}

    async def ask(self, question: Hashable, find: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of `find`, or raise its error, for all concurrent calls with `question`."""
        loop = asyncio.get_running_loop()
        key = (loop, question)
        task = self._asked.get(key)
        if task is None:
            # A separate task, so that cancelling the first caller does not affect the others.
            task = self._asked[key] = loop.create_task(find())

            def forget(done: asyncio.Task[T]) -> None:
                del self._asked[key]
                # The exception is retrieved, in case nothing awaits it any more.
                _ = done.cancelled() or done.exception()

            task.add_done_callback(forget)
        return await asyncio.shield(task)


@cache
def process_id() -> str:
    """Return the id of this process, a UUID in hex."""
    return uuid.uuid4().hex


reset_on(process_id.cache_clear, fork=True)


class Expiring(Generic[T]):
    """Values by key, each for a limited time. All methods may be called from any thread.

    Beyond `max_count`, those that were set first are dropped.
    """

    def __init__(self, max_count: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_count = max_count
        self._clock = clock
        self._values: dict[Hashable, tuple[float, T]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return how many values there are, with those that have expired."""
        return len(self._values)

    def get(self, key: Hashable) -> T | None:
        """Return the value of a key; None: there is none, or it has expired."""
        value = self._values.get(key)
        return value[1] if value is not None and self._clock() < value[0] else None

    def set(self, key: Hashable, value: T, max_age_s: float) -> None:
        """Set the value of a key for so many seconds."""
        with self._lock:
            self._values.pop(key, None)
            self._values[key] = (self._clock() + max_age_s, value)
            while len(self._values) > self._max_count:
                del self._values[next(iter(self._values))]

    def discard(self, key: Hashable) -> None:
        """Drop the value of a key, if there is one."""
        with self._lock:
            self._values.pop(key, None)

    def clear(self) -> None:
        """Drop all values."""
        with self._lock:
            self._values.clear()

    def find_all(self) -> list[tuple[Hashable, T]]:
        """Return the keys and values that have not expired."""
        now_s = self._clock()
        with self._lock:
            return [
                (key, value) for key, (until_s, value) in self._values.items() if now_s < until_s
            ]
