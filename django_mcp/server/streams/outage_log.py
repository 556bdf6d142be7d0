"""A log of outages: when they begin, that they last, and when they end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

logger = logging.getLogger("django_mcp")

EVERY_S = 60.0
"""How often an outage is logged while it lasts. Our own choice."""

QUIET_S = 5.0
"""An outage is over when something worked and nothing has failed for this long. Our own choice."""


class OutageLog:
    """Log a line when an outage begins, each minute with the number of failures, and when it ends.

    It is for what reports its successes too, such as a bus. What reports only failures uses a `Warner`
    of `execution/outages.py`, which logs no end.

    `what` begins the line. Any thread may report. A single success does not end an outage, so a
    failure that comes and goes does not log a line each time.
    """

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._clock = clock
        self._lock = threading.Lock()
        self._count = 0
        self._began_s = self._failed_s = self._next_s = 0.0

    def failed(self, error: object) -> None:
        now = self._clock()
        with self._lock:
            self._count, self._failed_s = self._count + 1, now
            count = self._count
            if count == 1:
                self._began_s = now
            elif now < self._next_s:
                return
            self._next_s = now + EVERY_S
        if count == 1:
            logger.warning("%s: %r", self._what, error)
        else:
            logger.warning("%s: %d failures by now, the last: %r", self._what, count, error)

    def worked(self) -> None:
        if not self._count:
            return
        now = self._clock()
        with self._lock:
            if not self._count or now - self._failed_s < QUIET_S:
                return
            count, self._count = self._count, 0
        logger.warning(
            "%s: over, after %d failures in %.0f s",
            self._what,
            count,
            self._failed_s - self._began_s,
        )
