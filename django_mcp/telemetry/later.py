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

    Args:
        name: of the thread.
        work: the function.
        find_provider: returns the provider of OpenTelemetry that gets the entries, which exports what it has at
            the end of the process: a server that ends by a signal calls no functions of `atexit`.

    Attributes:
        dropped: how many entries did not fit into the queue.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[T], None],
        find_provider: Callable[[], object] | None = None,
    ) -> None:
        self.dropped = 0
        self._find_provider = find_provider
        self._name = name
        self._process = os.getpid()
        self._work = work
        self._queue: deque[T] = deque()
        self._is_filled = threading.Event()
        self._is_due = threading.Event()
        self._is_working = False
        self._progress = threading.Condition()
        self._is_blocked = self._is_over = False
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def put(self, entry: T) -> None:
        """Queue an entry, unless the queue is full."""
        if len(self._queue) >= MAX_QUEUED:
            if not self.dropped:
                logger.error(
                    "The thread %s is blocked, as by an exporter: telemetry is dropped", self._name
                )
            self.dropped += 1
            return
        self._queue.append(entry)
        # Not by the length of the queue, which the thread may have emptied since it was read.
        if not self._is_filled.is_set():
            self._is_filled.set()
        if self._thread is None:
            # Also if a system without room for a thread has refused it before.
            self._start()

    def flush(self, limit_s: float = FLUSH_LIMIT_S) -> bool:
        """Wait until all is done that is queued by now; return False if the thread is blocked for too long."""
        if self._thread is None or os.getpid() != self._process:
            # What the child of a fork has is a copy, and its thread stayed behind.
            return True
        self._is_due.set()
        with self._progress:
            return self._progress.wait_for(self._is_idle, limit_s)

    def _is_idle(self) -> bool:
        return not self._queue and not self._is_working

    def _finish(self) -> None:
        # It is called where the server tells of its end, and after the end of the providers.
        if self._is_blocked or self._is_over or os.getpid() != self._process:
            return
        self._is_blocked = not self.flush()
        provider = None if self._find_provider is None else self._find_provider()
        # The API has no such method, and the SDK does.
        export = getattr(provider, "force_flush", None)
        if export is not None and not self._is_blocked:
            thread = threading.Thread(target=export, name=f"{self._name}-end", daemon=True)
            thread.start()
            thread.join(FLUSH_LIMIT_S)
            self._is_blocked = thread.is_alive()

    def _finish_at_exit(self) -> None:
        # The providers shut down next, by which they export what they have. No thread can be started any more.
        self._is_over = True
        if not self._is_blocked:
            self.flush()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                thread.start()
                self._thread = thread
                # Functions of `atexit` are called the last one first, so this one is before the providers of
                # OpenTelemetry shut down, which the site made earlier.
                atexit.register(self._finish_at_exit)
                at_end(self._finish)

    def _run(self) -> None:
        while True:
            self._is_filled.wait()
            self._is_due.wait(GATHER_S)
            self._is_working = True
            # Cleared before the queue is read, so that nothing queued meanwhile is missed.
            self._is_filled.clear()
            self._is_due.clear()
            self._empty()
            with self._progress:
                self._is_working = False
                self._progress.notify_all()

    def _empty(self) -> None:
        queue = self._queue
        while queue:
            entry = queue.popleft()
            try:
                self._work(entry)
            except Exception:
                logger.exception("Could not record an operation")
