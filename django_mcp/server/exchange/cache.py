"""A small bounded cache that forgets what was not used for longest."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable


class BoundedCache:
    """Map keys to encoded answers; at most `limit` of them."""

    __slots__ = ("_found", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._found: OrderedDict[Hashable, bytes] = OrderedDict()

    def get(self, key: Hashable) -> bytes | None:
        """Return what is kept under `key`; None when there is nothing."""
        value = self._found.get(key)
        if value is not None:
            self._found.move_to_end(key)
        return value

    def put(self, key: Hashable, value: bytes) -> None:
        """Keep `value` under `key`."""
        self._found[key] = value
        if len(self._found) > self._limit:
            self._found.popitem(last=False)
