"""Write recorded events and the times of last use, from one thread of each process, and delete events over the limits.

The queue is bounded. While the database is down it is kept; when it is full, events are dropped and
a log message gives their number. The rest is written when the process ends.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias
from uuid import UUID

from django.db import IntegrityError, InterfaceError, OperationalError, router, transaction
from django.db.models import Count, Max, QuerySet, Sum

from django_mcp.conf import server_settings, settings
from django_mcp.execution.background import QUEUE_FULL, BackgroundWriter
from django_mcp.execution.db_connections import run_with_connections
from django_mcp.execution.outages import Warner
from django_mcp.execution.tables import ANONYMOUS_PREFIX, insert_missing
from django_mcp.execution.workers import RENEW_EVERY_S, worker_lease
from django_mcp.log import logger
from django_mcp.models.sessions import Session, Stream, StreamEvent
from django_mcp.process import PerProcess, at_end

MAX_QUEUED = 10_000
MAX_QUEUED_BYTES = 64 * 1024 * 1024
BATCH = 500
BATCH_BYTES = 8 * 1024 * 1024
GATHER_S = 0.05
"""How long events wait, so that several are written together."""

GATHER_SEEN_S = 1.0
PAUSE_S = 1.0
"""Pause after a failure."""

RETRIED = (InterfaceError, OperationalError)
"""The database is down or too busy, so the batch is kept."""

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

_Key = UUID | tuple[str, ...]
"""The key of a quota: the key of a session, `(server, caller)`, or `()` for all sessions."""

_grown: Counter[_Key] = Counter()
"""The bytes that were recorded for each key since its last check."""

MAX_GROWN = 10_000
"""Keys whose bytes are counted. Age limits what the other sessions hold."""

NewEvent: TypeAlias = tuple[StreamEvent, str, str]
"""The row of an event, with the server and the quota key of its session."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteBatch:
    """What is written together."""

    events: list[NewEvent]
    streams: list[Stream]
    """The rows of streams that have started and not ended."""
    ended: set[UUID]
    """Written streams that have ended."""
    seen: dict[str, float]
    """When sessions were last used, by key."""


def write_batch(batch: WriteBatch) -> None:
    """Write a batch, from the writer's thread or from one that cannot wait for it."""
    if batch.events or batch.streams or batch.ended:
        write = transaction.atomic(router.db_for_write(StreamEvent))(_write_streams)
        try:
            run_with_connections(lambda: write(batch, is_renewed=False), is_own_write=True)
        except IntegrityError:
            # This process renewed its lease too late, so its row was deleted.
            run_with_connections(lambda: write(batch, is_renewed=True), is_own_write=True)
    if batch.seen:
        # One statement for all: the times of a batch differ by a second, unless the database was down.
        seen_at = datetime.fromtimestamp(int(max(batch.seen.values())), UTC)
        rows = Session.objects.filter(pk__in=batch.seen, last_seen_at__lt=seen_at)
        run_with_connections(lambda: rows.update(last_seen_at=seen_at), is_own_write=True)


def _write_streams(batch: WriteBatch, *, is_renewed: bool) -> None:
    if batch.streams:
        worker_lease.hold(is_due=is_renewed)
        insert_missing(batch.streams, "server")
    # Rows written before the database went down are left unchanged.
    events = [event for event, _server, _quota_key in batch.events]
    insert_missing(events, "number")
    if batch.ended:
        Stream.objects.filter(pk__in=batch.ended).delete()
    for key in _find_due(batch.events):
        _bound(key)


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
        anonymous = rows.filter(session__quota_key__startswith=ANONYMOUS_PREFIX)
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


