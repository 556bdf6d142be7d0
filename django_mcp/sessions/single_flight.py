"""Sharing: those who ask the same question at the same time wait for one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

__all__ = ["Sharing"]

T = TypeVar("T")


class Sharing(Generic[T]):
    """Ask once for all who come before the answer does. An answer is not kept.

    What a process believes of a busy session grows old for all its calls at the same moment.
    """

    def __init__(self) -> None:
        # Under WSGI each request has an event loop of its own, which can wait for its own only.
        self._asked: dict[tuple[asyncio.AbstractEventLoop, str], asyncio.Task[T]] = {}

    async def ask(self, question: str, find: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return what `find` returns, or raise what it raises, to all who ask `question` now."""
        loop = asyncio.get_running_loop()
        key = (loop, question)
        task = self._asked.get(key)
        if task is None:
            # A task of its own: whoever came first may be cancelled, and the others not.
            task = self._asked[key] = loop.create_task(find())
            task.add_done_callback(lambda done: self._forget(key, done))
        return await asyncio.shield(task)

    def _forget(self, key: tuple[asyncio.AbstractEventLoop, str], done: asyncio.Task[T]) -> None:
        del self._asked[key]
        if not done.cancelled():
            # Taken note of, should nobody wait any more.
            done.exception()
