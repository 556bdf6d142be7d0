"""States of calls in the site's database: found by every worker, kept until they expire."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from django_mcp.handlers.threads import run_in_pool

if TYPE_CHECKING:
    from django.db.models import Model

__all__ = ["SiteStates", "prune_states"]

T = TypeVar("T")

PRUNE_EVERY_S = 60.0
"""Whoever writes also removes what has expired, this often in each process."""

PRUNED_AT_ONCE = 1000
"""Rows removed with one write; the rest is for the next."""


class SiteStates:
    """Keep states in rows that hold a digest of their reference and of whose they are."""

    def __init__(self) -> None:
        self._next_pruning_s = 0.0

    async def keep(self, owner: str | None, value: bytes, until_s: float) -> str:
        """See `StateStore.keep`."""
        from django_mcp.models.states import KeptState

        reference = secrets.token_urlsafe(24)

        def write() -> None:
            KeptState.objects.create(
                digest=_digest(owner, reference), value=value, expires_at=_moment(until_s)
            )

        await self._write(write)
        return reference

    async def find(self, owner: str | None, reference: str) -> bytes | None:
        """See `StateStore.find`."""
        from django_mcp.models.states import KeptState

        def read() -> bytes | None:
            rows = KeptState.objects.filter(
                digest=_digest(owner, reference), expires_at__gt=datetime.now(UTC)
            )
            value = rows.values_list("value", flat=True).first()
            return None if value is None else bytes(value)

        return await run_in_pool(read)

    async def use(self, token: str, until_s: float) -> bool:
        """See `StateStore.use`."""
        from django.db import IntegrityError, router, transaction

        from django_mcp.models.states import UsedState

        def write() -> bool:
            row = UsedState(digest=_digest(None, token), expires_at=_moment(until_s))
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
            written = write()
            if is_due:
                prune_states()
            return written

        return await run_in_pool(write_and_prune)


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
