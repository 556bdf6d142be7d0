"""Queries of the session store, which run in threads with connections."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from django.db import connections, transaction
from django.db.models import BooleanField, Count, F, Max, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.db.models.functions import Length

from django_mcp.execution.outages import Breaker
from django_mcp.execution.own_writes import write_in_pool
from django_mcp.execution.tables import Usage, caller_of, digest_of_quota, insert_missing, moment
from django_mcp.execution.threads import run_in_pool
from django_mcp.models.sessions import Session, Stream, Subscription
from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.sanitize import name_and_version
from django_mcp.server.exchange.digests import digest_of
from django_mcp.server.exchange.quotas import TOO_MANY_URIS, URI_LIMITS, CountLimits, check_uris
from django_mcp.server.exchange.session import Closing
from django_mcp.server.exchange.session import Session as CoreSession
from django_mcp.server.request_checks import SESSIONS_FULL
from django_mcp.sessions.site.closing import close_sessions
from django_mcp.sessions.site.writer import session_writer

T = TypeVar("T")

YOUNG_S = 10.0
"""How long after its start a session may have a stream without a row."""

CHUNK = 500
"""Sessions queried in one statement."""

SPARE = 100
"""When sessions are evicted, 1 in this many of the principal's is evicted too."""

AT_ONCE = 100
"""Sessions over the limit that are evicted at a time, for example after it was lowered."""

RECOUNT_S = 5.0
"""How long a process uses its count of all sessions."""

NOTE_EVERY_S = 5.0
"""How often the use of a session is written."""


@dataclass(slots=True)
class Known:
    """What the store knows of a session; times in seconds since the epoch."""

    digest: str
    user_id: Any
    read_s: float = 0.0
    seen_s: float = 0.0
    noted_s: float = 0.0
    expires_s: float = 0.0
    is_written: bool = True
    """Whether its row is written; while SQLite is locked, a session exists in its process alone."""
    cached_bytes: int = 0
    """The size that the cache counts for this session."""
    mark: tuple[Any, ...] | None = None
    """Changes when the stored subscriptions change."""

    def is_over(self, now_s: float, idle_s: float) -> bool:
        """Return whether it has expired, or has not been used for longer than `idle_s`."""
        return now_s >= self.expires_s or now_s - self.seen_s > idle_s

    def note_use(self, key: str, now_s: float, idle_s: float) -> None:
        """Note that the session of this key is in use, and have it written from time to time."""
        self.seen_s = now_s
        unnoted_s = now_s - self.noted_s
        if unnoted_s >= NOTE_EVERY_S or unnoted_s >= idle_s / 4:
            self.noted_s = now_s
            session_writer.get().note_seen(key, now_s)


@dataclass(frozen=True, slots=True)
class Subscribed:
    """What a session is subscribed to, and how often that had changed."""

    version: int
    uris: set[str]


_breaker = Breaker("The database of the sessions")


async def ask_database(function: Callable[[], T]) -> T:
    """Run a function in a thread with usable connections; see `Breaker.run`."""
    return await run_in_pool(function, _breaker)


async def write_database(
    function: Callable[[], T], otherwise: Callable[[], T] | None = None, size: int = 0
) -> T:
    """Run a function that writes; see `write_in_pool`."""
    return await write_in_pool(function, _breaker, otherwise=otherwise, size=size)


def new_row(session: CoreSession, server: str, known: Known, quota_key: str) -> Session:
    """Return the row of a session that was opened when it was `known.seen_s`."""
    return Session(
        id=UUID(session.key),
        digest=known.digest,
        server=server,
        principal_key=session.principal_key or "",
        user_id=known.user_id,
        quota_key=digest_of_quota(quota_key),
        transport=session.transport,
        **_handshake_columns(session),
        is_initialized=session.is_initialized,
        log_level=session.log_level or "",
        created_at=moment(known.seen_s),
        last_seen_at=moment(known.seen_s),
        expires_at=moment(known.expires_s),
    )


