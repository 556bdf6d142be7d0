"""The logger of this package: a site configures all of it by the name `django_mcp`."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable
from typing import Final

PERIOD_S: Final = 60.0

MOST_ALIKE: Final = 100
"""Records of a kind that are logged in a period, so that no client or outage fills the log. Our own limit.

It is above the limit of refused requests, which is shared fairly among clients.
"""

MAX_KINDS: Final = 1000
"""Kinds that are counted at a time."""


class RepetitionLimit(logging.Filter):
    """Drops warnings and errors of a kind above the limit, and says in the log how many it dropped.

    Records are of one kind if the same statement logs them, with an exception from the same line if
    there is one.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: dict[Hashable, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is logged. The last one before a gap, and the first one after it, say so."""
        if record.levelno < logging.WARNING:
            return True
        now, kind, dropped = self._clock(), _kind_of(record), 0
        with self._lock:
            began_s, count = self._counts.get(kind, (now, 0))
            if now - began_s >= PERIOD_S:
                dropped, began_s, count = max(count - MOST_ALIKE, 0), now, 0
            if len(self._counts) >= MAX_KINDS and kind not in self._counts:
                self._counts.clear()
            self._counts[kind] = began_s, count + 1
        if dropped:
            _add(record, f"{dropped} more like this were not logged before")
        if count + 1 == MOST_ALIKE:
            _add(record, f"more like this are not logged for up to {PERIOD_S:.0f} s")
        return count < MOST_ALIKE

    def reset(self) -> None:
        """Forget what was logged, as between two tests."""
        with self._lock:
            self._counts.clear()


def _kind_of(record: logging.LogRecord) -> Hashable:
    error = record.exc_info[1] if record.exc_info else None
    trace = error.__traceback__ if error is not None else None
    where = None
    while trace is not None:
        where = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    return record.pathname, record.lineno, type(error), where


def _add(record: logging.LogRecord, text: str) -> None:
    record.msg, record.args = f"{record.getMessage()} ({text})", None


logger = logging.getLogger("django_mcp")

repetitions: Final = RepetitionLimit()
logger.addFilter(repetitions)
