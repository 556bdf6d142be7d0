"""What the store of sessions asks of the database; all of it runs in a thread with connections."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db import connections, router, transaction
from django.db.models import BooleanField, Count, Max, QuerySet
from django.db.models.expressions import RawSQL

from django_mcp.models.sessions import Session, Subscription

__all__ = [
    "MAX_SUBSCRIPTIONS",
    "MAX_URI_LENGTH",
    "Row",
    "Tally",
    "add_subscription",
    "delete_sessions",
    "find_row",
    "insert_session",
    "moment",
    "read_alive",
    "read_uris",
    "remove_subscription",
]

MAX_SUBSCRIPTIONS = 1000
MAX_URI_LENGTH = 4096
"""Bounds on what one session is subscribed to. Ours."""

CHUNK = 500
"""Sessions asked for in one statement."""

RECOUNT_S = 5.0
"""How old the number of all sessions may be that a process goes by."""

_NARROW = ("pk", "is_initialized", "log_level", "last_seen_at", "expires_at")
_WHOLE = (*_NARROW, "principal_key", "revision", "client_info", "capabilities", "user_id", "digest")


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """What is read of a session; times in seconds since the epoch.

    Attributes:
        identity: what never changes, by column; None: it was not asked for.
    """

    key: str
    is_initialized: bool
    log_level: str | None
    seen_s: float
    expires_s: float
    identity: dict[str, Any] | None


def moment(time_s: float) -> datetime:
    """Return seconds since the epoch as an aware datetime."""
    return datetime.fromtimestamp(time_s, UTC)


def find_row(server: str, *, is_known: bool, **lookup: Any) -> Row | None:
    """Return a session of a server, by `pk` or `digest`; what is known of it is not read again."""
    columns = _NARROW if is_known else _WHOLE
    rows = Session.objects.filter(server=server, **lookup).order_by()
    found = rows.values_list(*columns).first()
    if found is None:
        return None
    key, is_initialized, log_level, seen, expires = found[: len(_NARROW)]
    rest = dict(zip(columns[len(_NARROW) :], found[len(_NARROW) :], strict=True))
    return Row(
        key=key.hex,
        is_initialized=is_initialized,
        log_level=log_level or None,
        seen_s=seen.timestamp(),
        expires_s=expires.timestamp(),
        identity=rest or None,
    )


class Tally:
    """How many sessions a server has, near enough: counted now and then, and kept up meanwhile."""

    def __init__(self) -> None:
        self._count = 0
        self._recount_s = 0.0

    def is_full(self, server: str, limit: int) -> int:
        """Return how many sessions have to go before another one comes."""
        now_s = time.monotonic()
        if now_s >= self._recount_s:
            self._count = Session.objects.filter(server=server).count()
            self._recount_s = now_s + RECOUNT_S
        return max(0, self._count - limit + 1)

    def add(self, change: int) -> None:
        """Take note of sessions that came, or went."""
        self._count += change


def insert_session(row: Session, tally: Tally, max_each: int, max_all: int) -> list[str]:
    """Insert a session, after those idle for longest have made room; return the keys of these."""
    rows = Session.objects.filter(server=row.server).order_by("last_seen_at", "pk")
    doomed: list[UUID] = []
    if row.principal_key:
        own = list(
            rows.filter(principal_key=row.principal_key)
            .reverse()
            .values_list("pk", flat=True)[max_each - 1 : max_each + 99]
        )
        doomed += own
    surplus = tally.is_full(row.server, max_all) - len(doomed)
    if surplus > 0:
        doomed += rows.exclude(pk__in=doomed).values_list("pk", flat=True)[:surplus]
    if doomed:
        delete_sessions(doomed)
    row.save(force_insert=True)
    tally.add(1 - len(doomed))
    return [key.hex for key in doomed]


def delete_sessions(keys: Collection[UUID | str]) -> int:
    """Delete sessions with all that belongs to them; return how many there were."""
    using = router.db_for_write(Session)
    with transaction.atomic(using):
        return (
            Session.objects.using(using).filter(pk__in=keys).delete()[1].get(Session._meta.label, 0)
        )


def add_subscription(key: str, uri: str, *, read_all: bool) -> set[str] | None:
    """Add a URI to a session's and return all of them if wanted.

    Raises:
        ValueError: it has as many as it can have.
    """
    session = UUID(key)
    digest = _digest(uri)
    rows = Subscription.objects.filter(session_id=session)
    if rows.exclude(uri_digest=digest).count() >= MAX_SUBSCRIPTIONS:
        raise ValueError("too many")
    row = Subscription(session_id=session, uri=uri, uri_digest=digest)
    Subscription.objects.bulk_create([row], ignore_conflicts=True)
    return read_uris(key).get(key) if read_all else None


def remove_subscription(key: str, uri: str) -> None:
    """Take a URI from a session's, if it is there."""
    Subscription.objects.filter(session_id=UUID(key), uri_digest=_digest(uri)).delete()


def read_uris(*keys: str) -> dict[str, set[str]]:
    """Return the URIs that sessions are subscribed to, by key; nothing of those without any."""
    found: dict[str, set[str]] = {}
    for start in range(0, len(keys), CHUNK):
        rows = Subscription.objects.filter(session_id__in=keys[start : start + CHUNK])
        for session, uri in rows.values_list("session_id", "uri"):
            found.setdefault(session.hex, set()).add(uri)
    return found


def read_alive(keys: Iterable[str], now_s: float) -> dict[str, tuple[Any, ...]]:
    """Return those of these sessions that are there, each with what tells its subscriptions apart."""
    found: dict[str, tuple[Any, ...]] = {}
    wanted = list(keys)
    for start in range(0, len(wanted), CHUNK):
        rows = (
            _of_keys(wanted[start : start + CHUNK])
            .filter(expires_at__gt=moment(now_s))
            .order_by()
            .annotate(count=Count("subscriptions"), newest=Max("subscriptions__id"))
            .values_list("pk", "count", "newest")
        )
        found.update((pk.hex, tuple(mark)) for pk, *mark in rows)
    return found


def _of_keys(keys: list[str]) -> QuerySet[Session]:
    """Return the sessions with these keys; asked every few seconds by a process with streams."""
    connection = connections[Session.objects.db]
    if connection.vendor != "postgresql":
        return Session.objects.filter(pk__in=keys)
    # One parameter: Django and the driver take long over hundreds.
    column = (
        f"{connection.ops.quote_name(Session._meta.db_table)}.{connection.ops.quote_name('id')}"
    )
    array = f"{{{','.join(keys)}}}"
    is_one = RawSQL(f"{column} = ANY(%s::uuid[])", [array], BooleanField())  # noqa: S611
    return Session.objects.filter(is_one)


def _digest(uri: str) -> str:
    return hashlib.sha256(uri.encode("utf-8", "surrogatepass")).hexdigest()
