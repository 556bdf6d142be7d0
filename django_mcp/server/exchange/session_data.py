"""What `ctx.session` is: the user's own data of a session, with the names that Django's have."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, NoReturn, TypeVar

from django_mcp.protocol.json import JSONDecodeError, decode, encode
from django_mcp.server.exchange.quotas import Scope

__all__ = ["MemoryData", "SessionData", "check_count", "check_size", "refuse_data"]

T = TypeVar("T")

MAX_KEY_LENGTH = 200
MAX_VALUE_BYTES = 64 * 1024
MAX_ITEMS = 500
MAX_DATA_BYTES = 1024 * 1024
"""Bounds on what a session holds, so that a client cannot fill the store through a tool. Our own limit."""

_MISSING: Any = object()


class SessionData(MutableMapping[str, Any]):
    """The data of one session, like a dict, in synchronous handlers; asynchronous ones await.

    Values are what JSON can write, and come back as JSON reads them: a date is a string then. A
    value that is changed in place has to be set again.

    Raises:
        KeyError: there is no such key.
        ValueError: a key or a value is too large, no JSON, or one too many.
        RuntimeError: a synchronous method was called on the event loop, where it would block.
    """

    __slots__ = ()

    # -- what a store has to say

    @abstractmethod
    def _read(self, key: str | None) -> dict[str, Any]:
        """Return the item with a key, if there is one; without a key, all items."""

    @abstractmethod
    def _write(self, items: Mapping[str, bytes], *, is_new: bool) -> None:
        """Keep items, encoded; if `is_new` those only that are not there yet."""

    @abstractmethod
    def _remove(self, key: str | None) -> bool:
        """Remove the item with a key and return whether it was there; without a key, all items."""

    @abstractmethod
    async def _run(self, function: Callable[[], T]) -> T:
        """Run `function` where it may block."""

    def _check_thread(self) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        raise RuntimeError(
            "This would block the event loop: in an asynchronous handler await its twin, such as "
            "ctx.session.aget(key) or ctx.session.aset(key, value)."
        )

    # -- for synchronous handlers

    def __getitem__(self, key: str) -> Any:
        """Return the value of a key."""
        self._check_thread()
        return self._read(key)[key]

    def __setitem__(self, key: str, value: Any) -> None:
        """Keep a value."""
        self._check_thread()
        self._write(_encode({key: value}), is_new=False)

    def __delitem__(self, key: str) -> None:
        """Remove a key."""
        self._check_thread()
        if not self._remove(key):
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        """Return whether there is such a key."""
        self._check_thread()
        return isinstance(key, str) and key in self._read(key)

    def __iter__(self) -> Iterator[str]:
        """Go through the keys, as they are now."""
        self._check_thread()
        return iter(self._read(None))

    def __len__(self) -> int:
        """Count the keys."""
        self._check_thread()
        return len(self._read(None))

    def keys(self) -> Any:
        """Return the keys, as they are now."""
        self._check_thread()
        return self._read(None).keys()

    def values(self) -> Any:
        """Return the values, as they are now."""
        self._check_thread()
        return self._read(None).values()

    def items(self) -> Any:
        """Return the items, as they are now."""
        self._check_thread()
        return self._read(None).items()

    def has_key(self, key: str) -> bool:
        """Return whether there is such a key."""
        return key in self

    def pop(self, key: str, default: Any = _MISSING) -> Any:
        """Remove a key and return its value, which nobody else gets."""
        self._check_thread()
        found = self._read(key)
        if key in found and self._remove(key):
            return found[key]
        if default is _MISSING:
            raise KeyError(key)
        return default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Keep a value unless there is one, and return the one that is there then."""
        self._check_thread()
        self._write(_encode({key: default}), is_new=True)
        return self._read(key)[key]

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Keep several values."""
        self._check_thread()
        self._write(_encode(dict(*args, **kwargs)), is_new=False)

    def clear(self) -> None:
        """Remove all keys."""
        self._check_thread()
        self._remove(None)

    # -- for asynchronous handlers

    async def aget(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or `default`."""
        return await self._run(lambda: self.get(key, default))

    async def aset(self, key: str, value: Any) -> None:
        """Keep a value."""
        await self._run(lambda: self.__setitem__(key, value))

    async def apop(self, key: str, default: Any = _MISSING) -> Any:
        """Remove a key and return its value, which nobody else gets."""
        return await self._run(lambda: self.pop(key, default))

    async def asetdefault(self, key: str, default: Any = None) -> Any:
        """Keep a value unless there is one, and return the one that is there then."""
        return await self._run(lambda: self.setdefault(key, default))

    async def aupdate(self, *args: Any, **kwargs: Any) -> None:
        """Keep several values."""
        await self._run(lambda: self.update(*args, **kwargs))

    async def ahas_key(self, key: str) -> bool:
        """Return whether there is such a key."""
        return await self._run(lambda: key in self)

    async def akeys(self) -> Any:
        """Return the keys, as they are now."""
        return await self._run(self.keys)

    async def avalues(self) -> Any:
        """Return the values, as they are now."""
        return await self._run(self.values)

    async def aitems(self) -> Any:
        """Return the items, as they are now."""
        return await self._run(self.items)

    async def aclear(self) -> None:
        """Remove all keys."""
        await self._run(self.clear)


