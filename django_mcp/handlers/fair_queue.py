"""A queue that takes turns between principals: many entries of one do not hold up the others."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["FairQueue"]

T = TypeVar("T", bound=Hashable)


class FairQueue(Generic[T]):
    """Entries by key. Keys take turns; entries of one key are first come, first served.

    It is not safe for threads: its owner holds a lock.

    Attributes:
        count: how many entries there are.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, OrderedDict[T, None]] = OrderedDict()
        self.count = 0

    def put(self, key: Hashable, entry: T) -> None:
        """Add an entry at the end of its key's line; a new key goes behind all others."""
        self._entries.setdefault(key, OrderedDict())[entry] = None
        self.count += 1

    def take(self) -> T | None:
        """Remove and return the first entry of the key whose turn it is; None: there is none."""
        if not self.count:
            return None
        key, entries = self._entries.popitem(last=False)
        entry, _ = entries.popitem(last=False)
        if entries:
            self._entries[key] = entries
        self.count -= 1
        return entry

    def discard(self, key: Hashable, entry: T) -> bool:
        """Remove an entry if it is there, and return whether it was."""
        entries = self._entries.get(key)
        if entries is None or entry not in entries:
            return False
        del entries[entry]
        if not entries:
            del self._entries[key]
        self.count -= 1
        return True
