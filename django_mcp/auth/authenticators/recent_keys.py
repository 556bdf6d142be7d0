"""A bounded memory of keys, which forgets the oldest first."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable

__all__ = ["RecentKeys"]


class RecentKeys:
    """Remembers the keys that were added last.

    Args:
        max_age_s: how long a key is remembered.
        max_keys: how many keys are remembered.
    """

    def __init__(self, *, max_age_s: float, max_keys: int) -> None:
        self._max_age_s = max_age_s
        self._max_keys = max_keys
        self._expires_at: dict[Hashable, float] = {}
        self._lock = threading.Lock()

    def __contains__(self, key: Hashable) -> bool:
        expires_at = self._expires_at.get(key)
        return expires_at is not None and time.monotonic() < expires_at

    def add(self, key: Hashable) -> None:
        """Remember a key from now on."""
        with self._lock:
            self._expires_at.pop(key, None)
            self._expires_at[key] = time.monotonic() + self._max_age_s
            while len(self._expires_at) > self._max_keys:
                del self._expires_at[next(iter(self._expires_at))]

    def discard(self, key: Hashable) -> None:
        """Forget a key, if it is remembered."""
        with self._lock:
            self._expires_at.pop(key, None)
