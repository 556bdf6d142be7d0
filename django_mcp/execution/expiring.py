"""Expiring: a bounded dictionary whose values expire."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class Expiring(Generic[V]):
    """Values by key, each for a limited time. All methods may be called from any thread.

    Args:
        max_count: how many values there may be; beyond that, those set first are dropped.
        clock: returns seconds.
    """

    def __init__(self, max_count: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_count = max_count
        self._clock = clock
        self._values: dict[Hashable, tuple[float, V]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return how many values there are, with those that have expired."""
        return len(self._values)

    def get(self, key: Hashable) -> V | None:
        """Return the value of a key; None: there is none, or it has expired."""
        found = self._values.get(key)
        return found[1] if found is not None and self._clock() < found[0] else None

    def set(self, key: Hashable, value: V, max_age_s: float) -> None:
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

    def find_all(self) -> list[tuple[Hashable, V]]:
        """Return the keys and values that have not expired."""
        now_s = self._clock()
        with self._lock:
            return [
                (key, value) for key, (until_s, value) in self._values.items() if now_s < until_s
            ]
