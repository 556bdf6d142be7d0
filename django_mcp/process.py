"""This process: its id, objects made once in it, shared queries, and rate-limited warnings."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Collection, Coroutine, Hashable
from functools import cache
from typing import Any, Generic, TypeVar

from django.core.signals import setting_changed

from django_mcp.unmigrated import report_unmigrated

logger = logging.getLogger("django_mcp")

T = TypeVar("T")


def reset_on(
    reset: Callable[[], object], *, settings: Collection[str] = (), fork: bool = False
) -> None:
    """Call a function when settings change, or in the child of a fork.

    Args:
        reset: forgets it, so that it is made again when it is needed.
        settings: names of Django's settings that it was made from; they change in tests.
        fork: it is not valid in the child of a fork. Threads, connections and the state of a lock
            stay behind in the parent.
    """

    def on_change(*, setting: str, **_kwargs: object) -> None:
        if setting in settings:
            reset()

    if settings:
        setting_changed.connect(on_change, weak=False)
    if fork and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=reset)


class PerProcess(Generic[T]):
    """An object with threads or connections, which each process makes once, on first use.

    Attributes:
        current: the object; None: there is none yet.

    Args:
        make: makes it.
        settings: a change of one of these settings closes it, and it is made again on its next use.
        close: ends its threads, from any thread.
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
        found = self.current
        if found is None:
            with self._lock:
                found = self.current
                if found is None:
                    found = self.current = self._make()
        return found

    def close(self) -> None:
        """Close the object, if there is one."""
        found, self.current = self.current, None
        if found is not None and self._close is not None:
            self._close(found)

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
            task.add_done_callback(lambda done: self._forget(key, done))
        return await asyncio.shield(task)

    def _forget(
        self, key: tuple[asyncio.AbstractEventLoop, Hashable], done: asyncio.Task[T]
    ) -> None:
        del self._asked[key]
        if not done.cancelled():
            # Retrieved, in case nothing awaits it any more.
            done.exception()


class Warner:
    """Logs the same warning at most once in a period."""

    def __init__(self, every_s: float = 60.0) -> None:
        self._every_s = every_s
        self._next_s = 0.0

    def warn(self, text: str, error: object) -> None:
        """Log a warning, unless that was done recently, or the remedy if migrations are missing."""
        if report_unmigrated(error):
            return
        now = time.monotonic()
        if now >= self._next_s:
            self._next_s = now + self._every_s
            logger.warning(text, error)


@cache
def process_id() -> str:
    """Return the id of this process, a UUID in hex."""
    return uuid.uuid4().hex


reset_on(process_id.cache_clear, fork=True)
