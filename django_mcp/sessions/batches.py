"""The batches that a process writes, and the limits on what is recorded of a session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError, InterfaceError, OperationalError, router, transaction
from django.db.models import Count, Max, QuerySet, Sum

from django_mcp.conf import server_settings
from django_mcp.handlers.db_connections import run_with_connections
from django_mcp.handlers.quotas import ANONYMOUS
from django_mcp.models.sessions import Session, Stream, StreamEvent
from django_mcp.workers import hold_lease, worker_id

__all__ = [
    "MAX_EVENT_AGE_S",
    "RETRIED",
    "Batch",
    "NewEvent",
    "NewStream",
    "prune_events",
    "renew_lease",
    "write",
]

RETRIED = (InterfaceError, OperationalError)
"""The database is down or too busy, so the batch is kept."""

MAX_EVENT_AGE_S = 600.0
MAX_SESSION_EVENTS = 2000
MAX_SESSION_BYTES = 32 * 1024 * 1024
MAX_OWN_EVENTS = 10_000
MAX_OWN_BYTES = 128 * 1024 * 1024
MAX_EVENTS = 250_000
MAX_BYTES = 1024 * 1024 * 1024
"""Limits on the recorded events of one session, of a caller's sessions at a server, and of all.

The streams that are idle longest are deleted first."""

CHUNK = 500
"""Streams whose events are deleted with one statement."""

LOOK_AFTER_EVENTS = 100
LOOK_AFTER_BYTES = 4 * 1024 * 1024
"""How much a process writes for a session before it checks the session's limits."""

LOOK_AFTER_MORE = 5
"""How many times as much it writes before it checks the limits of the caller, and of all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewStream:
    """A resumable call has started."""

    id: UUID
    session: UUID
    server: str
    principal_key: str
    user_id: Any
    revision: str
    client_name: str
    client_version: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NewEvent:
    """An event to record."""

    stream: UUID
    session: UUID
    number: int
    message: bytes
    is_last: bool
    server: str = ""
    quota_key: str = ""

    @property
    def size(self) -> int:
        """Bytes of its message."""
        return len(self.message)


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """What is written together.

    Attributes:
        streams: streams that have started and not ended.
        ended: written streams that have ended.
        seen: when sessions were last used, by key.
    """

    events: list[NewEvent]
    streams: list[NewStream]
    ended: set[UUID]
    seen: dict[str, float]


def write(batch: Batch) -> None:
    """Write a batch, from the writer's thread or from one that cannot wait for it."""
    if batch.events or batch.streams or batch.ended:
        try:
            _run_atomically(lambda: _write_streams(batch, is_renewed=False))
        except IntegrityError:
            # This process renewed its lease too late, so its row was deleted.
            _run_atomically(lambda: _write_streams(batch, is_renewed=True))
    if batch.seen:
        _run_atomically(lambda: _write_seen(batch.seen))


def renew_lease() -> None:
    """Renew this process's lease if it is due."""
    run_with_connections(hold_lease)


def _run_atomically(function: Callable[[], None]) -> None:
    def write() -> None:
        with transaction.atomic(router.db_for_write(StreamEvent)):
            function()

    run_with_connections(write)


def _write_streams(batch: Batch, *, is_renewed: bool) -> None:
    if batch.streams:
        hold_lease(is_due=is_renewed)
        Stream.objects.bulk_create(map(_to_stream, batch.streams), ignore_conflicts=True)
    # Rows written before the database went down are left unchanged.
    StreamEvent.objects.bulk_create(map(_to_event, batch.events), ignore_conflicts=True)
    if batch.ended:
        Stream.objects.filter(pk__in=batch.ended).delete()
    for key in _grown.note(batch.events):
        _bound(key)


def _write_seen(seen: dict[str, float]) -> None:
    # Rounded to seconds, so that few statements are needed.
    by_second: dict[int, list[str]] = {}
    for key, time_s in seen.items():
        by_second.setdefault(int(time_s), []).append(key)
    for time_s, keys in by_second.items():
        seen_at = datetime.fromtimestamp(time_s, UTC)
        Session.objects.filter(pk__in=keys, last_seen_at__lt=seen_at).update(last_seen_at=seen_at)


