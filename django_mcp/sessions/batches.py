"""The batches that a process writes, and the limits on what is recorded of a session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias
from uuid import UUID

from django.db import IntegrityError, InterfaceError, OperationalError, router, transaction
from django.db.models import Count, Max, QuerySet, Sum

from django_mcp.conf import server_settings
from django_mcp.execution.db_connections import run_with_connections
from django_mcp.execution.tables import ANONYMOUS
from django_mcp.execution.workers import process_lease
from django_mcp.models.sessions import Session, Stream, StreamEvent

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

LOOK_AFTER_BYTES = 4_000_000
"""How much a process writes for a session before it checks the session's limits."""

LEAST_BYTES = 40_000
"""A smaller event counts as so many bytes then, so that 100 events are checked at the latest."""

LOOK_AFTER_MORE = 5
"""How many times as much it writes before it checks the limits of the caller, and of all."""


NewEvent: TypeAlias = tuple[StreamEvent, str, str]
"""The row of an event, with the server and the quota key of its session."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """What is written together.

    Attributes:
        streams: the rows of streams that have started and not ended.
        ended: written streams that have ended.
        seen: when sessions were last used, by key.
    """

    events: list[NewEvent]
    streams: list[Stream]
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


def _run_atomically(function: Callable[[], None]) -> None:
    def write() -> None:
        with transaction.atomic(router.db_for_write(StreamEvent)):
            function()

    run_with_connections(write)


def _write_streams(batch: Batch, *, is_renewed: bool) -> None:
    if batch.streams:
        process_lease.hold(is_due=is_renewed)
        Stream.objects.bulk_create(batch.streams, ignore_conflicts=True)
    # Rows written before the database went down are left unchanged.
    events = [event for event, _server, _quota_key in batch.events]
    StreamEvent.objects.bulk_create(events, ignore_conflicts=True)
    if batch.ended:
        Stream.objects.filter(pk__in=batch.ended).delete()
    for key in _find_due(batch.events):
        _bound(key)


def _write_seen(seen: dict[str, float]) -> None:
    # One statement for all: the times of a batch differ by a second, unless the database was down.
    seen_at = datetime.fromtimestamp(int(max(seen.values())), UTC)
    Session.objects.filter(pk__in=seen, last_seen_at__lt=seen_at).update(last_seen_at=seen_at)


_Key = UUID | tuple[str, ...]
"""The key of a limit: a session's, a server's and a caller's, or that of all: `()`."""


_grown: Counter[_Key] = Counter()
"""The bytes that were recorded for each key since its last check."""

MAX_GROWN = 10_000
"""Keys whose bytes are counted. Age limits what the other sessions hold. Our own limit."""


def _find_due(events: Collection[NewEvent]) -> list[_Key]:
    """Count new events, and return the keys whose limits are to be checked."""
    keys: dict[_Key, None] = {}
    for event, server, quota_key in events:
        whose: tuple[_Key, ...] = (event.session_id, (server, quota_key), ())
        for key in whose:
            _grown[key] += max(event.size, LEAST_BYTES)
            keys[key] = None
    more = LOOK_AFTER_BYTES * LOOK_AFTER_MORE
    due = [
        key for key in keys if _grown[key] >= (LOOK_AFTER_BYTES if isinstance(key, UUID) else more)
    ]
    for key in due:
        del _grown[key]
    if len(_grown) > MAX_GROWN:
        _grown.clear()
    return due


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


def expired_events() -> QuerySet[StreamEvent]:
    """Return the events that are too old to be resumed."""
    before = datetime.now(UTC) - timedelta(seconds=MAX_EVENT_AGE_S)
    return StreamEvent.objects.filter(created_at__lt=before).order_by("created_at")
