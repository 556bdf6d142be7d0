"""Write recorded events and the times of last use, from one thread of each process.

The queue is bounded. While the database is down it is kept; when it is full, events are dropped and
a log message gives their number. The rest is written when the process ends.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING
from uuid import UUID

from django.core.signals import setting_changed

from django_mcp.conf import settings
from django_mcp.sessions import batches
from django_mcp.workers import RENEW_EVERY_S

if TYPE_CHECKING:
    from django_mcp.sessions.batches import Batch, NewEvent, NewStream

__all__ = [
    "end_stream",
    "flush_sessions",
    "has_waiting",
    "note_seen",
    "put_event",
    "put_stream",
    "write_if_alone",
]

logger = logging.getLogger("django_mcp")

MAX_QUEUED = 10_000
MAX_QUEUED_BYTES = 64 * 1024 * 1024
BATCH = 500
BATCH_BYTES = 8 * 1024 * 1024
GATHER_S = 0.05
"""How long events wait, so that several are written together."""

GATHER_SEEN_S = 1.0
WAIT_S = 4.0
PAUSE_S = 1.0
"""Pause after a failure. Our own limit."""


class _Writer:
    """The queue of one process, and the thread that empties it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._streams: dict[UUID, NewStream] = {}
        self._ended: set[UUID] = set()
        self._events: deque[NewEvent] = deque()
        self._bytes = 0
        self._seen: dict[str, float] = {}
        self._running: set[UUID] = set()
        self._tickets: list[Future[None]] = []
        self._dropped = 0
        self._next_warning_s = 0.0
        self._is_filled = threading.Event()
        self._is_urgent = threading.Event()
        self._is_due = threading.Event()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    # -- from any thread

    def put_stream(self, stream: NewStream) -> None:
        with self._lock:
            self._streams[stream.id] = stream
            self._running.add(stream.id)
        self._wake(is_urgent=True)

    def put_event(self, event: NewEvent) -> None:
        with self._lock:
            if len(self._events) >= MAX_QUEUED or self._bytes >= MAX_QUEUED_BYTES:
                self._drop(1)
                return
            self._events.append(event)
            self._bytes += event.size
            is_full = len(self._events) >= BATCH
        self._wake(is_urgent=True)
        if is_full:
            self._is_due.set()

    def end_stream(self, stream: UUID) -> None:
        with self._lock:
            self._running.discard(stream)
            # A stream that is not written yet never will be.
            if self._streams.pop(stream, None) is None:
                self._ended.add(stream)
        self._wake(is_urgent=True)

    def note_seen(self, key: str, now_s: float) -> None:
        with self._lock:
            if len(self._seen) < MAX_QUEUED:
                self._seen[key] = now_s
        self._wake(is_urgent=False)

    @property
    def has_waiting(self) -> bool:
        """Whether a stream's events are queued or being written."""
        return bool(self._events or self._streams or self._ended) or self._flushing.locked()

    def flush(self) -> None:
        """Write what is queued by now; return when it is written, or raise the error."""
        with self._flushing:
            # Cleared before the queue is read, so that nothing queued meanwhile is missed.
            for each in (self._is_due, self._is_urgent, self._is_filled):
                each.clear()
            while batch := self._take():
                try:
                    batches.write(batch)
                except batches.RETRIED:
                    self._put_back(batch)
                    raise
                except Exception:
                    logger.exception("Could not record events of streams")
                    self._drop(len(batch.events))

    def catch_up(self) -> None:
        """Have the thread write what is queued by now, and wait for that; raise its error."""
        if self._thread is None:
            self.flush()
            return
        # Not in this thread: the caller may be inside a transaction that is rolled back.
        ticket: Future[None] = Future()
        with self._lock:
            self._tickets.append(ticket)
        for each in (self._is_due, self._is_urgent, self._is_filled):
            each.set()
        ticket.result(WAIT_S)

    # -- inside

    def _take(self) -> Batch | None:
        with self._lock:
            events: list[NewEvent] = []
            size = 0
            while self._events and len(events) < BATCH and size < BATCH_BYTES:
                event = self._events.popleft()
                events.append(event)
                size += event.size
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

    def _put_back(self, batch: Batch) -> None:
        with self._lock:
            self._events.extendleft(reversed(batch.events))
            self._bytes += sum(each.size for each in batch.events)
            for stream in batch.streams:
                if stream.id in self._running:
                    self._streams.setdefault(stream.id, stream)
            self._ended |= batch.ended
            self._seen = {**batch.seen, **self._seen}

    def _drop(self, count: int) -> None:
        self._dropped += count
        now_s = time.monotonic()
        if count and now_s >= self._next_warning_s:
            self._next_warning_s = now_s + 60.0
            logger.warning(
                "Events of streams that were not recorded, because the database was down or too "
                "slow: %d since the start",
                self._dropped,
            )

    def _wake(self, *, is_urgent: bool) -> None:
        if is_urgent:
            self._is_urgent.set()
        self._is_filled.set()
        if self._thread is None and settings.SYNC_THREADS:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._work, name="django-mcp-sessions", daemon=True
                    )
                    self._thread.start()

    def stop(self) -> None:
        """End the thread: what is queued is for a database that no longer exists."""
        self._stopped.set()
        for each in (self._is_due, self._is_urgent, self._is_filled):
            each.set()

    def _work(self) -> None:
        from django.db import connections

        while True:
            is_filled = self._is_filled.wait(RENEW_EVERY_S if self._running else None)
            if is_filled and self._is_urgent.wait(GATHER_SEEN_S):
                self._is_due.wait(GATHER_S)
            if self._stopped.is_set():
                break
            with self._lock:
                tickets, self._tickets = self._tickets, []
            try:
                if self._running:
                    batches.renew_lease()
                self.flush()
                for ticket in tickets:
                    ticket.set_result(None)
            except batches.RETRIED as error:
                for ticket in tickets:
                    ticket.set_exception(error)
                logger.warning("Could not write changes of sessions; trying again: %r", error)
                self._stopped.wait(PAUSE_S)
                # The batch that was put back is still to be written.
                self._is_filled.set()
        connections.close_all()