def write_changes(session: CoreSession, names: Collection[str]) -> None:
    """Write attributes of a session to its row, each with what a handshake settled with it."""
    values = _handshake_columns(session) if "revision" in names else {}
    if "log_level" in names:
        values["log_level"] = session.log_level or ""
    if "is_initialized" in names:
        values["is_initialized"] = session.is_initialized
    Session.objects.filter(pk=UUID(session.key)).update(**values)


def _handshake_columns(session: CoreSession) -> dict[str, Any]:
    client_name, client_version = name_and_version(session.client_info)
    return {
        "revision": session.revision.name if session.revision is not None else "",
        "client_name": client_name,
        "client_version": client_version,
        "client_info": session.client_info,
        "capabilities": session.client_capabilities,
    }


def has_live_stream(key: str, now_s: float) -> bool:
    """Return whether a process that is alive has a stream of a session, or may have one by now."""
    streams = Stream.objects.filter(session_id=UUID(key), worker__lease_until__gt=moment(now_s))
    return (
        streams.exists()
        # Streams' rows are written some seconds after the streams are opened.
        or Session.objects.filter(pk=UUID(key), created_at__gt=moment(now_s - YOUNG_S)).exists()
    )


class Tally:
    """The approximate number of a server's sessions: counted periodically, and updated in between."""

    def __init__(self) -> None:
        self.making_room = threading.Lock()
        """Held by the thread that is evicting sessions."""
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
        """Count sessions that were opened or ended."""
        self.total += change
        self.anonymous += anonymous


def insert_session(row: Session, tally: Tally, limits: CountLimits) -> list[str] | Refusal:
    """Insert a session after evicting those idle longest; return the keys of the evicted ones.

    Anonymous sessions are evicted first. An anonymous session never evicts another caller's: it is
    rejected if there is no other.
    """
    ended: list[UUID] = []
    # A concurrent insert would choose the same sessions. The next one evicts what is left over.
    if tally.making_room.acquire(blocking=False):
        try:
            tally.count(row.server)
            doomed, anonymous, has_room = _find_evicted(row, tally, limits)
            if not has_room:
                return SESSIONS_FULL
            if doomed:
                # What another process has locked is being deleted, or in use.
                ended = close_sessions(doomed, Closing.EVICTED, is_waiting=False)
                tally.add(-len(ended), anonymous=-min(anonymous, len(ended)))
        finally:
            tally.making_room.release()
    row.save(force_insert=True)
    tally.add(1, anonymous=0 if row.principal_key else 1)
    return [key.hex for key in ended]


