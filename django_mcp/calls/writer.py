"""Write calls in batches, from one thread of each process, and send `tool_called`.

The queue is bounded: if the database cannot keep up, calls are dropped and a log message gives
their number. The rest of the queue is written when the process ends.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from django.core.signals import setting_changed

from django_mcp.calls.call import RecordedCall
from django_mcp.calls.rows import insert
from django_mcp.conf import settings
from django_mcp.signals import tool_called

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["dropped", "flush_calls", "put"]

logger = logging.getLogger("django_mcp")

MAX_QUEUED = 10_000
BATCH = 1000
FLUSH_EVERY_S = 1.0
WARN_EVERY_S = 60.0

_Item = tuple[RecordedCall, bool, bool]


class _Writer:
    """The queue of one process, and the thread that empties it."""

    def __init__(self) -> None:
        self._queue: deque[_Item] = deque()
        self._is_filled = threading.Event()
        self._is_due = threading.Event()
        self._starting = threading.Lock()
        self._flushing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_stopped = False
        self._next_warning = 0.0
        self._unreported = 0
        self.dropped = 0

    def put(self, item: _Item) -> None:
        queue = self._queue
        queued = len(queue)
        if queued >= MAX_QUEUED:
            self._drop(1)
            return
        queue.append(item)
        if queued == 0:
            self._is_filled.set()
            if self._thread is None and settings.SYNC_THREADS:
                self._start()
        elif queued >= BATCH:
            self._is_due.set()

    def flush(self) -> None:
        """Write what is queued by now; return when it is written, or lost."""
        with self._flushing:
            # Cleared before the queue is read, so that nothing queued meanwhile is missed.
            self._is_due.clear()
            self._is_filled.clear()
            while batch := self._take():
                self._store([call for call, is_recorded, _ in batch if is_recorded])
                for call, _, is_told in batch:
                    if is_told:
                        _send_signal(call)

    def _take(self) -> list[_Item]:
        queue = self._queue
        return [queue.popleft() for _ in range(min(len(queue), BATCH))]

    def _store(self, calls: Sequence[RecordedCall]) -> None:
        if not calls:
            return
        try:
            insert(calls)
        except Exception:  # noqa: BLE001 - the top of this thread's loop
            self._drop(len(calls), exc_info=True)

    def _drop(self, count: int, *, exc_info: bool = False) -> None:
        self.dropped += count
        self._unreported += count
        now = time.monotonic()
        if now >= self._next_warning:
            self._next_warning = now + WARN_EVERY_S
            logger.warning(
                "Calls that were not recorded, because the database was down or too slow: "
                "%d (since the start: %d)",
                self._unreported,
                self.dropped,
                exc_info=exc_info,
            )
            self._unreported = 0

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="django-mcp-calls", daemon=True
                )
                self._thread.start()

    def stop(self) -> None:
        """Make the thread write what is queued, and end."""
        self._is_stopped = True
        self._is_due.set()
        self._is_filled.set()

    def _work(self) -> None:
        from django.db import connections

        while not self._is_stopped:
            self._is_filled.wait()
            # Wait for more calls, to write them together.
            self._is_due.wait(FLUSH_EVERY_S)
            self.flush()
        connections.close_all()


def _send_signal(call: RecordedCall) -> None:
    from django_mcp.handlers.db_connections import run_with_connections

    def send() -> None:
        for receiver, answer in tool_called.send_robust(sender=call.server, call=call):
            if isinstance(answer, Exception):
                logger.error("A receiver of tool_called failed: %r", receiver, exc_info=answer)

    run_with_connections(send)


_writer = _Writer()


def put(call: RecordedCall, *, is_recorded: bool, is_told: bool) -> None:
    """Queue a call, to be written, sent to receivers, or both. Takes a microsecond."""
    _writer.put((call, is_recorded, is_told))


def flush_calls() -> None:
    """Write the calls that are queued in this process now, from this thread.

    It is for the end of a process, and for tests with `SYNC_THREADS` 0, which have no writer thread;
    otherwise the thread does it every second.
    """
    _writer.flush()


def dropped() -> int:
    """Return how many calls this process could not record."""
    return _writer.dropped


def _start_anew(*, setting: str, **_kwargs: Any) -> None:
    global _writer
    # Its thread holds connections to the databases of other tests.
    if setting in ("DJANGO_MCP", "DATABASES"):
        _writer.stop()
        _writer = _Writer()


def _forget_writer() -> None:
    # The thread and its batch stayed in the parent process.
    global _writer
    _writer = _Writer()


atexit.register(flush_calls)
setting_changed.connect(_start_anew, dispatch_uid="django_mcp.calls.writer")
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_writer)
