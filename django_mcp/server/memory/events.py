"""Events of streams that can be resumed, in memory."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from msgspec import field

from django_mcp.protocol.records import Record
from django_mcp.server.exchange.connection import Session
from django_mcp.server.exchange.quotas import Limits, QuotaMeter, QuotaScope
from django_mcp.server.services.ports import Event, Replay

EVENT_LIMITS = Limits(
    own_count=2500, own_bytes=16 * 1024 * 1024, count=10_000, bytes=64 * 1024 * 1024
)
"""Recorded events and their bytes. Our own limit."""

MAX_EVENT_AGE_S = 600.0


class MemoryEvents:
    """Record events in this process; the oldest streams are dropped first. See `EventLog`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._streams: OrderedDict[str, _Recorded] = OrderedDict()
        self._meter = QuotaMeter(EVENT_LIMITS)

    def open(self, stream_id: str, session: Session) -> None:
        self._streams[stream_id] = _Recorded(session.key, session.quota_key, self._clock())

    def append(self, stream_id: str, session: Session, event: Event) -> None:
        oldest = self._clock() - MAX_EVENT_AGE_S
        while self._streams and next(iter(self._streams.values())).opened_s < oldest:
            self._drop(next(iter(self._streams)))
        while (recorded := self._streams.get(stream_id)) is not None:
            scope = self._meter.take(recorded.quota_key, len(event.message))
            if scope is None:
                recorded.events.append(event)
                recorded.is_running = not event.is_last
                return
            self._drop(self._find_oldest(recorded.quota_key, scope) or stream_id)

    def _find_oldest(self, quota_key: str, scope: QuotaScope) -> str | None:
        """Return the oldest stream with events, of a caller or of all callers."""
        return next(
            (
                stream_id
                for stream_id, each in self._streams.items()
                if each.events and (scope is QuotaScope.ALL or each.quota_key == quota_key)
            ),
            None,
        )

    def _drop(self, stream_id: str) -> None:
        dropped = self._streams.pop(stream_id)
        size = sum(len(event.message) for event in dropped.events)
        self._meter.give_back(dropped.quota_key, size, count=len(dropped.events))

    def close(self, stream_id: str, session: Session) -> None:
        recorded = self._streams.get(stream_id)
        if recorded is not None:
            recorded.is_running = False

    async def read(self, stream_id: str, session: Session, after: int) -> Replay | None:
        recorded = self._streams.get(stream_id)
        if recorded is None or recorded.session_key != session.key:
            return None
        events = [event for event in recorded.events if event.number > after]
        return Replay(events=events, is_running=recorded.is_running)


class _Recorded(Record):
    session_key: str
    quota_key: str
    opened_s: float
    events: list[Event] = field(default_factory=list)
    is_running: bool = True
