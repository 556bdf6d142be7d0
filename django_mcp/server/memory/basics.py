"""The plain implementation of each interface: one process, no framework."""

from __future__ import annotations

import asyncio
import base64
import contextvars
import hashlib
import hmac
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.atomic import Atomic
from django_mcp.server.exchange.call import Failure, FailureKind
from django_mcp.server.exchange.exchange import ANONYMOUS
from django_mcp.server.exchange.visibility import WHOLE, Offer, Requirements
from django_mcp.server.services.ports import STATE_STORE_FULL, StateStoreFull

if TYPE_CHECKING:
    from django_mcp.server.exchange.call import Call
    from django_mcp.server.exchange.exchange import Exchange

T = TypeVar("T")


class ThreadScope:
    """Run synchronous handlers in a bounded pool of threads."""

    def __init__(self, max_threads: int = 32) -> None:
        self._pool = ThreadPoolExecutor(max_threads, thread_name_prefix="mcp")

    async def run(self, function: Callable[[], T], call: Call, atomic: Atomic = ()) -> T:
        """See `HandlerScope.run`. There are no databases here."""
        loop, exchange = asyncio.get_running_loop(), call.exchange

        def work() -> T:
            exchange.waits_for_thread = False
            return function()

        exchange.waits_for_thread = True
        return await loop.run_in_executor(self._pool, contextvars.copy_context().run, work)


class OpenAccess:
    """Let everybody see and use everything."""

    def find_offer(self, exchange: Exchange, requirements: Requirements) -> Offer | None:
        """See `AccessPolicy.find_offer`."""
        return WHOLE

    async def load_offer(self, exchange: Exchange, requirements: Requirements) -> Offer:
        """See `AccessPolicy.load_offer`."""
        return WHOLE

    def refuse_scopes(self, exchange: Exchange, scopes: tuple[str, ...]) -> Refusal | None:
        """See `AccessPolicy.refuse_scopes`."""
        return None

    def identify(self, principal: Any) -> str | None:
        """See `AccessPolicy.identify`."""
        key: str | None = getattr(principal, "key", None)
        return key

    def describe(self, principal: Any) -> JSONObject | None:
        """See `AccessPolicy.describe`: there is no other process."""
        return None

    async def revive(self, described: JSONObject | None) -> Any | None:
        """See `AccessPolicy.revive`."""
        return ANONYMOUS


class ProcessCounter:
    """Count in this process; at most `limit` counts, of which the oldest are forgotten."""

    def __init__(self, limit: int = 100_000) -> None:
        self._limit = limit
        self._counts: dict[str, int] = {}

    async def add(self, keys: Sequence[tuple[str, int]]) -> list[int]:
        """See `RateCounter.add`."""
        found = []
        for key, _ in keys:
            count = self._counts[key] = self._counts.pop(key, 0) + 1
            found.append(count)
        while len(self._counts) > self._limit:
            del self._counts[next(iter(self._counts))]
        return found


class NoKnownExceptions:
    """Know no exceptions of a framework."""

    def map(self, error: Exception) -> Failure | None:
        """See `ExceptionMapper.map`."""
        return None

    def missing(self) -> Failure:
        """See `ExceptionMapper.missing`."""
        return Failure(kind=FailureKind.MISSING, message="Not found.")


class ProcessSealer:
    """Seal with a key that lives and dies with the process."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)

    def seal(self, value: bytes) -> str:
        """See `Sealer.seal`."""
        return base64.urlsafe_b64encode(self._sign(value) + value).decode().rstrip("=")

    def unseal(self, text: str) -> bytes | None:
        """See `Sealer.unseal`."""
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except ValueError:
            return None
        signature, value = raw[:16], raw[16:]
        return value if hmac.compare_digest(signature, self._sign(value)) else None

    def _sign(self, value: bytes) -> bytes:
        return hmac.new(self._key, value, hashlib.sha256).digest()[:16]


class ProcessStates:
    """Keep states in the process, `limit` of them at most; the oldest are forgotten first.

    One caller has at most a quarter of them, and of their bytes.
    """

    def __init__(self, limit: int = 1000, limit_bytes: int = 64 * 1024 * 1024) -> None:
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._kept: dict[tuple[str | None, str], tuple[str, bytes]] = {}
        self._used: dict[str, None] = {}

    async def keep(self, owner: str | None, value: bytes, until_s: float, quota_key: str) -> str:
        """See `StateStore.keep`."""
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
        """See `StateStore.find`."""
        found = self._kept.get((owner, reference))
        return None if found is None else found[1]

    async def take(self, owner: str | None, reference: str) -> bytes | None:
        """See `StateStore.take`."""
        found = self._kept.pop((owner, reference), None)
        return None if found is None else found[1]

    async def use(self, token: str, until_s: float, quota_key: str) -> bool:
        """See `StateStore.use`."""
        if token in self._used:
            return False
        self._used[token] = None
        if len(self._used) > self._limit:
            del self._used[next(iter(self._used))]
        return True


class OneLanguage:
    """Texts are not translated."""

    def current(self) -> str | None:
        """See `Language.current`."""
        return None
