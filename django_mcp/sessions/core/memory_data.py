"""The data of a session in the memory of this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from django_mcp.protocol.json import decode
from django_mcp.server.exchange.session import Session
from django_mcp.server.exchange.session_data import (
    SESSION_ENDED,
    NoSession,
    SessionData,
    check_bounds,
)

T = TypeVar("T")


class MemoryData(SessionData):
    """Data in this process. Its synchronous methods work on the event loop as well.

    `charge` takes the bytes by which the data grows, or has shrunk; it may raise `ValueError`. `session`
    is that of the data; None: it never ends.
    """

    __slots__ = ("_charge", "_items", "_session")

    def __init__(
        self,
        items: dict[str, bytes],
        charge: Callable[[int], None] = lambda _size: None,
        session: Session | None = None,
    ) -> None:
        self._items = items
        self._charge = charge
        self._session = session

    def _read(self, key: str | None) -> dict[str, Any]:
        if key is None:
            return {each: decode(value) for each, value in list(self._items.items())}
        value = self._items.get(key)
        return {} if value is None else {key: decode(value)}

    def _write(self, items: Mapping[str, bytes], *, is_new: bool) -> None:
        if self._session is not None and self._session.is_ended:
            raise NoSession(SESSION_ENDED)
        now = {**items, **self._items} if is_new else {**self._items, **items}
        check_bounds(len(now), _count_bytes(now))
        self._charge(_count_bytes(now) - _count_bytes(self._items))
        self._items.update(now)

    def _remove(self, key: str | None) -> bool:
        keys = [known_key for known_key in self._items if key is None or known_key == key]
        self._charge(-_count_bytes({key: self._items.pop(key) for key in keys}))
        return bool(keys)

    async def _run(self, function: Callable[[], T]) -> T:
        return function()


def _count_bytes(items: Mapping[str, bytes]) -> int:
    return sum(len(key) + len(value) for key, value in items.items())
