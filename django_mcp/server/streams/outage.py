"""OutageLog: report a failure that repeats without filling the log."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

__all__ = ["OutageLog"]

logger = logging.getLogger("django_mcp")

EVERY_S = 60.0
"""How often an outage that goes on is logged. Our own limit."""

QUIET_S = 5.0
"""An outage is over when something worked and nothing has failed for this long. Our own limit."""


class OutageLog:
    """Log one line when an outage begins, one a minute with the count, and one when it ends.

    Any thread may report. A success in the middle of an outage does not end it, so one that comes
    and goes does not log a line each time.

    Args:
        what: a sentence for the log, such as "Could not reach the other processes".
        clock: seconds since any moment.
    """

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._clock = clock
        self._lock = threading.Lock()
        self._count = 0
        self._began_s = self._failed_s = self._next_s = 0.0

    @property
    def is_on(self) -> bool:
        """Whether an outage has begun and not ended."""
        return self._count > 0

    def failed(self, error: object) -> None:
        """Report a failure."""
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
        """Report a success."""
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