class SessionWriter(BackgroundWriter["WriteBatch"]):
    """Writes what becomes of sessions: the streams of calls, their events, and when they were last used."""

    def __init__(self) -> None:
        super().__init__("django-mcp-sessions", "Events of streams")
        self._lock = threading.Lock()
        self._streams: dict[UUID, Stream] = {}
        self._ended: set[UUID] = set()
        self._events: deque[NewEvent] = deque()
        self._bytes = 0
        self._seen: dict[str, float] = {}
        self._running: set[UUID] = set()
        self._is_urgent = threading.Event()
        self._outage = Warner()

    def put_stream(self, stream: Stream) -> None:
        """Queue that a call's stream runs in this process."""
        with self._lock:
            self._streams[stream.id] = stream
            self._running.add(stream.id)
        self._wake_urgently()

    def put_event(self, event: NewEvent) -> None:
        """Queue an event to record."""
        with self._lock:
            if len(self._events) >= MAX_QUEUED or self._bytes >= MAX_QUEUED_BYTES:
                self._drop(1, QUEUE_FULL)
                return
            self._events.append(event)
            self._bytes += event[0].size
            is_full = len(self._events) >= BATCH
        self._wake_urgently()
        if is_full:
            self._is_due.set()

    def end_stream(self, stream: UUID) -> None:
        """Queue that a call's stream has ended."""
        with self._lock:
            self._running.discard(stream)
            # A stream that is not written yet never will be.
            if self._streams.pop(stream, None) is None:
                self._ended.add(stream)
        self._wake_urgently()

    def note_seen(self, key: str, now_s: float) -> None:
        """Queue the time when a session was last used."""
        with self._lock:
            if len(self._seen) < MAX_QUEUED:
                self._seen[key] = now_s
        self._wake()

    @property
    def has_waiting(self) -> bool:
        """Whether a stream's events are queued or being written."""
        return bool(self._events or self._streams or self._ended) or self._flushing.locked()

    def flush(self) -> None:
        """Write what is queued by now. While the database is down it stays queued, and this raises."""
        self._is_urgent.clear()
        super().flush()

    def _take(self) -> WriteBatch | None:
        with self._lock:
            events: list[NewEvent] = []
            size = 0
            while self._events and len(events) < BATCH and size < BATCH_BYTES:
                event = self._events.popleft()
                events.append(event)
                size += event[0].size
            self._bytes -= size
            streams, self._streams = self._streams, {}
            # Its events first, so that an end is never seen without them.
            ended, self._ended = (set(), self._ended) if self._events else (self._ended, set())
            seen, self._seen = self._seen, {}
            if not (events or streams or ended or seen):
                return None
            return WriteBatch(events=events, streams=list(streams.values()), ended=ended, seen=seen)

    def _store(self, batch: WriteBatch) -> None:
        try:
            write_batch(batch)
        except RETRIED:
            with self._lock:
                self._events.extendleft(reversed(batch.events))
                self._bytes += sum(each.size for each, _server, _quota_key in batch.events)
                for stream in batch.streams:
                    if stream.id in self._running:
                        self._streams.setdefault(stream.id, stream)
                self._ended |= batch.ended
                self._seen = {**batch.seen, **self._seen}
            raise
        except Exception as error:
            logger.exception("Could not record events of streams")
            self._drop(len(batch.events), error)

    def _wake_urgently(self) -> None:
        self._is_urgent.set()
        self._wake()

    def _gather(self) -> None:
        is_filled = self._is_filled.wait(RENEW_EVERY_S if self._running else None)
        if is_filled and self._is_urgent.wait(GATHER_SEEN_S):
            self._is_due.wait(GATHER_S)

    def _write(self) -> None:
        if self._stopped.is_set():
            return
        try:
            if self._running:
                run_with_connections(worker_lease.hold, is_own_write=True)
            self.flush()
        except RETRIED as error:
            self._outage.warn("Could not write changes of sessions; trying again: %r", error)
            self._stopped.wait(PAUSE_S)
            # The batch that was put back is still to be written.
            self._is_filled.set()


session_writer = PerProcess(
    SessionWriter,
    settings=("DJANGO_MCP", "DATABASES", "DATABASE_ROUTERS"),
    close=SessionWriter.stop,
)
"""The writer of this process."""


def flush_sessions() -> None:
    """Write what is queued in this process now, in this thread."""
    session_writer.get().flush()


def forget_sessions() -> None:
    """Drop what is queued in this process: the changes of one test are not for the next."""
    if session_writer.current is not None:
        session_writer.current.forget()


def write_if_alone() -> None:
    """Write what is queued if no thread does, as with `SYNC_THREADS` 0."""
    if not settings.SYNC_THREADS:
        flush_sessions()


def _finish() -> None:
    try:
        flush_sessions()
    except RETRIED as error:
        logger.warning("Could not write changes of sessions: %r", error)


at_end(_finish)
