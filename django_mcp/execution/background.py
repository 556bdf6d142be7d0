"""The base class of the writers of calls and sessions, each a queue with a thread; and sending signals."""

from __future__ import annotations

import threading
from typing import Any, Generic, TypeVar

from django.dispatch import Signal

from django_mcp.conf import settings
from django_mcp.execution.outages import Warner
from django_mcp.log import logger

QUEUE_FULL = "the database is too slow"
"""Why a full queue drops entries, for the log."""

B = TypeVar("B")


class BackgroundWriter(Generic[B]):
    """A bounded queue of one process, and the thread that empties it. Subclasses add the queue.

    If the queue is full or writing fails, the log names what is `lost`, and `dropped` counts it.
    """

    def __init__(self, name: str, lost: str) -> None:
        self.dropped = 0
        self._name = name
        self._lost = lost
        self._trouble = Warner()
        self._is_filled = threading.Event()
        self._is_due = threading.Event()
        self._stopped = threading.Event()
        self._starting = threading.Lock()
        self._flushing = threading.Lock()
        self._thread: threading.Thread | None = None

    def flush(self) -> None:
        """Write what is queued by now, in this thread; raise what `_store` raises."""
        with self._flushing:
            # Cleared before the queue is read, so that nothing queued meanwhile is missed.
            self._is_due.clear()
            self._is_filled.clear()
            while batch := self._take():
                self._store(batch)

    def forget(self) -> None:
        """Drop what is queued by now."""
        while self._take():
            pass

    def stop(self) -> None:
        """End the thread, since the settings of its databases have changed."""
        self._stopped.set()
        self._is_due.set()
        self._is_filled.set()

    def _take(self) -> B | None:
        """Remove a batch from the queue; return None or an empty one if nothing is queued."""
        raise NotImplementedError

    def _store(self, batch: B) -> None:
        raise NotImplementedError

    def _gather(self) -> None:
        """Wait until something is queued, and then for more, to write all of it together."""
        raise NotImplementedError

    def _wake(self) -> None:
        """Wake the thread; it is started on first use, unless the site has no threads."""
        self._is_filled.set()
        if self._thread is None and settings.SYNC_THREADS:
            with self._starting:
                if self._thread is None:
                    thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                    try:
                        thread.start()
                    except RuntimeError as error:
                        # The system has no room for it. A call must not fail for that, and a later entry tries again.
                        self._trouble.warn(
                            "The thread that records could not be started: %r", error
                        )
                        return
                    self._thread = thread

    def _work(self) -> None:
        from django.db import connections

        from django_mcp.execution.db_connections import avoid_pools, wait_while

        avoid_pools()
        # What is queued is lost, or logged, if it cannot be written.
        wait_while(lambda: not self._stopped.is_set())
        while not self._stopped.is_set():
            self._gather()
            self._write()
        connections.close_all()

    def _write(self) -> None:
        self.flush()

    def _drop(self, count: int, reason: object) -> None:
        self.dropped += count
        text = f"{self._lost} were not recorded ({self.dropped} since the start): %r"
        self._trouble.warn(text, reason)


def send_signal(signal: Signal, sender: object, **values: Any) -> bool:
    """Send a signal in this thread, and return whether no receiver failed; their exceptions are logged."""
    # Loads `django.db`, which importing a server must not.
    from django_mcp.execution.db_connections import run_with_connections

    answers = run_with_connections(lambda: signal.send_robust(sender=sender, **values))
    for receiver, answer in answers:
        if isinstance(answer, Exception):
            logger.error("A receiver of a signal failed: %r", receiver, exc_info=answer)
    return not any(isinstance(answer, Exception) for _, answer in answers)