_Key = UUID | tuple[str, ...]
"""The key of a limit: a session's, a server's and a caller's, or that of all: `()`."""


class _Growth:
    """How much was recorded for each key since its last check."""

    def __init__(self) -> None:
        self._events: Counter[_Key] = Counter()
        self._bytes: Counter[_Key] = Counter()

    def note(self, events: Collection[NewEvent]) -> list[_Key]:
        """Count new events, and return the keys to check."""
        keys: dict[_Key, None] = {}
        for event in events:
            whose: tuple[_Key, ...] = (event.session, (event.server, event.quota_key), ())
            for key in whose:
                self._events[key] += 1
                self._bytes[key] += event.size
                keys[key] = None
        found = [
            key
            for key in keys
            if self._is_due(key, 1 if isinstance(key, UUID) else LOOK_AFTER_MORE)
        ]
        for key in found:
            del self._events[key], self._bytes[key]
        if len(self._events) > 10_000:
            # Age limits what the other sessions hold.
            self._events.clear()
            self._bytes.clear()
        return found

    def _is_due(self, key: _Key, times: int) -> bool:
        return (
            self._events[key] >= LOOK_AFTER_EVENTS * times
            or self._bytes[key] >= LOOK_AFTER_BYTES * times
        )


_grown = _Growth()


def _bound(key: _Key) -> None:
    """Delete streams until a session, a caller or all are within the limits."""
    rows = StreamEvent.objects.order_by()
    if isinstance(key, UUID):
        _delete_quiet(rows.filter(session_id=key), MAX_SESSION_EVENTS, MAX_SESSION_BYTES)
    elif key:
        own = rows.filter(session__server=key[0], session__quota_key=key[1])
        _delete_quiet(own, MAX_OWN_EVENTS, MAX_OWN_BYTES)
    else:
        # Anonymous callers first, so that they cannot displace others.
        share = server_settings.anonymous_share
        anonymous = rows.filter(session__quota_key__startswith=ANONYMOUS)
        _delete_quiet(anonymous, int(MAX_EVENTS * share), int(MAX_BYTES * share))
        _delete_quiet(rows, MAX_EVENTS, MAX_BYTES)


def _delete_quiet(rows: QuerySet[StreamEvent], max_events: int, max_bytes: int) -> None:
    """Delete the streams that are idle longest, until the others are within the limits."""
    totals = rows.aggregate(count=Count("pk"), bytes=Sum("size"))
    if totals["count"] <= max_events and (totals["bytes"] or 0) <= max_bytes:
        return
    streams = (
        rows.values("stream_id")
        .annotate(count=Count("pk"), bytes=Sum("size"), newest=Max("pk"))
        .order_by("-newest")
        .values_list("stream_id", "count", "bytes")
    )
    count = size = 0
    doomed = []
    for stream, events, event_bytes in streams:
        count += events
        size += event_bytes
        if count > events and (count > max_events or size > max_bytes):
            doomed.append(stream)
    for start in range(0, len(doomed), CHUNK):
        StreamEvent.objects.filter(stream_id__in=doomed[start : start + CHUNK]).delete()


def prune_events(*, limit: int, is_dry_run: bool = False) -> int:
    """Delete events that are too old to be resumed, up to `limit`; return how many."""
    before = datetime.now(UTC) - timedelta(seconds=MAX_EVENT_AGE_S)
    old = StreamEvent.objects.filter(created_at__lt=before)
    if is_dry_run:
        return old.count()
    keys = list(old.order_by("created_at").values_list("pk", flat=True)[:limit])
    return StreamEvent.objects.filter(pk__in=keys).delete()[0] if keys else 0


def _to_stream(stream: NewStream) -> Stream:
    return Stream(
        id=stream.id,
        kind=Stream.Kind.CALL,
        worker_id=worker_id(),
        session_id=stream.session,
        server=stream.server,
        principal_key=stream.principal_key,
        user_id=stream.user_id,
        revision=stream.revision,
        client_name=stream.client_name,
        client_version=stream.client_version,
    )


def _to_event(event: NewEvent) -> StreamEvent:
    return StreamEvent(
        stream_id=event.stream,
        session_id=event.session,
        number=event.number,
        message=event.message.decode(),
        is_last=event.is_last,
        size=event.size,
    )
