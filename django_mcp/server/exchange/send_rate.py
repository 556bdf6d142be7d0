"""How often something is sent to a client."""

from __future__ import annotations

import math
import time

from django_mcp.log import logger
from django_mcp.protocol.records import Record


class SendRate(Record):
    """Lets `rate` messages a second pass, and as many at once after a silence, but no others.

    Threads that ask at the same time may be counted as one.
    """

    _rate: int
    _warning: str | None = None
    _allowance: float = math.inf
    _checked_s: float = 0.0

    def take(self) -> bool:
        """Return whether one more message may be sent now, and count it."""
        now = time.monotonic()
        self._allowance += (now - self._checked_s) * self._rate
        self._allowance = min(self._allowance, float(self._rate))
        self._checked_s = now
        if self._allowance < 1:
            if self._warning is not None:
                logger.warning(self._warning, self._rate)
                self._warning = None
            return False
        self._allowance -= 1
        return True
