"""A queue that takes turns between principals, so that many entries of one do not delay the others."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from django_mcp.server.exchange.quotas import Limits, QuotaMeter

T = TypeVar("T", bound=Hashable)


class QueueFull(Exception):
    """A key, or all keys together, have as many entries as they may."""


class FairQueue(Generic[T]):
    """Entries by key. Keys take turns; entries of one key are first come, first served.

    It is not safe for threads: its owner holds a lock. If it has limits, its keys are quota keys.
    """

    def __init__(self, limits: Limits | None = None, anonymous_share: float = 1.0) -> None:
        self._meter = None if limits is None else QuotaMeter(limits)
        self._anonymous_share = anonymous_share
        self._entries: OrderedDict[Hashable, OrderedDict[T, None]] = OrderedDict()
        self.count = 0

    def put(self, key: Hashable, entry: T) -> None:
        """Add an entry at the end of its key's line (or raise `QueueFull`); a new key goes last."""
        if self._meter is not None:
            share = self._anonymous_share
            if self._meter.take(str(key), 0, anonymous_share=share) is not None:
                raise QueueFull
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
        self._count_out(key)
        return entry

    def discard(self, key: Hashable, entry: T) -> bool:
        """Remove an entry if it is there, and return whether it was."""
        entries = self._entries.get(key)
        if entries is None or entry not in entries:
            return False
        del entries[entry]
        if not entries:
            del self._entries[key]
        self._count_out(key)
        return True

    def _count_out(self, key: Hashable) -> None:
        self.count -= 1
        if self._meter is not None:
            self._meter.give_back(str(key), 0)