def check_count(count: int) -> None:
    """Refuse to keep more keys than a session holds.

    Raises:
        ValueError: there would be too many.
    """
    if count > MAX_ITEMS:
        raise ValueError(f"A session holds at most {MAX_ITEMS} keys.")


def check_size(size: int) -> None:
    """Refuse to keep more bytes than a session holds.

    Raises:
        ValueError: there would be too many.
    """
    if size > MAX_DATA_BYTES:
        raise ValueError(f"A session holds at most {MAX_DATA_BYTES} bytes of data.")


def refuse_data(scope: Scope) -> NoReturn:
    """Refuse to keep more bytes than the sessions of one caller, or of all, hold together.

    Raises:
        ValueError: always.
    """
    if scope is Scope.OWN:
        raise ValueError(
            "The sessions of this caller hold as many bytes of data together as they can. "
            "Remove some, or keep data of users in a model of your own."
        )
    raise ValueError("All sessions together hold as many bytes of data as they can.")


def _encode(items: Mapping[Any, Any]) -> dict[str, bytes]:
    found = {}
    for key, value in items.items():
        if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY_LENGTH or "\0" in key:
            raise ValueError(
                f"A key is a string of 1 to {MAX_KEY_LENGTH} characters, none of them NUL, not {key!r}."
            )
        try:
            encoded = encode(value)
            decode(encoded)
        except (TypeError, JSONDecodeError) as error:
            raise ValueError(f"The value of {key!r} cannot be kept as JSON: {error}") from error
        if len(encoded) > MAX_VALUE_BYTES:
            raise ValueError(f"The value of {key!r} is larger than {MAX_VALUE_BYTES} bytes.")
        found[key] = encoded
    return found


def _count_bytes(items: Mapping[str, bytes]) -> int:
    return sum(len(key) + len(value) for key, value in items.items())


class MemoryData(SessionData):
    """Data in this process. It does not block, so its methods are good on the event loop too.

    Args:
        items: where it is kept.
        charge: is told by how many bytes the data is about to grow, or has shrunk; may raise `ValueError`.
    """

    __slots__ = ("_charge", "_items")

    def __init__(
        self, items: dict[str, bytes], charge: Callable[[int], None] = lambda _size: None
    ) -> None:
        self._items = items
        self._charge = charge

    def _check_thread(self) -> None:
        pass

    def _read(self, key: str | None) -> dict[str, Any]:
        if key is None:
            return {each: decode(value) for each, value in list(self._items.items())}
        value = self._items.get(key)
        return {} if value is None else {key: decode(value)}

    def _write(self, items: Mapping[str, bytes], *, is_new: bool) -> None:
        check_count(len(self._items.keys() | items.keys()))
        now = {**items, **self._items} if is_new else {**self._items, **items}
        check_size(_count_bytes(now))
        self._charge(_count_bytes(now) - _count_bytes(self._items))
        self._items.update(now)

    def _remove(self, key: str | None) -> bool:
        removed = dict(self._items) if key is None else {key: self._items.get(key, b"")}
        was_there = key is None or key in self._items
        for each in removed:
            self._items.pop(each, None)
        if was_there:
            self._charge(-_count_bytes(removed))
        return was_there

    async def _run(self, function: Callable[[], T]) -> T:
        return function()
