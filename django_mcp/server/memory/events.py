"""The plain log of what was sent on streams that can be resumed."""

from __future__ import annotations

import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable

from django_mcp.server.exchange.connection import Session
from django_mcp.server.services.ports import Event, Replay

MAX_EVENTS = 10_000
MAX_EVENT_BYTES = 64 * 1024 * 1024
MAX_OWN_EVENTS = MAX_EVENTS // 4
MAX_OWN_EVENT_BYTES = MAX_EVENT_BYTES // 4
"""Recorded events, and what one caller has of them. Our own limit."""

MAX_EVENT_AGE_S = 600.0


class MemoryEvents:
    """Record events in this process, within bounds; the oldest streams go first.

    One caller has at most a quarter of them, and of their bytes.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._streams: OrderedDict[str, _Recorded] = OrderedDict()
        self._count = 0
        self._bytes = 0
        self._own: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])

    def open(self, stream_id: str, session: Session) -> None:
        """See `EventLog.open`."""
        self._streams[stream_id] = _Recorded(session.key, session.quota_key, self._clock())

    def append(self, stream_id: str, session: Session, event: Event) -> None:
        """See `EventLog.append`."""
        recorded = self._streams.get(stream_id)
        if recorded is None:
            return
        recorded.events.append(event)
        recorded.is_running = not event.is_last
        recorded.size += len(event.message)
        self._count += 1
        self._bytes += len(event.message)
        own = self._own[recorded.quota_key]
        own[0] += 1
        own[1] += len(event.message)
        while own[0] > MAX_OWN_EVENTS or own[1] > MAX_OWN_EVENT_BYTES:
            self._drop_oldest(recorded.quota_key)
        oldest = self._clock() - MAX_EVENT_AGE_S
        while self._streams and (
            self._count > MAX_EVENTS
            or self._bytes > MAX_EVENT_BYTES
            or next(iter(self._streams.values())).opened_s < oldest
        ):
            self._drop_oldest()

    def _drop_oldest(self, quota_key: str | None = None) -> None:
        """Forget the oldest stream, or the oldest one of a caller that has events."""
        stream_id = next(
            id
            for id, each in self._streams.items()
            if quota_key is None or (each.quota_key == quota_key and each.events)
        )
        dropped = self._streams.pop(stream_id)
        self._count -= len(dropped.events)
        self._bytes -= dropped.size
        own = self._own[dropped.quota_key]
        own[0] -= len(dropped.events)
        own[1] -= dropped.size
        if not own[0]:
            del self._own[dropped.quota_key]

    def close(self, stream_id: str, session: Session) -> None:
        """See `EventLog.close`."""
        recorded = self._streams.get(stream_id)
        if recorded is not None:
            recorded.is_running = False

    async def read(self, stream_id: str, session: Session, after: int) -> Replay | None:
        """See `EventLog.read`."""
        recorded = self._streams.get(stream_id)
        if recorded is None or recorded.session_key != session.key:
            return None
        events = [event for event in recorded.events if event.number > after]
        return Replay(events=events, is_running=recorded.is_running)


class _Recorded:
    __slots__ = ("events", "is_running", "opened_s", "quota_key", "session_key", "size")

    def __init__(self, session_key: str, quota_key: str, now: float) -> None:
        self.session_key = session_key
        self.quota_key = quota_key
        self.size = 0
        self.opened_s = now
        self.events: list[Event] = []
        self.is_running = True
