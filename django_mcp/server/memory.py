"""Ports that keep everything in this process and know no framework."""

from __future__ import annotations

import asyncio
import base64
import contextvars
import hashlib
import hmac
import secrets
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, time, timedelta
from typing import Any, TypeVar

from django_mcp.log import logger
from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.field_validators import FieldValidators
from django_mcp.registry.options import Atomic
from django_mcp.server.exchange.call import Call, Failure, FailureKind
from django_mcp.server.exchange.caller import ANONYMOUS
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.session import Session
from django_mcp.server.exchange.visibility import ALL_VISIBLE, Requirements, VisibleEntries
from django_mcp.server.ports import STATE_STORE_FULL, StateStoreFull, Today

T = TypeVar("T")


class NoValidators:
    """The validators of no framework."""

    advice = ""

    def is_validator(self, value: Any) -> bool:
        return False

    def is_validator_class(self, cls: type) -> bool:
        return False

    def find_fault(self, validator: Any) -> str | None:
        return None

    def make_check(self, validator: Callable[[Any], None]) -> Callable[[Any], None]:
        return validator

    def describe(self, validator: Any, schema: JSONObject) -> None:
        pass


class PlainConverter:
    """Convert no framework's objects."""

    validators: FieldValidators = NoValidators()

    def convert(self, value: Any) -> Any:
        return value

    def needs_thread(self, value: Any) -> bool:
        return False

    def read_moment(self, moment: datetime, *, needs_offset: bool = False) -> datetime:
        return moment

    def write_moment(self, moment: datetime) -> datetime:
        return moment

    def report(self, text: str) -> None:
        logger.warning("%s", text)


def find_today(now_s: float) -> Today:
    """Return the day in the time zone of this computer."""
    now = datetime.fromtimestamp(now_s, UTC).astimezone()
    tomorrow = datetime.combine(now + timedelta(days=1), time.min).astimezone()
    text = f"Today is {now:%A, %Y-%m-%d}, in the time zone {now:%Z}."
    return Today(text=text, ends_in_s=tomorrow.timestamp() - now_s)


class PoolScope:
    """Run synchronous handlers in a bounded pool of threads."""

    def __init__(self, max_threads: int = 32) -> None:
        self._pool = ThreadPoolExecutor(max_threads, thread_name_prefix="mcp")

    async def run(self, function: Callable[[], T], call: Call, atomic: Atomic = ()) -> T:
        """See `HandlerScope.run`. There are no databases here."""
        loop, exchange = asyncio.get_running_loop(), call.exchange

        def work() -> T:
            exchange.channel.end_wait()
            return function()

        exchange.channel.begin_wait()
        return await loop.run_in_executor(self._pool, contextvars.copy_context().run, work)


class OpenAccess:
    """Allow everything to everybody."""

    def find_visible(self, exchange: Exchange, requirements: Requirements) -> VisibleEntries | None:
        return ALL_VISIBLE

    async def load_visible(self, exchange: Exchange, requirements: Requirements) -> VisibleEntries:
        return ALL_VISIBLE

    def check_scopes(self, exchange: Exchange, scopes: tuple[str, ...]) -> Refusal | None:
        return None

    async def give_links(self, exchange: Exchange, tool: str, uris: Collection[str]) -> None:
        """See `AccessPolicy.give_links`: everything can be read already."""

    async def was_given(self, exchange: Exchange, uri: str) -> bool:
        return True

    def describe(self, principal: Any) -> JSONObject | None:
        """See `AccessPolicy.describe`: there is no other process."""
        return None

    async def revive(self, described: JSONObject | None) -> Any | None:
        return ANONYMOUS


class ProcessCounter:
    """Count in this process; at most `limit` counts, of which the oldest are forgotten."""

    def __init__(self, limit: int = 100_000) -> None:
        self._limit = limit
        self._counts: dict[str, int] = {}

    async def add(self, keys: Sequence[tuple[str, int]]) -> list[int]:
        counts = []
        for key, _ in keys:
            count = self._counts[key] = self._counts.pop(key, 0) + 1
            counts.append(count)
        while len(self._counts) > self._limit:
            del self._counts[next(iter(self._counts))]
        return counts


class NoKnownExceptions:
    """Know no exceptions of a framework."""

    def map(self, error: Exception) -> Failure | None:
        return None

    def is_conflict(self, error: Exception) -> bool:
        return False

    def missing(self) -> Failure:
        return Failure(kind=FailureKind.MISSING, message="Not found.")


class ProcessSigner:
    """Sign with a key of the process."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)

    def sign(self, value: bytes) -> str:
        return base64.urlsafe_b64encode(self._sign(value) + value).decode().rstrip("=")

    def unsign(self, text: str) -> bytes | None:
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except ValueError:
            return None
        signature, value = raw[:16], raw[16:]
        return value if hmac.compare_digest(signature, self._sign(value)) else None

    def _sign(self, value: bytes) -> bytes:
        return hmac.new(self._key, value, hashlib.sha256).digest()[:16]


class ProcessStates:
    """Store states in the process, `limit` of them at most; the oldest are evicted first.

    One caller has at most a quarter of them, and of their bytes.
    """

    def __init__(self, limit: int = 1000, limit_bytes: int = 64 * 1024 * 1024) -> None:
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._kept: dict[tuple[str | None, str], tuple[str, bytes]] = {}
        self._used: dict[str, None] = {}

    async def keep(self, owner: str | None, value: bytes, until_s: float, quota_key: str) -> str:
        own = [len(each) for key, each in self._kept.values() if key == quota_key]
        if len(own) >= self._limit // 4 or sum(own) + len(value) > self._limit_bytes // 4:
            raise StateStoreFull(STATE_STORE_FULL)
        reference = secrets.token_urlsafe(16)
        self._kept[owner, reference] = (quota_key, value)
        size = sum(len(each) for _, each in self._kept.values())
        while len(self._kept) > self._limit or size > self._limit_bytes:
            _, forgotten = self._kept.pop(next(iter(self._kept)))
            size -= len(forgotten)
        return reference

    async def find(self, owner: str | None, reference: str) -> bytes | None:
        state = self._kept.get((owner, reference))
        return None if state is None else state[1]

    async def take(self, owner: str | None, reference: str) -> bytes | None:
        state = self._kept.pop((owner, reference), None)
        return None if state is None else state[1]

    async def use(self, token: str, until_s: float, quota_key: str) -> bool:
        if token in self._used:
            return False
        self._used[token] = None
        if len(self._used) > self._limit:
            del self._used[next(iter(self._used))]
        return True


class NoObserver:
    """Look at nothing."""

    def session_opened(self, session: Session) -> None:
        """See `ConnectionObserver`."""

    def session_closed(self, session: Session, reason: str) -> None:
        """See `ConnectionObserver`."""

    def stream_opened(self, stream: Any) -> None:
        """See `ConnectionObserver`."""

    def stream_closed(self, stream: Any, reason: str) -> None:
        """See `ConnectionObserver`."""

    def client_notification(
        self, connection: Any, method: str, params: JSONObject, quota_key: str
    ) -> None:
        """See `ConnectionObserver`."""
