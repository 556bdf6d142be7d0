"""The data that handlers keep in a session: `ctx.session`, whatever it is stored in."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextvars import ContextVar
from typing import Any, NoReturn, TypeVar

from django_mcp.protocol.errors import ToolError
from django_mcp.protocol.json import JSONDecodeError, decode, encode
from django_mcp.server.exchange.quotas import QuotaScope
from django_mcp.server.exchange.timers import find_running_loop

T = TypeVar("T")

MAX_KEY_LENGTH = 200
MAX_VALUE_BYTES = 64 * 1024
MAX_ITEMS = 500
MAX_DATA_BYTES = 1024 * 1024
"""Bounds on a session, so that a client cannot fill the store through a tool."""

_MISSING: Any = object()

_WRITING = ("__setitem__", "pop", "setdefault", "update", "clear")


class NoSession(ToolError):
    """There is no session in which data could be kept, or it has ended.

    It is a `ToolError`, since clients may read the text.
    """


SESSION_ENDED = "The session has ended, so nothing can be kept in it any more."
"""What `NoSession` says of a session that has ended during a call."""


def _awaitable(name: str) -> Any:

    async def call(self: SessionData, *args: Any, **kwargs: Any) -> Any:
        run = self._run_write if name in _WRITING else self._run
        return await run(lambda: getattr(self, name)(*args, **kwargs))

    return call


class HandedOut:
    """The lists and dicts that a handler has of its session, with what they were."""

    def __init__(self) -> None:
        self._by_key: dict[str, list[tuple[Any, bytes]]] = {}

    def give(self, items: Mapping[str, Any]) -> None:
        """Remember values that the handler may change."""
        for key, value in items.items():
            if isinstance(value, list | dict):
                self._by_key.setdefault(key, []).append((value, encode(value)))

    def forget(self, keys: Iterable[str] | None) -> None:
        """Forget the values of keys that the handler has set or removed; None: of all."""
        for key in list(self._by_key) if keys is None else keys:
            self._by_key.pop(key, None)

    def find_changed(self) -> list[str]:
        """Return the keys whose values are others now, and were not set again."""
        return [
            key
            for key, values in self._by_key.items()
            if any(_try_to_encode(value) != before for value, before in values)
        ]


def _try_to_encode(value: Any) -> bytes | None:
    try:
        return encode(value)
    except (TypeError, ValueError):
        return None


handed_out: ContextVar[HandedOut | None] = ContextVar("django_mcp_handed_out", default=None)
"""What the running handler has of its session, while a site is developed."""


def _give(items: dict[str, Any]) -> dict[str, Any]:
    handed = handed_out.get()
    if handed is not None:
        handed.give(items)
    return items


def _forget(keys: Iterable[str] | None) -> None:
    handed = handed_out.get()
    if handed is not None:
        handed.forget(keys)


class SessionData(MutableMapping[str, Any]):
    """The data of one session, like a dict. Asynchronous handlers await the methods with `a`.

    Values are what JSON can represent, and come back as JSON decodes them: a date as a string. A
    value that was changed in place has to be set again.

    Raises:
        KeyError: there is no such key.
        NoSession: a write after the session has ended. What it held is gone.
        ValueError: a key or a value is too large, no JSON, or one too many.
        RuntimeError: a synchronous method was called on the event loop, which it would block.
    """

    __slots__ = ()

    @abstractmethod
    def _read(self, key: str | None) -> dict[str, Any]:
        """Return the item with a key, if there is one; without a key, all items."""

    @abstractmethod
    def _write(self, items: Mapping[str, bytes], *, is_new: bool) -> None:
        """Store encoded items; with `is_new` only those whose keys are not there yet."""

    @abstractmethod
    def _remove(self, key: str | None) -> bool:
        """Remove the item with a key and return whether it was there; without a key, all items."""

    @abstractmethod
    async def _run(self, function: Callable[[], T]) -> T:
        """Run `function`, which reads, where it may block."""

    async def _run_write(self, function: Callable[[], T]) -> T:
        """Run `function`, which writes, where it may block."""
        return await self._run(function)

    def __getitem__(self, key: str) -> Any:
        return _give(self._read(key))[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.update({key: value})

    def __delitem__(self, key: str) -> None:
        _forget([key])
        if not self._remove(key):
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key in self._read(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._read(None))

    def __len__(self) -> int:
        return len(self._read(None))

    def keys(self) -> Any:
        return self._read(None).keys()

    def values(self) -> Any:
        return _give(self._read(None)).values()

    def items(self) -> Any:
        return _give(self._read(None)).items()

    def has_key(self, key: str) -> bool:
        return key in self

    def pop(self, key: str, default: Any = _MISSING) -> Any:
        """Remove a key and return its value; of concurrent callers one gets it."""
        value = self._read(key)
        _forget([key])
        if key in value and self._remove(key):
            return value[key]
        if default is _MISSING:
            raise KeyError(key)
        return default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Store a value unless the key has one, and return the value of the key."""
        self._write(_encode({key: default}), is_new=True)
        return _give(self._read(key))[key]

    def update(self, *args: Any, **kwargs: Any) -> None:
        items = dict(*args, **kwargs)
        self._write(_encode(items), is_new=False)
        _forget(items)
        # A change after this is lost, too.
        _give(items)

    def clear(self) -> None:
        _forget(None)
        self._remove(None)

    aget = _awaitable("get")
    aset = _awaitable("__setitem__")
    apop = _awaitable("pop")
    asetdefault = _awaitable("setdefault")
    aupdate = _awaitable("update")
    ahas_key = _awaitable("has_key")
    akeys = _awaitable("keys")
    avalues = _awaitable("values")
    aitems = _awaitable("items")
    aclear = _awaitable("clear")


def check_blocking() -> None:
    """Raise `RuntimeError` if this thread runs an event loop, which must not be blocked."""
    if find_running_loop() is not None:
        raise RuntimeError(
            "This would block the event loop: in an asynchronous handler await its twin, such as "
            "ctx.session.aget(key) or ctx.session.aset(key, value)."
        )


def check_bounds(count: int, size: int) -> None:
    """Raise `ValueError` if a session would have too many keys or bytes."""
    if count > MAX_ITEMS:
        raise ValueError(f"A session holds at most {MAX_ITEMS} keys.")
    if size > MAX_DATA_BYTES:
        raise ValueError(f"A session holds at most {MAX_DATA_BYTES} bytes of data.")


def refuse_data(scope: QuotaScope) -> NoReturn:
    """Raise `ValueError`, since the sessions of one caller, or of all, have too many bytes."""
    if scope is QuotaScope.OWN:
        raise ValueError(
            "The sessions of this caller hold as many bytes of data together as they can. "
            "Remove some, or keep data of users in a model of your own."
        )
    raise ValueError("All sessions together hold as many bytes of data as they can.")


def _encode(items: Mapping[Any, Any]) -> dict[str, bytes]:
    texts = {}
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
        texts[key] = encoded
    return texts
