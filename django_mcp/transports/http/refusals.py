"""Log each refused request in one line, with the reason that the client got."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from django_mcp.protocol.errors import INVALID_PARAMS, UNSUPPORTED_PROTOCOL_VERSION
from django_mcp.protocol.json import JSONDecodeError, decode
from django_mcp.server.exchange.exchange import Reply

logger = logging.getLogger("django_mcp")

MAX_LINES = 60
PERIOD_S = 60.0
"""Lines in a period, so that no client fills the log. Our own limit."""

MAX_REASON_CHARS = 300
MAX_PATH_CHARS = 200
MAX_NAME_CHARS = 50
MAX_REVISION_CHARS = 10


class RefusalLog:
    """Logs refusals up to a limit, and how many were left out.

    Args:
        clock: seconds that only increase.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Start a new period."""
        self._until_s = self._clock() + PERIOD_S
        self._lines = self._left_out = 0

    def write(self, reply: Reply, *, method: str, path: str, address: str | None) -> None:
        """Log a reply if it refuses the request.

        Neither headers nor the query are logged, which may hold credentials.
        """
        # An internal error has been logged with its traceback.
        if reply.status < 400 or reply.status == 500 or reply.is_dispensable:
            return
        # Clients without a session regularly find out by a 405 that they get no stream. What made the
        # server unavailable has been logged where it was noticed.
        is_usual = reply.status == 405 or reply.status > 500
        level = logging.INFO if is_usual else logging.WARNING
        if not (logger.isEnabledFor(level) and self._has_room()):
            return
        logger.log(
            level,
            "Refused %s %s from %s with %d: %s",
            _inline(method, MAX_NAME_CHARS),
            _inline(path, MAX_PATH_CHARS),
            _inline(address or "an unknown address", MAX_NAME_CHARS),
            reply.status,
            _inline(". ".join(filter(None, (_find_reason(reply), reply.note))), MAX_REASON_CHARS),
        )
        if self._lines == MAX_LINES:
            logger.warning("More refused requests are not logged for up to %d s", PERIOD_S)

    def _has_room(self) -> bool:
        if self._clock() >= self._until_s:
            left_out = self._left_out
            self.reset()
            if left_out:
                logger.warning("%d more refused requests were not logged", left_out)
        if self._lines >= MAX_LINES:
            self._left_out += 1
            return False
        self._lines += 1
        return True


refusals = RefusalLog()
"""The log of this process."""


def _find_reason(reply: Reply) -> str:
    """Return the message of the error in a reply."""
    try:
        found = decode(reply.body or b"")
    except (JSONDecodeError, UnicodeError):
        found = None
    error = found.get("error") if isinstance(found, dict) else None
    if not isinstance(error, dict):
        return "no reason was given"
    message = str(error.get("message", ""))
    if error.get("code") == INVALID_PARAMS:
        # What follows a colon may quote arguments, which may be secret.
        return message.partition(":")[0]
    if error.get("code") == UNSUPPORTED_PROTOCOL_VERSION and isinstance(error.get("data"), dict):
        # It comes from a header, which is a date or a mistake.
        return f"{message}: {_inline(str(error['data'].get('requested')), MAX_REVISION_CHARS)}"
    return message


def _inline(text: str, limit: int) -> str:
    """Return a text on one line, without control characters, cut to a length."""
    shown = text if len(text) <= limit else f"{text[:limit]}…"
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in shown)
