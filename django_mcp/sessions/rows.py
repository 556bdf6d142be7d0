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
from django.db.models import BooleanField, Count, Max, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.db.models.functions import Length

from django_mcp.handlers.quotas import digest_of_quota
from django_mcp.models.sessions import Session, Stream, Subscription
from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.texts import name_and_version
from django_mcp.server.exchange.connection import Closing
from django_mcp.server.exchange.connection import Session as CoreSession
from django_mcp.server.exchange.subscription_limits import TOO_MANY_URIS, URI_LIMITS, check_uris
from django_mcp.server.services.session_lookup import SESSIONS_FULL
from django_mcp.sessions.closing import Closed, close_sessions
from django_mcp.sessions.usage import Usage

__all__ = [
    "Row",
    "SessionLimits",
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
    "quota_key",
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
    quota_key: str,
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
        quota_key=digest_of_quota(quota_key),
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
    values = {**_settled(session), "log_level": session.log_level or ""}
    Session.objects.filter(pk=UUID(session.key)).update(**values)


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
    """Return whether a process that is alive has a stream of a session, or may have one by now."""
    streams = Stream.objects.filter(session_id=UUID(key), worker__lease_until__gt=moment(now_s))
    return (
        streams.exists()
        # The rows of streams are written some seconds after they were opened.
        or Session.objects.filter(pk=UUID(key), created_at__gt=moment(now_s - YOUNG_S)).exists()
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionLimits:
    """How many sessions a server keeps: of one quota, of anonymous callers together, and in all."""

    each: int
    anonymous: int
    total: int


class Tally:
    """How many sessions a server has, near enough: counted now and then, and kept up meanwhile."""

    def __init__(self) -> None:
        self.making_room = threading.Lock()
        """Held by the thread that deletes sessions for others to come."""
        self.total = 0
        self.anonymous = 0
        self._recount_s = 0.0

    def count(self, server: str) -> None:
        """Count the sessions of a server again, unless that was done a moment ago."""
        now_s = time.monotonic()
        if now_s >= self._recount_s:
            rows = Session.objects.filter(server=server).order_by()
            self.total, self.anonymous = rows.aggregate(
                total=Count("pk"), anonymous=Count("pk", filter=Q(principal_key=""))
            ).values()
            self._recount_s = now_s + RECOUNT_S

    def add(self, change: int, *, anonymous: int = 0) -> None:
        """Take note of sessions that came, or went."""
        self.total += change
        self.anonymous += anonymous


def insert_session(
    row: Session, tally: Tally, limits: SessionLimits, closed: Closed
) -> list[str] | Refusal:
    """Insert a session, after those idle for longest have made room; return the keys of these.

    Anonymous sessions make room first. An anonymous session never replaces another caller's: it is
    refused when nothing else is left.
    """
    ended: list[UUID] = []
    # Others that come meanwhile would find the same ones in the way. What is then too many goes next.
    if tally.making_room.acquire(blocking=False):
        try:
            tally.count(row.server)
            doomed, anonymous, has_room = _find_surplus(row, tally, limits)
            if not has_room:
                return SESSIONS_FULL
            if doomed:
                # What another process is busy with has made room already, or is in use.
                ended = close_sessions(doomed, Closing.EVICTED, closed, is_waiting=False)
                tally.add(-len(ended), anonymous=-min(anonymous, len(ended)))
        finally:
            tally.making_room.release()
    row.save(force_insert=True)
    tally.add(1, anonymous=0 if row.principal_key else 1)
    return [key.hex for key in ended]


def _find_surplus(
    row: Session, tally: Tally, limits: SessionLimits
) -> tuple[list[UUID], int, bool]:
    """Return which sessions make room for another, how many are anonymous, and if that suffices."""
    is_anonymous = not row.principal_key
    doomed = _find_own_surplus(row, limits.each)
    anonymous = len(doomed) if is_anonymous else 0
    oldest = Session.objects.filter(server=row.server).order_by("last_seen_at", "pk")
    surplus = tally.total - len(doomed) - limits.total + 1
    if is_anonymous:
        surplus = max(surplus, tally.anonymous - anonymous - limits.anonymous + 1)
    surplus = min(surplus, AT_ONCE)
    if surplus > 0:
        rows = oldest.filter(principal_key="").exclude(pk__in=doomed)
        found = list(rows.values_list("pk", flat=True)[:surplus])
        doomed += found
        anonymous += len(found)
        surplus -= len(found)
    if surplus > 0 and not is_anonymous:
        doomed += oldest.exclude(pk__in=doomed).values_list("pk", flat=True)[:surplus]
        surplus = 0
    return doomed, anonymous, surplus <= 0


def _find_own_surplus(row: Session, max_each: int) -> list[UUID]:
    """Return which sessions of a quota make room for another: none, or a few at a time.

    To delete one takes ten statements, whoever it is, and as many for ten.
    """
    spare = max_each // SPARE
    first = max(0, max_each - 1 - spare)
    rows = (
        Session.objects.filter(server=row.server, quota_key=row.quota_key)
        .order_by("-last_seen_at", "-pk")
        .values_list("pk", flat=True)
    )
    found = list(rows[first : max_each + AT_ONCE - 1])
    return found if len(found) > max_each - 1 - first else []


_subscriptions = Usage(Subscription, Length("uri"), URI_LIMITS)


def add_subscription(session: CoreSession, uri: str) -> set[str] | Refusal:
    """Subscribe a session to a URI; return all of its URIs, or why it cannot have this one."""
    before = read_uris(session.key).get(session.key, set())
    found = before | {uri}
    refusal = check_uris(found)
    if refusal is not None or uri in before:
        return refusal or found
    scope = _subscriptions.take(session, len(uri))
    if scope is not None:
        return TOO_MANY_URIS[scope]
    row = Subscription(session_id=UUID(session.key), uri=uri, uri_digest=_digest(uri))
    Subscription.objects.bulk_create([row], ignore_conflicts=True)
    return found


def remove_subscription(key: str, uri: str) -> None:
    """Take a URI from a session's, if it is there."""
    Subscription.objects.filter(session_id=UUID(key), uri_digest=_digest(uri)).delete()


def is_any_subscribed(server: str, uri: str) -> bool:
    """Return whether a session of a server is subscribed to a URI, and has not reached its full age."""
    rows = Subscription.objects.filter(uri_digest=_digest(uri), session__server=server)
    return rows.filter(session__expires_at__gt=moment(time.time())).exists()


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
