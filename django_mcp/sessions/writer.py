"""Write recorded events and the times of last use, from one thread of each process.

The queue is bounded. While the database is down it is kept; when it is full, events are dropped and
a log message gives their number. The rest is written when the process ends.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections import deque
from typing import TYPE_CHECKING
from uuid import UUID

from django_mcp.conf import settings
from django_mcp.execution.background import QUEUE_FULL, BackgroundWriter
from django_mcp.execution.db_connections import run_with_connections
from django_mcp.execution.workers import RENEW_EVERY_S, process_lease
from django_mcp.process import PerProcess
from django_mcp.sessions import batches

if TYPE_CHECKING:
    from django_mcp.models.sessions import Stream
    from django_mcp.sessions.batches import Batch, NewEvent

logger = logging.getLogger("django_mcp")

MAX_QUEUED = 10_000
MAX_QUEUED_BYTES = 64 * 1024 * 1024
BATCH = 500
BATCH_BYTES = 8 * 1024 * 1024
GATHER_S = 0.05
"""How long events wait, so that several are written together."""

GATHER_SEEN_S = 1.0
PAUSE_S = 1.0
"""Pause after a failure. Our own limit."""


class SessionWriter(BackgroundWriter["Batch"]):
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

    def _take(self) -> Batch | None:
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
            return batches.Batch(
                events=events, streams=list(streams.values()), ended=ended, seen=seen
            )

    def _store(self, batch: Batch) -> None:
        try:
            batches.write(batch)
        except batches.RETRIED:
            self._put_back(batch)
            raise
        except Exception as error:
            logger.exception("Could not record events of streams")
            self._drop(len(batch.events), error)

    def _put_back(self, batch: Batch) -> None:
        with self._lock:
            self._events.extendleft(reversed(batch.events))
            self._bytes += sum(each.size for each, _server, _quota_key in batch.events)
            for stream in batch.streams:
                if stream.id in self._running:
                    self._streams.setdefault(stream.id, stream)
            self._ended |= batch.ended
            self._seen = {**batch.seen, **self._seen}

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
                run_with_connections(process_lease.hold)
            self.flush()
        except batches.RETRIED as error:
            logger.warning("Could not write changes of sessions; trying again: %r", error)
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


def write_if_alone() -> None:
    """Write what is queued if no thread does, as with `SYNC_THREADS` 0."""
    if not settings.SYNC_THREADS:
        session_writer.get().flush()


def _finish() -> None:
    try:
        session_writer.get().flush()
    except batches.RETRIED as error:
        logger.warning("Could not write changes of sessions: %r", error)


atexit.register(_finish)
