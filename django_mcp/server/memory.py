"""The plain implementation of each interface: one process, no framework."""

from __future__ import annotations

import asyncio
import base64
import contextvars
import hashlib
import hmac
import secrets
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from django_mcp.registry.entries import Entry
from django_mcp.server.interfaces import Failure

if TYPE_CHECKING:
    from django_mcp.server.context import Context

T = TypeVar("T")


class ThreadScope:
    """Run synchronous handlers in a bounded pool of threads."""

    def __init__(self, max_threads: int = 32) -> None:
        self._pool = ThreadPoolExecutor(max_threads, thread_name_prefix="mcp")

    async def run(self, function: Callable[[], T], ctx: Context[Any]) -> T:
        """See `HandlerScope.run`."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, contextvars.copy_context().run, function)


class OpenAccess:
    """Let everybody see everything."""

    def is_visible(self, entry: Entry, principal: Any) -> bool:
        """See `AccessPolicy.is_visible`."""
        return True

    def variant(self, principal: Any) -> Hashable | None:
        """See `AccessPolicy.variant`."""
        return None


class NoKnownExceptions:
    """Know no exceptions of a framework."""

    def map(self, error: Exception) -> Failure | None:
        """See `ExceptionMapper.map`."""
        return None


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
    """Keep states in the process, `limit` of them at most; the oldest are forgotten first."""

    def __init__(self, limit: int = 1000) -> None:
        self._limit = limit
        self._kept: dict[tuple[str | None, str], bytes] = {}
        self._used: dict[str, None] = {}

    async def keep(self, owner: str | None, value: bytes, until_s: float) -> str:
        """See `StateStore.keep`."""
        reference = secrets.token_urlsafe(16)
        self._kept[owner, reference] = value
        if len(self._kept) > self._limit:
            del self._kept[next(iter(self._kept))]
        return reference

    async def find(self, owner: str | None, reference: str) -> bytes | None:
        """See `StateStore.find`."""
        return self._kept.get((owner, reference))

    async def use(self, token: str, until_s: float) -> bool:
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
