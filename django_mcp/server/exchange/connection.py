"""Connections: what is known of one client, and the data that handlers keep in its session.

A `ConnectionState` belongs to a request at a stateless revision, to a session over HTTP, and to the
process on stdio. It is passed along with each request. No attribute of the server holds "the" connection,
so that two clients cannot see each other's. A `Session` is kept by its store, under its id.
"""

from __future__ import annotations

import asyncio
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from enum import Enum
from typing import Any, NoReturn, TypeVar

from msgspec import field

from django_mcp.log import logger
from django_mcp.protocol.errors import Refusal, ToolError
from django_mcp.protocol.json import JSONDecodeError, JSONObject, decode, encode
from django_mcp.protocol.messages import RequestId
from django_mcp.protocol.records import Record
from django_mcp.protocol.revisions import Revision
from django_mcp.protocol.sanitize import limit_client_details
from django_mcp.server.exchange.quotas import QuotaScope
from django_mcp.server.exchange.timers import find_running_loop

T = TypeVar("T")


class SendRate(Record):
    """Lets `rate` messages a second pass, and as many at once after a silence, but no others."""

    _rate: int
    _warning: str | None = None
    _allowance: float = math.inf
    _checked_s: float = 0.0

    def take(self) -> bool:
        """Return whether one more message may be sent now, and count it."""
        now = time.monotonic()
        self._allowance += (now - self._checked_s) * self._rate
        self._allowance = min(self._allowance, float(self._rate))
        self._checked_s = now
        if self._allowance < 1:
            if self._warning is not None:
                logger.warning(self._warning, self._rate)
                self._warning = None
            return False
        self._allowance -= 1
        return True


class ConnectionState(Record):
    """The client of a connection.

    `revision` is None before the handshake. `asked` maps the ids of the server's own requests to the
    futures of the client's responses. `stream_id` names the open stream of a connection that has only
    one, and `data` is its `ctx.session`.
    """

    revision: Revision | None = None
    client_info: JSONObject | None = None
    client_capabilities: JSONObject = field(default_factory=dict)
    log_level: str | None = None
    is_transient: bool = False
    is_initialized: bool = False
    log_rate: SendRate | None = None
    asked: dict[RequestId, asyncio.Future[JSONObject]] = field(default_factory=dict)
    subscriptions: set[str] | None = None
    """URIs of the resources that the client subscribed to; None: not read from the store yet."""
    subscriptions_version: int = 0
    """How often the stored subscriptions had changed when these were read; 0 if they are in this process."""
    stream_id: str | None = None
    data: SessionData | None = None

    def settled(self) -> dict[str, Any]:
        """Return the attributes that a handshake settles."""
        names = ("revision", "client_info", "client_capabilities", "log_level")
        return {name: getattr(self, name) for name in names}

    def update(self, changes: Mapping[str, Any]) -> None:
        """Set attributes."""
        for name, value in changes.items():
            setattr(self, name, value)

    def may_log(self, rate: int) -> bool:
        """Return whether one more log message may be sent now, of `rate` a second; 0: any number."""
        if not rate:
            return True
        if self.log_rate is None:
            self.log_rate = SendRate(
                rate, "A client is sent %d log messages a second at most; the rest is dropped"
            )
        return self.log_rate.take()


class Closing(Enum):
    """Why a session ended."""

    CLIENT = "the client ended it"
    SITE = "the site ended it"
    STREAM = "its stream is over"
    EVICTED = "it made room for a newer one"
    EXPIRED = "it expired"
    DELETED = "its row was deleted"


BASE_BYTES = 2048
VALUE_BYTES = 64
"""Estimated memory of a session, and of each JSON value in its client details."""


class Session(ConnectionState, weakref=True, kw_only=True):
    """A connection that lasts between requests, and may be used by several at once.

    Each process has at most one object for it.

    Attributes:
        key: its public name, in the database and between processes. It gives no access; the client
            has another, secret id.
        principal_key: the principal that opened it and alone may use it.
        is_ended: it has ended, even if this object is still in use.
    """

    key: str
    server_name: str
    principal_key: str | None
    quota_key: str = ""
    transport: str = "http"
    was_told_lists: bool = False
    is_ended: bool = False
    state: Any = None


def memory_size(session: Session) -> int:
    """Return about how many bytes of memory a session takes without its subscriptions."""
    details = encode([session.client_info, session.client_capabilities])
    values = details.count(b",") + details.count(b"{") + details.count(b"[")
    return BASE_BYTES + len(details) + VALUE_BYTES * values


def limit_kept_details(connection: ConnectionState) -> Refusal | None:
    """Limit the client details of a request that a stream or a task keeps, or return a refusal.

    The handshake has limited those of sessions and pipes.
    """
    if not connection.is_transient:
        return None
    details = limit_client_details(connection.client_info, connection.client_capabilities)
    if isinstance(details, Refusal):
        return details
    connection.client_info, connection.client_capabilities = details
    return None


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
        return self._read(key)[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._write(_encode({key: value}), is_new=False)

    def __delitem__(self, key: str) -> None:
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
        return self._read(None).values()

    def items(self) -> Any:
        return self._read(None).items()

    def has_key(self, key: str) -> bool:
        return key in self

    def pop(self, key: str, default: Any = _MISSING) -> Any:
        """Remove a key and return its value; of concurrent callers one gets it."""
        found = self._read(key)
        if key in found and self._remove(key):
            return found[key]
        if default is _MISSING:
            raise KeyError(key)
        return default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Store a value unless the key has one, and return the value of the key."""
        self._write(_encode({key: default}), is_new=True)
        return self._read(key)[key]

    def update(self, *args: Any, **kwargs: Any) -> None:
        self._write(_encode(dict(*args, **kwargs)), is_new=False)

    def clear(self) -> None:
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
        keys = [each for each in self._items if key is None or each == key]
        self._charge(-_count_bytes({each: self._items.pop(each) for each in keys}))
        return bool(keys)

    async def _run(self, function: Callable[[], T]) -> T:
        return function()
