"""Sessions, answers and recorded events in the memory of one process."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from msgspec import field

from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.records import Record
from django_mcp.server.exchange.call import Call
from django_mcp.server.exchange.digests import digest_of, new_token
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.quotas import (
    TOO_MANY_URIS,
    Limits,
    QuotaMeter,
    QuotaReached,
    QuotaScope,
    check_uris,
    is_anonymous_quota,
)
from django_mcp.server.exchange.session import Closing, Session, memory_size
from django_mcp.server.exchange.session_data import refuse_data
from django_mcp.server.options import Options
from django_mcp.server.ports import ConnectionObserver, Event, ResponseRelay, Resumption
from django_mcp.server.request_checks import SESSIONS_FULL
from django_mcp.server.services import ServerHub
from django_mcp.server.streams.hub import Hub
from django_mcp.sessions.core.memory_data import MemoryData

MAX_OWN_BYTES = 64 * 1024 * 1024
MAX_BYTES = 256 * 1024 * 1024
"""Bytes of sessions with their data and subscriptions: of one caller, and of all."""

QUESTION_LIMITS = Limits(own_count=250, count=10_000)
"""Requests to clients that are not answered yet."""


def stores_in_memory(
    hub: Hub[Any], options: Options, observer: ConnectionObserver
) -> dict[str, Any]:
    """Return the ports that store sessions and what belongs to them."""

    def closed(session: Session, reason: Closing) -> None:
        observer.session_closed(session, reason.value)

    return {
        "sessions": MemorySessions(hub, lambda: options, closed=closed),
        "pending_responses": MemoryPendingResponses(lambda: options.anonymous_share),
        "events": MemoryEvents(),
    }


class MemorySessions:
    """Keep sessions in this process; they end with it. See `SessionStore`."""

    def __init__(
        self,
        hub: ServerHub,
        options: Callable[[], Options],
        clock: Callable[[], float] = time.monotonic,
        closed: Callable[[Session, Closing], None] = lambda _session, _reason: None,
    ) -> None:
        self._hub = hub
        self._options = options
        self._clock = clock
        self._closed = closed
        # By key, least recently used first.
        self._sessions: OrderedDict[str, _KeptSession] = OrderedDict()
        self._keys: dict[str, str] = {}
        self._meter = QuotaMeter()

    async def open(self, session: Session, exchange: Exchange) -> str | Refusal:
        self.recheck(self._hub)
        self._hub.stores.add(self)
        quota_key, size = exchange.caller.quota_key, memory_size(session)
        while (scope := self._take(quota_key, size, count=1)) is not None:
            evicted = self._find_idle(quota_key, scope)
            if evicted is None:
                return SESSIONS_FULL
            self._drop(evicted, Closing.EVICTED)
        token = new_token()
        digest = digest_of(token)
        session.subscriptions = set()
        session.quota_key = quota_key
        now = self._clock()
        self._sessions[session.key] = _KeptSession(session, digest, now, now, size)
        self._keys[digest] = session.key
        self._hub.sessions[session.key] = session
        return token

    def _take(self, quota_key: str, size: int, *, count: int = 0) -> QuotaScope | None:
        """Count sessions and bytes; return whose limit is reached, if one is."""
        options = self._options()
        limits = Limits(
            own_count=options.max_sessions_per_principal,
            own_bytes=MAX_OWN_BYTES,
            count=options.max_sessions,
            bytes=MAX_BYTES,
        )
        share = options.anonymous_share
        return self._meter.take(limits, quota_key, size, count=count, share=share)

    def _find_idle(self, quota_key: str, scope: QuotaScope) -> str | None:
        """Return the key of the session to evict for a caller; those of anonymous callers go first."""
        kept = self._sessions.items()
        if scope is QuotaScope.OWN:
            return next((key for key, each in kept if each.session.quota_key == quota_key), None)
        anonymous = (key for key, each in kept if is_anonymous_quota(each.session.quota_key))
        rest = None if is_anonymous_quota(quota_key) else next(iter(self._sessions), None)
        return next(anonymous, rest)

    def peek(self, token: str) -> Session | None:
        kept = self._sessions.get(self._keys.get(digest_of(token), ""))
        if kept is None:
            return None
        now = self._clock()
        if self._is_over(kept, now):
            self._drop(kept.session.key, Closing.EXPIRED)
            return None
        kept.seen_s = now
        self._sessions.move_to_end(kept.session.key)
        return kept.session

    async def find(self, token: str) -> Session | None:
        return self.peek(token)

    async def get(self, key: str) -> Session | None:
        kept = self._sessions.get(key)
        return kept.session if kept is not None and not self._is_over(kept, self._clock()) else None

    async def has_stream(self, session: Session) -> bool:
        return bool(self._hub.streams_of(session.key))

    async def update(self, session: Session, changes: Mapping[str, Any]) -> None:
        session.update(changes)

    async def end(self, keys: Collection[str], reason: Closing) -> list[str]:
        ended = [key for key in dict.fromkeys(keys) if key in self._sessions]
        for key in ended:
            self._drop(key, reason)
        return ended

    async def subscribe(self, session: Session, uri: str) -> Refusal | None:
        before = session.subscriptions or set()
        refusal = check_uris(before | {uri})
        if refusal is not None or uri in before:
            return refusal
        kept = self._sessions.get(session.key)
        if kept is not None:
            scope = self._take(session.quota_key, len(uri))
            if scope is not None:
                return TOO_MANY_URIS[scope]
            kept.size += len(uri)
        self._hub.set_subscriptions(session, before | {uri})
        return None

    async def unsubscribe(self, session: Session, uri: str) -> None:
        before = session.subscriptions or set()
        kept = self._sessions.get(session.key)
        if kept is not None and uri in before:
            self._grow(kept, -len(uri))
        self._hub.set_subscriptions(session, before - {uri})

    async def read_subscriptions(self, session: Session) -> set[str]:
        if session.subscriptions is None:
            session.subscriptions = set()
        return session.subscriptions

    def data(self, session: Session, call: Call) -> Any:
        kept = self._sessions.get(session.key)
        if kept is None:
            return MemoryData({}, session=session)
        return MemoryData(kept.data, partial(self._grow, kept), session)

    def _grow(self, kept: _KeptSession, size: int) -> None:
        """Count more bytes of a session, or fewer; raise `ValueError` if a limit is reached."""
        quota_key = kept.session.quota_key
        if kept.session.is_ended:
            return
        scope = self._take(quota_key, size) if size > 0 else None
        if scope is not None:
            refuse_data(scope)
        if size < 0:
            self._meter.give_back(quota_key, -size, count=0)
        kept.size += size

    def _is_over(self, kept: _KeptSession, now: float) -> bool:
        options = self._options()
        return (
            now - kept.seen_s > options.session_idle_s
            or now - kept.opened_s > options.session_max_age_s
        )

    def recheck(self, hub: ServerHub) -> None:
        """Drop the sessions that have expired."""
        now = self._clock()
        stale_s = self._options().session_idle_s / 2
        for key, kept in list(self._sessions.items()):
            if now - kept.seen_s > stale_s and (hub.calls.of(kept.session) or hub.streams_of(key)):
                kept.seen_s = now
            if self._is_over(kept, now):
                self._drop(key, Closing.EXPIRED)

    def _drop(self, key: str, reason: Closing) -> None:
        kept = self._sessions.pop(key)
        session = kept.session
        self._meter.give_back(session.quota_key, kept.size)
        del self._keys[kept.digest]
        self._hub.forget_session(key)
        session.is_ended = True
        self._closed(session, reason)


class _KeptSession(Record):
    session: Session
    digest: str
    opened_s: float
    seen_s: float
    size: int
    data: dict[str, bytes] = field(default_factory=dict)


class MemoryPendingResponses:
    """Count the responses that clients still have to send. See `PendingResponses`."""

    relay: ResponseRelay | None = None

    def __init__(self, anonymous_share: Callable[[], float] = lambda: 1.0) -> None:
        self._anonymous_share = anonymous_share
        self._meter = QuotaMeter()
        self._quota_keys: dict[tuple[str, str], str] = {}

    async def expect(self, session: Session, ask_id: str, timeout_s: float) -> bool:
        share = self._anonymous_share()
        scope = self._meter.take(QUESTION_LIMITS, session.quota_key, 0, share=share)
        if scope is not None:
            raise QuotaReached(scope)
        self._quota_keys[session.key, ask_id] = session.quota_key
        return True

    async def forget(self, session: Session, ask_id: str) -> None:
        quota_key = self._quota_keys.pop((session.key, ask_id), None)
        if quota_key is not None:
            self._meter.give_back(quota_key, 0)


EVENT_LIMITS = Limits(
    own_count=2500, own_bytes=16 * 1024 * 1024, count=10_000, bytes=64 * 1024 * 1024
)
"""Recorded events and their bytes."""

MAX_EVENT_AGE_S = 600.0
"""How long recorded events are kept, here and in a database."""


class MemoryEvents:
    """Record events in this process; the oldest streams are dropped first. See `EventLog`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._streams: OrderedDict[str, _Recorded] = OrderedDict()
        self._meter = QuotaMeter()

    def open(self, stream_id: str, session: Session) -> None:
        self._streams[stream_id] = _Recorded(session.key, session.quota_key, self._clock())

    def append(self, stream_id: str, session: Session, event: Event) -> None:
        oldest = self._clock() - MAX_EVENT_AGE_S
        while self._streams and next(iter(self._streams.values())).opened_s < oldest:
            self._drop(next(iter(self._streams)))
        while (recorded := self._streams.get(stream_id)) is not None:
            scope = self._meter.take(EVENT_LIMITS, recorded.quota_key, len(event.message))
            if scope is None:
                recorded.events.append(event)
                recorded.is_running = not event.is_last
                return
            # The oldest with events, of this caller or of all.
            oldest_with_events = (
                key
                for key, each in self._streams.items()
                if each.events and (scope is QuotaScope.ALL or each.quota_key == recorded.quota_key)
            )
            self._drop(next(oldest_with_events, stream_id))

    def _drop(self, stream_id: str) -> None:
        dropped = self._streams.pop(stream_id)
        size = sum(len(event.message) for event in dropped.events)
        self._meter.give_back(dropped.quota_key, size, count=len(dropped.events))

    def close(self, stream_id: str, session: Session) -> None:
        recorded = self._streams.get(stream_id)
        if recorded is not None:
            recorded.is_running = False

    async def read(self, stream_id: str, session: Session, after: int) -> Resumption | None:
        recorded = self._streams.get(stream_id)
        if recorded is None or recorded.session_key != session.key:
            return None
        events = [event for event in recorded.events if event.number > after]
        return Resumption(events=events, is_running=recorded.is_running)


class _Recorded(Record):
    session_key: str
    quota_key: str
    opened_s: float
    events: list[Event] = field(default_factory=list)
    is_running: bool = True
