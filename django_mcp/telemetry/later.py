"""Later: a bounded queue and its thread, so that no exporter, processor or log handler delays a call."""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from django_mcp.log import logger
from django_mcp.process import at_end

T = TypeVar("T")

MAX_QUEUED = 10_000
"""Entries that wait; more are dropped and counted."""

GATHER_S = 0.1
"""How long the thread lets entries gather, so that a busy process wakes it seldom."""

FLUSH_LIMIT_S = 2.0
"""How long the end of a process waits for a thread that is blocked."""


class Later(Generic[T]):
    """Passes entries to a function in a thread of its own. `put` never blocks.

    Attributes:
        dropped: how many entries did not fit into the queue.
    """

    def __init__(self, name: str, work: Callable[[T], None]) -> None:
        self.dropped = 0
        self._name = name
        self._process = os.getpid()
        self._work = work
        self._queue: deque[T] = deque()
        self._is_filled = threading.Event()
        self._is_due = threading.Event()
        self._working = threading.Lock()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def put(self, entry: T) -> None:
        """Queue an entry, unless the queue is full."""
        queue = self._queue
        queued = len(queue)
        if queued >= MAX_QUEUED:
            if not self.dropped:
                logger.error(
                    "The thread %s is blocked, as by an exporter: telemetry is dropped", self._name
                )
            self.dropped += 1
            return
        queue.append(entry)
        if not queued:
            self._is_filled.set()
            if self._thread is None:
                self._start()

    def flush(self, limit_s: float = FLUSH_LIMIT_S) -> None:
        """Work on what is queued by now, in this thread, unless the other one is blocked for too long."""
        if os.getpid() != self._process:
            # What the child of a fork has is a copy.
            return
        if self._working.acquire(timeout=limit_s):
            try:
                self._empty()
            finally:
                self._working.release()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                thread.start()
                self._thread = thread
                # Functions of `atexit` are called the last one first, so this one is before the providers of
                # OpenTelemetry shut down, which the site made earlier.
                atexit.register(self.flush)
                at_end(self.flush)

    def _run(self) -> None:
        while True:
            self._is_filled.wait()
            self._is_due.wait(GATHER_S)
            with self._working:
                # Cleared before the queue is read, so that nothing queued meanwhile is missed.
                self._is_filled.clear()
                self._empty()

    def _empty(self) -> None:
        queue = self._queue
        while queue:
            entry = queue.popleft()
            try:
                self._work(entry)
            except Exception:
                logger.exception("Could not record an operation")