_writer = _Writer()


def put_stream(stream: NewStream) -> None:
    """Queue that a call's stream runs in this process."""
    _writer.put_stream(stream)


def put_event(event: NewEvent) -> None:
    """Queue an event to record."""
    _writer.put_event(event)


def end_stream(stream: UUID) -> None:
    """Queue that a call's stream has ended."""
    _writer.end_stream(stream)


def note_seen(key: str, now_s: float) -> None:
    """Queue the time when a session was last used."""
    _writer.note_seen(key, now_s)


def has_waiting() -> bool:
    """Return whether a stream's events are not written yet."""
    return _writer.has_waiting


def flush_sessions() -> None:
    """Write what is queued in this process now, and wait for that."""
    _writer.catch_up()


def write_if_alone() -> None:
    """Write what is queued if no thread does, as with `SYNC_THREADS` 0."""
    if not settings.SYNC_THREADS:
        _writer.flush()


def _finish() -> None:
    try:
        _writer.flush()
    except batches.RETRIED as error:
        logger.warning("Could not write changes of sessions: %r", error)


def _start_anew(*, setting: str, **_kwargs: object) -> None:
    global _writer
    # Its thread holds connections to the databases of other tests.
    if setting in ("DJANGO_MCP", "DATABASES", "DATABASE_ROUTERS"):
        _writer.stop()
        _writer = _Writer()


def _forget_writer() -> None:
    # The thread and its batch stayed in the parent process.
    global _writer
    _writer = _Writer()


atexit.register(_finish)
setting_changed.connect(_start_anew, dispatch_uid="django_mcp.sessions.writer")
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_writer)
