"""Keep tables small: limits on the rows of each caller, and the deletion of rows that have expired."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from django.utils.crypto import salted_hmac

from django_mcp.conf import server_settings
from django_mcp.execution.outages import Warner
from django_mcp.execution.own_writes import run_later
from django_mcp.execution.threads import find_own_pool
from django_mcp.process import Expiring, reset_on
from django_mcp.server.exchange.quotas import Limits, QuotaScope, is_anonymous_quota
from django_mcp.server.exchange.session import Session

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.db.models.expressions import Combinable

AT_ONCE = 500
"""Rows that are deleted with one statement, so that no query waits long."""

PAUSE_S = 0.02
"""Pause between two statements, so that other queries can run."""

IN_THREAD_S = 50.0
"""How long a thread deletes rows at a time."""

IN_PLACE_S = 1.0
"""The same of a request, where there are no threads."""

AGAIN_AFTER_S = 60.0
"""When deleting goes on if that was not enough."""

RECOUNT_S = 2.0
"""How long a process uses its counts."""

MAX_CALLERS = 1000
"""Callers whose counts a process caches."""

ANONYMOUS_PREFIX = "a:"
"""How the digests of anonymous callers' quota keys begin."""

_trouble = Warner()

Caller: TypeAlias = tuple[str, ...]
"""A caller by the values of columns, of which the last is the digest of its quota key."""

OF_SESSION = ("session__server", "session__quota_key")
"""The columns of callers in tables of sessions' data."""


def digest_of_quota(quota_key: str) -> str:
    """Return a keyed digest of at most 64 characters, so that no row holds a client's address."""
    digest = salted_hmac("django_mcp.quotas", quota_key, algorithm="sha256").hexdigest()[:40]
    return f"{ANONYMOUS_PREFIX if is_anonymous_quota(quota_key) else 'p:'}{digest}"


def caller_of(session: Session) -> Caller:
    """Return the values of `OF_SESSION` of a session."""
    return (session.server_name, session.quota_key)


class Usage:
    """Counts the rows of a table approximately: in the database periodically, and here in between.

    Each method runs in a thread with connections. Without a `size`, the bytes of the rows are not
    limited. The `columns` are those of a `Caller`.
    """

    def __init__(
        self,
        rows: Callable[[], QuerySet[Any]],
        size: str | Combinable | None,
        limits: Limits,
        columns: Sequence[str] = OF_SESSION,
    ) -> None:
        self.limits = limits
        self._rows = rows
        self._size = size
        self._columns = columns
        self._counts: Expiring[list[int]] = Expiring(MAX_CALLERS)
        reset_on(self._counts.clear, settings=("DJANGO_MCP", "DATABASES", "DATABASE_ROUTERS"))

    def take(self, caller: Caller, size: int, *, count: int = 1) -> QuotaScope | None:
        """Count more rows of a caller; return the scope of the limit that does not allow them."""
        limits, share = self.limits, server_settings.anonymous_share
        bounds: list[tuple[Caller, float, float]] = [
            (caller, limits.own_count, limits.own_bytes),
            ((), limits.count, limits.bytes),
        ]
        if caller[-1].startswith(ANONYMOUS_PREFIX):
            bounds.append(((ANONYMOUS_PREFIX,), limits.count * share, limits.bytes * share))
        usages = [self._find(key) for key, _, _ in bounds]
        for used, (key, max_count, max_bytes) in zip(usages, bounds, strict=True):
            if (count > 0 and used[0] + count > max_count) or (
                size > 0 and used[1] + size > max_bytes
            ):
                return QuotaScope.OWN if key is caller else QuotaScope.ALL
        for used in usages:
            used[0] += count
            used[1] += size
        return None

    def give_back(self, caller: Caller, size: int, *, count: int = 1) -> None:
        """Stop counting rows of a caller."""
        keys = [caller, ()]
        if caller[-1].startswith(ANONYMOUS_PREFIX):
            keys.append((ANONYMOUS_PREFIX,))
        for key in keys:
            used = self._counts.get(key)
            if used is not None:
                used[0] -= count
                used[1] -= size

    def _find(self, key: tuple[str, ...]) -> list[int]:
        used = self._counts.get(key)
        if used is not None:
            return used
        # Loads `django.db`, which importing a server must not.
        from django.db.models import Count, Sum

        rows = self._rows().order_by()
        if key == (ANONYMOUS_PREFIX,):
            rows = rows.filter(**{f"{self._columns[-1]}__startswith": ANONYMOUS_PREFIX})
        elif key:
            rows = rows.filter(**dict(zip(self._columns, key, strict=True)))
        sizes = {} if self._size is None else {"bytes": Sum(self._size)}
        usage = rows.aggregate(count=Count("pk"), **sizes)
        used = [usage["count"], usage.get("bytes") or 0]
        self._counts.set(key, used, RECOUNT_S)
        return used


