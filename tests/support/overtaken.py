"""A queue whose thread empties it between a look at its length and what is then done."""

from __future__ import annotations

import threading
from collections import deque
from typing import TypeVar

T = TypeVar("T")


class Overtaken(deque[T]):
    """Lets its thread go on, and empty it, within the next look of another thread at its length.

    Args:
        thread: the name of the thread that empties it.

    Attributes:
        goes_on: what the thread waits for; None: it is not overtaken.
    """

    def __init__(self, thread: str) -> None:
        super().__init__()
        self.goes_on: threading.Event | None = None
        self._thread = thread
        self._emptied = threading.Semaphore(0)

    def __len__(self) -> int:
        length = super().__len__()
        if threading.current_thread().name == self._thread:
            if not length:
                self._emptied.release()
        elif self.goes_on is not None:
            self.goes_on.set()
            self.goes_on = None
            # The thread also wakes once more for what was put while it worked.
            for _ in range(2):
                assert self._emptied.acquire(timeout=30)
        return length
