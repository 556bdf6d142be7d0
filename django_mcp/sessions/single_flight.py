"""Share the result of concurrent identical queries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

__all__ = ["Sharing"]

T = TypeVar("T")


class Sharing(Generic[T]):
    """Run a query once for all callers that come before its result. The result is not kept.

    Cached values of a busy session expire for all its calls at the same moment.
    """

    def __init__(self) -> None:
        # Under WSGI each request has an event loop of its own, and can only await that loop's tasks.
        self._asked: dict[tuple[asyncio.AbstractEventLoop, str], asyncio.Task[T]] = {}

    async def ask(self, question: str, find: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of `find`, or raise its error, for all concurrent calls with `question`."""
        loop = asyncio.get_running_loop()
        key = (loop, question)
        task = self._asked.get(key)
        if task is None:
            # A separate task, so that cancelling the first caller does not affect the others.
            task = self._asked[key] = loop.create_task(find())
            task.add_done_callback(lambda done: self._forget(key, done))
        return await asyncio.shield(task)

    def _forget(self, key: tuple[asyncio.AbstractEventLoop, str], done: asyncio.Task[T]) -> None:
        del self._asked[key]
        if not done.cancelled():
            # Retrieved, in case nothing awaits it any more.
            done.exception()
