"""States of calls in the site's database: found by every worker, kept until they expire."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from django_mcp.conf import server_settings
from django_mcp.handlers.quotas import ANONYMOUS, digest_of_quota
from django_mcp.handlers.threads import run_in_pool, run_later
from django_mcp.server.services.ports import STATE_STORE_FULL, StateStoreFull

if TYPE_CHECKING:
    from django.db.models import Model

__all__ = ["SiteStates", "prune_states"]

T = TypeVar("T")

PRUNE_EVERY_S = 10.0
"""A write also removes what has expired, this often in each process."""

PRUNED_AT_ONCE = 1000
"""Rows removed with one write."""

MAX_ROWS = 10_000
MAX_BYTES = 256 * 1024 * 1024
MAX_USED = 1_000_000
"""Stored states, their bytes, and used states of all callers together. Our own limits."""

MAX_OWN_ROWS = 250
MAX_OWN_BYTES = 16 * 1024 * 1024
MAX_OWN_USED = 50_000
"""The same for one caller."""

RECOUNT_S = 2.0
"""How old the totals may be that a process goes by."""


class SiteStates:
    """Keep states in rows that hold a digest of their reference and of whose they are."""

    def __init__(self) -> None:
        self._next_pruning_s = 0.0
        self._pruning = threading.Lock()
        self._totals = _Totals()

    async def keep(self, owner: str | None, value: bytes, until_s: float, quota_key: str) -> str:
        """See `StateStore.keep`."""
        from django_mcp.models.states import KeptState

        reference = secrets.token_urlsafe(24)
        quota = digest_of_quota(quota_key)

        def write() -> None:
            self._check_room(quota, len(value))
            KeptState.objects.create(
                digest=_digest(owner, reference),
                quota_key=quota,
                value=value,
                size=len(value),
                expires_at=_moment(until_s),
            )

        await self._write(write)
        return reference

    def _check_room(self, quota: str, size: int) -> None:
        from django.db.models import Count, Sum

        from django_mcp.models.states import KeptState

        own = KeptState.objects.filter(quota_key=quota, expires_at__gt=datetime.now(UTC))
        found = own.aggregate(rows=Count("pk"), bytes=Sum("size"))
        is_full = found["rows"] >= MAX_OWN_ROWS or (found["bytes"] or 0) + size > MAX_OWN_BYTES
        if is_full or not self._totals.take(quota, size):
            raise StateStoreFull(STATE_STORE_FULL)

    async def find(self, owner: str | None, reference: str) -> bytes | None:
        """See `StateStore.find`."""
        return await run_in_pool(lambda: _find(_digest(owner, reference)))

    async def take(self, owner: str | None, reference: str) -> bytes | None:
        """See `StateStore.take`."""
        from django_mcp.models.states import KeptState

        digest = _digest(owner, reference)

        def take() -> bytes | None:
            value = _find(digest)
            KeptState.objects.filter(digest=digest).delete()
            return value

        return await run_in_pool(take)

    async def use(self, token: str, until_s: float, quota_key: str) -> bool:
        """See `StateStore.use`."""
        from django.db import IntegrityError, router, transaction

        from django_mcp.models.states import UsedState

        quota = digest_of_quota(quota_key)

        def write() -> bool:
            own = UsedState.objects.filter(quota_key=quota, expires_at__gt=datetime.now(UTC))
            if own.count() >= MAX_OWN_USED or not self._totals.take_used(quota):
                raise StateStoreFull(STATE_STORE_FULL)
            row = UsedState(
                digest=_digest(None, token), quota_key=quota, expires_at=_moment(until_s)
            )
            try:
                with transaction.atomic(router.db_for_write(UsedState)):
                    row.save(force_insert=True)
            except IntegrityError:
                return False
            return True

        return await self._write(write)

    async def _write(self, write: Callable[[], T]) -> T:
        now_s = time.monotonic()
        is_due = now_s >= self._next_pruning_s
        if is_due:
            self._next_pruning_s = now_s + PRUNE_EVERY_S

        def write_and_prune() -> T:
            if is_due:
                run_later(self._prune)
            return write()

        return await run_in_pool(write_and_prune)

    def _prune(self) -> None:
        """Remove all states that have expired, unless another thread of this process is at it."""
        if self._pruning.acquire(blocking=False):
            try:
                while prune_states():
                    pass
            finally:
                self._pruning.release()


class _Totals:
    """What all callers have stored, near enough: counted now and then, and kept up meanwhile."""

    def __init__(self) -> None:
        self._recount_s = 0.0
        self._rows = self._bytes = self._anonymous_rows = self._anonymous_bytes = self._used = 0

    def take(self, quota: str, size: int) -> bool:
        """Count one more state; return whether there is room for it."""
        self._count()
        share = server_settings.anonymous_share
        is_anonymous = quota.startswith(ANONYMOUS)
        if self._rows >= MAX_ROWS or self._bytes + size > MAX_BYTES:
            return False
        if is_anonymous and (
            self._anonymous_rows >= MAX_ROWS * share
            or self._anonymous_bytes + size > MAX_BYTES * share
        ):
            return False
        self._rows += 1
        self._bytes += size
        if is_anonymous:
            self._anonymous_rows += 1
            self._anonymous_bytes += size
        return True

    def take_used(self, quota: str) -> bool:
        """Count one more used state; return whether there is room for it."""
        self._count()
        share = server_settings.anonymous_share if quota.startswith(ANONYMOUS) else 1.0
        if self._used >= MAX_USED * share:
            return False
        self._used += 1
        return True

    def _count(self) -> None:
        from django.db.models import Count, Q, Sum

        from django_mcp.models.states import KeptState, UsedState

        now_s = time.monotonic()
        if now_s < self._recount_s:
            return
        anonymous = Q(quota_key__startswith=ANONYMOUS)
        found = KeptState.objects.aggregate(
            rows=Count("pk"),
            bytes=Sum("size"),
            anonymous_rows=Count("pk", filter=anonymous),
            anonymous_bytes=Sum("size", filter=anonymous),
        )
        self._rows, self._bytes = found["rows"], found["bytes"] or 0
        self._anonymous_rows = found["anonymous_rows"]
        self._anonymous_bytes = found["anonymous_bytes"] or 0
        self._used = UsedState.objects.count()
        self._recount_s = now_s + RECOUNT_S


def _find(digest: str) -> bytes | None:
    from django_mcp.models.states import KeptState

    rows = KeptState.objects.filter(digest=digest, expires_at__gt=datetime.now(UTC))
    value = rows.values_list("value", flat=True).first()
    return None if value is None else bytes(value)


def prune_states() -> int:
    """Remove states that have expired, up to `PRUNED_AT_ONCE` of each kind; return how many."""
    from django_mcp.models.states import KeptState, UsedState

    models: tuple[type[Model], ...] = (KeptState, UsedState)
    now, removed = datetime.now(UTC), 0
    for model in models:
        expired = model._default_manager.filter(expires_at__lte=now)
        digests = list(expired.values_list("pk", flat=True)[:PRUNED_AT_ONCE])
        removed += model._default_manager.filter(pk__in=digests).delete()[0]
    return removed


def _digest(owner: str | None, reference: str) -> str:
    return hashlib.sha256(f"{owner or ''}\0{reference}".encode()).hexdigest()


def _moment(until_s: float) -> datetime:
    return datetime.fromtimestamp(until_s, UTC)
