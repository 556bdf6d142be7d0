"""What the store of sessions asks of the database; all of it runs in a thread with connections."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.models import BooleanField, Count, Max, QuerySet
from django.db.models.expressions import RawSQL

from django_mcp.models.sessions import Session, Stream, Subscription
from django_mcp.protocol.texts import name_and_version
from django_mcp.server.sessions import Closing
from django_mcp.server.sessions import Session as CoreSession
from django_mcp.sessions.closing import Closed, close_sessions

__all__ = [
    "MAX_SUBSCRIPTIONS",
    "MAX_URI_LENGTH",
    "Row",
    "Tally",
    "add_subscription",
    "find_row",
    "has_live_stream",
    "insert_session",
    "moment",
    "new_row",
    "read_alive",
    "read_uris",
    "remove_subscription",
    "write_settled",
]

MAX_SUBSCRIPTIONS = 1000
MAX_URI_LENGTH = 4096
"""Bounds on what one session is subscribed to. Ours."""

YOUNG_S = 10.0
"""How long after its beginning a session may have a stream that no row tells of. Ours."""

CHUNK = 500
"""Sessions asked for in one statement."""

SPARE = 100
"""Of so many sessions of a principal one more goes than has to, when they make room. Ours."""

AT_ONCE = 100
"""Sessions beyond the bound that make room at a time, as when that was lowered."""

RECOUNT_S = 5.0
"""How old the number of all sessions may be that a process goes by."""

_NARROW = ("pk", "is_initialized", "log_level", "last_seen_at", "expires_at")
_WHOLE = (
    *_NARROW,
    "principal_key",
    "revision",
    "client_info",
    "capabilities",
    "user_id",
    "digest",
    "transport",
)


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


def new_row(
    session: CoreSession,
    *,
    server: str,
    digest: str,
    user_id: Any,
    opened_s: float,
    expires_s: float,
) -> Session:
    """Return the row of a session that was opened just now; times in seconds since the epoch."""
    return Session(
        id=UUID(session.key),
        digest=digest,
        server=server,
        principal_key=session.principal_key or "",
        user_id=user_id,
        transport=session.transport,
        **_settled(session),
        is_initialized=session.is_initialized,
        log_level=session.log_level or "",
        created_at=moment(opened_s),
        last_seen_at=moment(opened_s),
        expires_at=moment(expires_s),
    )


def write_settled(session: CoreSession) -> None:
    """Write down what a handshake settled, of a session whose row is there."""
    Session.objects.filter(pk=UUID(session.key)).update(**_settled(session))


def _settled(session: CoreSession) -> dict[str, Any]:
    client_name, client_version = name_and_version(session.client_info)
    return {
        "revision": session.revision.name if session.revision is not None else "",
        "client_name": client_name,
        "client_version": client_version,
        "client_info": session.client_info,
        "capabilities": session.client_capabilities,
    }


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


def has_live_stream(key: str, now_s: float) -> bool:
    """Tell whether a process that is alive has a stream of a session, or may have one by now."""
    streams = Stream.objects.filter(session_id=UUID(key), worker__lease_until__gt=moment(now_s))
    return (
        streams.exists()
        # The rows of streams are written some seconds after they were opened.
        or Session.objects.filter(pk=UUID(key), created_at__gt=moment(now_s - YOUNG_S)).exists()
    )


class Tally:
    """How many sessions a server has, near enough: counted now and then, and kept up meanwhile."""

    def __init__(self) -> None:
        self.making_room = threading.Lock()
        """Held by the thread that deletes sessions for others to come."""
        self._count = 0
        self._recount_s = 0.0

    def find_surplus(self, server: str, limit: int) -> int:
        """Return how many sessions have to go before another one comes."""
        now_s = time.monotonic()
        if now_s >= self._recount_s:
            self._count = Session.objects.filter(server=server).count()
            self._recount_s = now_s + RECOUNT_S
        return max(0, self._count - limit + 1)

    def add(self, change: int) -> None:
        """Take note of sessions that came, or went."""
        self._count += change


def insert_session(
    row: Session, tally: Tally, max_each: int, max_all: int, closed: Closed
) -> list[str]:
    """Insert a session, after those idle for longest have made room; return the keys of these."""
    ended: list[UUID] = []
    # Others that come meanwhile would find the same ones in the way. What is then too many goes next.
    if tally.making_room.acquire(blocking=False):
        try:
            ended = _make_room(row, tally, max_each, max_all, closed)
        finally:
            tally.making_room.release()
    row.save(force_insert=True)
    tally.add(1 - len(ended))
    return [key.hex for key in ended]


def _make_room(
    row: Session, tally: Tally, max_each: int, max_all: int, closed: Closed
) -> list[UUID]:
    doomed = _find_surplus(row, max_each) if row.principal_key else []
    surplus = min(tally.find_surplus(row.server, max_all) - len(doomed), AT_ONCE)
    if surplus > 0:
        oldest = Session.objects.filter(server=row.server).order_by("last_seen_at", "pk")
        doomed += oldest.exclude(pk__in=doomed).values_list("pk", flat=True)[:surplus]
    if not doomed:
        return []
    # What another process is busy with has made room already, or is in use.
    return close_sessions(doomed, Closing.EVICTED, closed, is_waiting=False)


def _find_surplus(row: Session, max_each: int) -> list[UUID]:
    """Return which sessions of a principal make room for another: none, or a few at a time.

    To delete one takes ten statements, whoever it is, and as many for ten.
    """
    spare = max_each // SPARE
    first = max(0, max_each - 1 - spare)
    rows = (
        Session.objects.filter(server=row.server, principal_key=row.principal_key)
        .order_by("-last_seen_at", "-pk")
        .values_list("pk", flat=True)
    )
    found = list(rows[first : max_each + AT_ONCE - 1])
    return found if len(found) > max_each - 1 - first else []


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
