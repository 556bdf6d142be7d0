"""Pending bytes: large bodies until their requests end, and large answers from their encoding until they are sent.

They count for each caller and for the whole process, so that clients that neither complete a body nor
read an answer cannot fill the memory.
"""

from __future__ import annotations

import threading
import time

from django_mcp.log import logger
from django_mcp.protocol.errors import INVALID_REQUEST, Refusal, try_later
from django_mcp.protocol.records import Record
from django_mcp.server.exchange.quotas import Limits, QuotaMeter, QuotaScope
from django_mcp.server.options import Options

PART_BYTES = 64 * 1024
"""Answers and whole bodies up to this size do not count. Larger answers are sent in parts of it."""

_meter = QuotaMeter()
lock = threading.RLock()
"""Threads encode the answers of synchronous handlers, and under WSGI each request has one of its own."""

_HELD_BY = {
    QuotaScope.OWN: "You have too many large requests and unread answers at once",
    QuotaScope.ALL: "The server holds as many large requests and unread answers as it can",
}


def _refusals(after: str) -> dict[QuotaScope, Refusal]:
    return {
        scope: try_later(f"{text}: {after}", 2, code=INVALID_REQUEST, status=scope.value)
        for scope, text in _HELD_BY.items()
    }


BODY_REFUSED = _refusals("try again later")
ANSWER_DROPPED = _refusals("this call has run, but its answer was dropped")
"""The refusals of a body and of an answer, by the limit that is reached."""


LOG_EVERY_S = 60.0
_next_log_s = 0.0


def _log_full() -> None:
    global _next_log_s
    now_s = time.monotonic()
    if now_s >= _next_log_s:
        _next_log_s = now_s + LOG_EVERY_S
        logger.warning(
            "Large requests and unread answers hold as many bytes as DJANGO_MCP['MAX_PENDING_BYTES'] "
            "allows: more are refused"
        )


class PendingBytes(Record):
    """What counts of one request, or of one stream, until it is released."""

    quota_key: str
    _options: Options
    size: int = 0

    def add(self, size: int) -> QuotaScope | None:
        """Count more bytes, unless a limit is reached; return whose it is."""
        if size <= 0:
            return None
        options = self._options
        limits = Limits(
            # One answer of the largest size can always be sent.
            own_bytes=max(options.max_pending_bytes_per_principal, options.max_result_bytes),
            bytes=max(options.max_pending_bytes, options.max_result_bytes),
            own_count=0,
            count=0,
        )
        with lock:
            share = options.anonymous_share
            scope = _meter.take(limits, self.quota_key, size, count=0, share=share)
            if scope is None:
                self.size += size
        if scope is QuotaScope.ALL:
            _log_full()
        return scope

    def give_back(self, size: int) -> None:
        """Count so many bytes no longer."""
        with lock:
            # A stream that has ended has released all of it.
            size = min(size, self.size)
            if size > 0:
                self.size -= size
                _meter.give_back(self.quota_key, size, count=0)

    def close(self) -> None:
        """Count none any longer."""
        self.give_back(self.size)
