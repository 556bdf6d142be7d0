"""LogRate: how many log messages a second one connection is sent at most."""

from __future__ import annotations

import logging
import time

logger = logging.getLogger("django_mcp")


class LogRate:
    """Let `rate` messages a second pass, and as many at once after a silence.

    What is more is dropped: a log that floods its reader tells nothing, and fills the way that
    answers take as well.
    """

    __slots__ = ("_allowance", "_checked_s", "_has_dropped", "_rate")

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._allowance = float(rate)
        self._checked_s = time.monotonic()
        self._has_dropped = False

    def take(self) -> bool:
        """Tell whether one more message may be sent now."""
        now = time.monotonic()
        self._allowance += (now - self._checked_s) * self._rate
        self._allowance = min(self._allowance, float(self._rate))
        self._checked_s = now
        if self._allowance >= 1:
            self._allowance -= 1
            return True
        if not self._has_dropped:
            self._has_dropped = True
            logger.warning(
                "A client is sent %d log messages a second at most; the rest is dropped", self._rate
            )
        return False