def _find_evicted(row: Session, tally: Tally, limits: CountLimits) -> tuple[list[UUID], int, bool]:
    """Return the sessions to evict, how many are anonymous, and whether they suffice."""
    is_anonymous = not row.principal_key
    # Of the principal's none, or a few at a time: deleting one takes ten statements, and so does
    # deleting ten.
    first = max(0, limits.each - 1 - limits.each // SPARE)
    own = Session.objects.filter(server=row.server, quota_key=row.quota_key)
    keys = own.order_by("-last_seen_at", "-pk").values_list("pk", flat=True)
    doomed = list(keys[first : limits.each + AT_ONCE - 1])
    if len(doomed) <= limits.each - 1 - first:
        doomed = []
    anonymous = len(doomed) if is_anonymous else 0
    oldest = Session.objects.filter(server=row.server).order_by("last_seen_at", "pk")
    surplus = tally.total - len(doomed) - limits.total + 1
    if is_anonymous:
        surplus = max(surplus, tally.anonymous - anonymous - limits.anonymous + 1)
    surplus = min(surplus, AT_ONCE)
    if surplus > 0:
        rows = oldest.filter(principal_key="").exclude(pk__in=doomed)
        evicted = list(rows.values_list("pk", flat=True)[:surplus])
        doomed += evicted
        anonymous += len(evicted)
        surplus -= len(evicted)
    if surplus > 0 and not is_anonymous:
        doomed += oldest.exclude(pk__in=doomed).values_list("pk", flat=True)[:surplus]
    return doomed, anonymous, surplus <= 0 or not is_anonymous


_subscriptions = Usage(Subscription.objects.all, Length("uri"), URI_LIMITS)


def add_subscription(session: CoreSession, uri: str) -> Subscribed | Refusal:
    """Subscribe a session to a URI; return all of its URIs, or a refusal.

    Raises:
        IntegrityError: the session has ended.
    """
    known = _read_one(session.key)
    refusal = check_uris(known.uris | {uri})
    if refusal is not None or uri in known.uris:
        return refusal or known
    scope = _subscriptions.take(caller_of(session), len(uri))
    if scope is not None:
        return TOO_MANY_URIS[scope]
    row = Subscription(session_id=UUID(session.key), uri=uri, uri_digest=digest_of(uri))
    with _changing_subscriptions(session.key):
        insert_missing([row], "uri_digest")
        return _read_one(session.key)


def remove_subscription(key: str, uri: str) -> Subscribed:
    """Unsubscribe a session from a URI, if it is subscribed; return its other URIs."""
    with _changing_subscriptions(key):
        Subscription.objects.filter(session_id=UUID(key), uri_digest=digest_of(uri)).delete()
        return _read_one(key)


@contextmanager
def _changing_subscriptions(key: str) -> Iterator[None]:
    """Run a block in a transaction, one after the other for one session, and count the change."""
    rows = Session.objects.filter(pk=UUID(key))
    with transaction.atomic(using=rows.db):
        rows.update(subscriptions_version=F("subscriptions_version") + 1)
        yield


def is_any_subscribed(server: str, uri: str) -> bool:
    """Return whether an unexpired session of a server is subscribed to a URI."""
    rows = Subscription.objects.filter(uri_digest=digest_of(uri), session__server=server)
    return rows.filter(session__expires_at__gt=moment(time.time())).exists()


def read_subscribed(*keys: str) -> dict[str, Subscribed]:
    """Return what sessions are subscribed to, by key; those that have ended are left out."""
    subscribed: dict[str, Subscribed] = {}
    columns = ("pk", "subscriptions_version", "subscriptions__uri")
    for start in range(0, len(keys), CHUNK):
        rows = Session.objects.filter(pk__in=keys[start : start + CHUNK]).order_by()
        # One query, so that a change comes with its version.
        for key, version, uri in rows.values_list(*columns):
            of_session = subscribed.setdefault(key.hex, Subscribed(version=version, uris=set()))
            if uri is not None:
                of_session.uris.add(uri)
    return subscribed


def _read_one(key: str) -> Subscribed:
    return read_subscribed(key).get(key) or Subscribed(version=0, uris=set())


def read_alive(keys: Iterable[str], now_s: float) -> dict[str, tuple[Any, ...]]:
    """Return the keys of existing sessions, each with a value that changes with its subscriptions."""
    alive: dict[str, tuple[Any, ...]] = {}
    wanted = list(keys)
    for start in range(0, len(wanted), CHUNK):
        rows = (
            _of_keys(wanted[start : start + CHUNK])
            .filter(expires_at__gt=moment(now_s))
            .order_by()
            .annotate(count=Count("subscriptions"), newest=Max("subscriptions__id"))
            .values_list("pk", "count", "newest")
        )
        alive.update((pk.hex, tuple(mark)) for pk, *mark in rows)
    return alive


def _of_keys(keys: list[str]) -> QuerySet[Session]:
    """Return the sessions with these keys; a process with streams queries this every few seconds."""
    connection = connections[Session.objects.db]
    if connection.vendor != "postgresql":
        return Session.objects.filter(pk__in=keys)
    # One parameter: Django and the driver are slow with hundreds.
    column = (
        f"{connection.ops.quote_name(Session._meta.db_table)}.{connection.ops.quote_name('id')}"
    )
    array = f"{{{','.join(keys)}}}"
    is_one = RawSQL(f"{column} = ANY(%s::uuid[])", [array], BooleanField())  # noqa: S611
    return Session.objects.filter(is_one)