def moment(time_s: float) -> datetime:
    """Return seconds since the epoch as an aware datetime."""
    return datetime.fromtimestamp(time_s, UTC)


def delete_some(rows: QuerySet[Any]) -> int:
    """Delete up to `AT_ONCE` of some rows, with the rows that refer to them; return how many."""
    # Loads `django.db`, which importing a server must not.
    from django.db import connections, router, transaction

    # A replica may still show rows that are deleted.
    using = router.db_for_write(rows.model)
    # A failure must not end a transaction of the request. Otherwise there is none while it reads, since
    # SQLite would not let it wait for the lock afterwards.
    is_inside = connections[using].in_atomic_block
    with transaction.atomic(using) if is_inside else nullcontext():
        keys = list(rows.using(using).values_list("pk", flat=True)[:AT_ONCE])
        if keys:
            rows.model._default_manager.using(using).filter(pk__in=keys).delete()
    return len(keys)


def insert_missing(rows: Sequence[Any], same: str, *, batch_size: int | None = None) -> None:
    """Insert the rows of one model that are not there yet, and leave the others as they are.

    Args:
        rows: objects of the model.
        same: a field that has the same value in a row that is there.
        batch_size: how many rows one statement inserts.

    Raises:
        IntegrityError: a row refers to one that does not exist.
    """
    if not rows:
        return
    # Loads `django.db`, which importing a server must not.
    from django.db import connections

    objects = type(rows[0])._default_manager
    if connections[objects.db].vendor == "mysql":
        # Its form of ignoring conflicts also drops rows that refer to nothing, without an error.
        objects.bulk_create(
            rows, update_conflicts=True, update_fields=[same], batch_size=batch_size
        )
    else:
        objects.bulk_create(rows, ignore_conflicts=True, batch_size=batch_size)


class Pruner:
    """Prunes a table or several, in a thread, when a process that writes them is due to do it.

    It takes at most `IN_THREAD_S`, or `IN_PLACE_S` where there are no threads, and goes on a minute later
    if rows are left. It also ends before the next time, so that it never overlaps with itself.

    Args:
        every_s: the seconds from one time to the next, up to a tenth more or less, so that processes
            which began together do not stay together.
        first_s: the seconds until the first time.
    """

    def __init__(
        self, every_s: float, *, clock: Callable[[], float] = time.monotonic, first_s: float = 0.0
    ) -> None:
        self._every_s = every_s
        self._clock = clock
        self._next_s = clock() + first_s

    @property
    def is_due(self) -> bool:
        """Whether to prune now."""
        return self._clock() >= self._next_s

    def prune_if_due(self, *prunes: Callable[[], int]) -> None:
        """Prune, unless that was done recently. In a thread with connections. It never raises."""
        if self.is_due:
            self._next_s = self._clock() + self._every_s * random.uniform(0.9, 1.1)  # noqa: S311
            run_later(partial(self._prune, prunes))

    def _prune(self, prunes: Sequence[Callable[[], int]]) -> None:
        max_s = IN_PLACE_S if find_own_pool() is None else IN_THREAD_S
        if not prune_all(*prunes, max_s=min(max_s, self._every_s * 0.8)):
            self._next_s = min(self._next_s, self._clock() + AGAIN_AFTER_S)


def prune_all(*prunes: Callable[[], int], max_s: float) -> bool:
    """Prune until nothing is left, or for so many seconds; return whether nothing is left.

    Each is called at least once. One that fails is logged and stops none of the others.
    """
    until_s, is_done = time.monotonic() + max_s, True
    for prune in prunes:
        try:
            while prune():
                if time.monotonic() >= until_s:
                    is_done = False
                    break
                time.sleep(PAUSE_S)
        except Exception as error:  # noqa: BLE001 - each database has errors of its own
            _trouble.warn("Could not delete rows that have expired: %r", error)
    return is_done
