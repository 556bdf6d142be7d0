"""SendRate: how many messages of a kind a second one reader is sent at most."""

from __future__ import annotations

import logging
import time

logger = logging.getLogger("django_mcp")


class SendRate:
    """Let `rate` messages a second pass, and as many at once after a silence.

    What is more is dropped: a flood tells its reader nothing, and fills the way that answers take
    as well.
    """

    __slots__ = ("_allowance", "_checked_s", "_rate")

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._allowance = float(rate)
        self._checked_s = time.monotonic()

    def take(self) -> bool:
        """Return whether one more message may be sent now."""
        now = time.monotonic()
        self._allowance += (now - self._checked_s) * self._rate
        self._allowance = min(self._allowance, float(self._rate))
        self._checked_s = now
        if self._allowance < 1:
            return False
        self._allowance -= 1
        return True


class LogRate(SendRate):
    """Of the log messages of one connection. What is dropped is lost, so it is told of, once."""

    __slots__ = ("_has_dropped",)

    def __init__(self, rate: int) -> None:
        super().__init__(rate)
        self._has_dropped = False

    def take(self) -> bool:
        """Return whether one more message may be sent now."""
        may_be_sent = super().take()
        if not may_be_sent and not self._has_dropped:
            self._has_dropped = True
            logger.warning(
                "A client is sent %d log messages a second at most; the rest is dropped", self._rate
            )
        return may_be_sent
