"""The plain implementations of what outlives a request: sessions, answers, recorded events."""

from __future__ import annotations

import hashlib
import secrets
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod

from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.json import JSONObject
from django_mcp.server.exchange.connection import Closing, Session
from django_mcp.server.exchange.quotas import is_anonymous_quota, quota_key_of, share_of
from django_mcp.server.exchange.session_data import MemoryData
from django_mcp.server.exchange.subscription_limits import check_uris
from django_mcp.server.services.ports import Event, Replay
from django_mcp.server.services.session_lookup import SESSIONS_FULL
from django_mcp.server.streams.upkeep import while_there

if TYPE_CHECKING:
    from django_mcp.server.exchange.call import Call
    from django_mcp.server.exchange.exchange import Exchange
    from django_mcp.server.options import Options
    from django_mcp.server.services.services import ServerHub

MAX_EVENTS = 10_000
MAX_EVENT_BYTES = 64 * 1024 * 1024
MAX_EVENT_AGE_S = 600.0


def new_token() -> str:
    """Return a secret id with 256 random bits."""
    return secrets.token_urlsafe(32)


def digest_of(token: str) -> str:
    """Return what is kept of a secret id."""
    return hashlib.sha256(token.encode()).hexdigest()


class MemorySessions:
    """Keep sessions in this process; they end with it.

    Args:
        hub: holds what runs and streams for them.
        options: the server's.
        clock: seconds since any moment.
        closed: is told of each that is over.
    """

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
        self._on_tick = while_there(WeakMethod(self._drop_expired))
        # Least recently used first.
        self._by_digest: OrderedDict[str, _Kept] = OrderedDict()
        self._digests: dict[str, str] = {}

    async def open(self, session: Session, exchange: Exchange) -> str | Refusal:
        """See `SessionStore.open`."""
        options = self._options()
        self._drop_expired(self._hub)
        if self._on_tick not in self._hub.on_tick:
            self._hub.on_tick.append(self._on_tick)
        quota_key = quota_key_of(session.principal_key, exchange.address)
        if not self._make_room(quota_key, options):
            return SESSIONS_FULL
        token = new_token()
        digest = digest_of(token)
        now = self._clock()
        session.subscriptions = set()
        self._by_digest[digest] = _Kept(session, quota_key, now)
        self._digests[session.key] = digest
        self._hub.sessions[session.key] = session
        return token

    def _make_room(self, quota_key: str, options: Options) -> bool:
        """Evict sessions until there is room for one more; return whether there is."""
        own = [digest for digest, kept in self._by_digest.items() if kept.quota_key == quota_key]
        if len(own) >= options.max_sessions_per_principal:
            self._drop(own[0], Closing.EVICTED)
        anonymous = [
            digest for digest, kept in self._by_digest.items() if is_anonymous_quota(kept.quota_key)
        ]
        is_anonymous = is_anonymous_quota(quota_key)
        share = share_of(options.max_sessions, options.anonymous_share)
        while anonymous and (
            len(self._by_digest) >= options.max_sessions
            or (is_anonymous and len(anonymous) >= share)
        ):
            self._drop(anonymous.pop(0), Closing.EVICTED)
        while len(self._by_digest) >= options.max_sessions and not is_anonymous:
            self._drop(next(iter(self._by_digest)), Closing.EVICTED)
        return len(self._by_digest) < options.max_sessions

    def peek(self, token: str) -> Session | None:
        """See `SessionStore.peek`."""
        digest = digest_of(token)
        kept = self._by_digest.get(digest)
        if kept is None:
            return None
        now = self._clock()
        if self._is_over(kept, now):
            self._drop(digest, Closing.EXPIRED)
            return None
        kept.seen_s = now
        self._by_digest.move_to_end(digest)
        return kept.session

    async def find(self, token: str) -> Session | None:
        """See `SessionStore.find`."""
        return self.peek(token)

    async def get(self, key: str) -> Session | None:
        """See `SessionStore.get`."""
        digest = self._digests.get(key)
        kept = self._by_digest.get(digest) if digest is not None else None
        return kept.session if kept is not None and not self._is_over(kept, self._clock()) else None

    async def has_stream(self, session: Session) -> bool:
        """See `SessionStore.has_stream`."""
        return bool(self._hub.streams_of(session.key))

    async def settle(self, session: Session) -> None:
        """See `SessionStore.settle`."""

    async def save(self, session: Session) -> None:
        """See `SessionStore.save`."""

    async def end(self, key: str, reason: Closing) -> bool:
        """See `SessionStore.end`."""
        digest = self._digests.get(key)
        if digest is None:
            return False
        self._drop(digest, reason)
        return True

    async def subscribe(self, session: Session, uri: str) -> Refusal | None:
        """See `SessionStore.subscribe`."""
        uris = {*(session.subscriptions or ()), uri}
        refusal = check_uris(uris)
        if refusal is None:
            self._hub.set_subscriptions(session, uris)
        return refusal

    async def unsubscribe(self, session: Session, uri: str) -> None:
        """See `SessionStore.unsubscribe`."""
        self._hub.set_subscriptions(session, (session.subscriptions or set()) - {uri})

    async def read_subscriptions(self, session: Session) -> set[str]:
        """See `SessionStore.read_subscriptions`."""
        if session.subscriptions is None:
            session.subscriptions = set()
        return session.subscriptions

    def data(self, session: Session, call: Call) -> Any:
        """See `SessionStore.data`."""
        digest = self._digests.get(session.key)
        return MemoryData(self._by_digest[digest].data if digest is not None else {})

    def _is_over(self, kept: _Kept, now: float) -> bool:
        options = self._options()
        return (
            now - kept.seen_s > options.session_idle_s
            or now - kept.opened_s > options.session_max_age_s
        )

    def _drop_expired(self, hub: ServerHub) -> None:
        now = self._clock()
        stale_s = self._options().session_idle_s / 2
        for digest, kept in list(self._by_digest.items()):
            session = kept.session
            if now - kept.seen_s > stale_s and (
                hub.calls.of(session) or hub.streams_of(session.key)
            ):
                kept.seen_s = now
            if self._is_over(kept, now):
                self._drop(digest, Closing.EXPIRED)

    def _drop(self, digest: str, reason: Closing) -> None:
        session = self._by_digest.pop(digest).session
        del self._digests[session.key]
        self._hub.forget_session(session.key)
        session.is_ended = True
        self._closed(session, reason)


class _Kept:
    __slots__ = ("data", "opened_s", "quota_key", "seen_s", "session")

    def __init__(self, session: Session, quota_key: str, now: float) -> None:
        self.session = session
        self.quota_key = quota_key
        self.opened_s = self.seen_s = now
        self.data: dict[str, bytes] = {}


class MemoryAnswers:
    """Keep answers nowhere: whoever asked waits in this process, and is told directly."""

    async def expect(self, session: Session, ask_id: str, timeout_s: float) -> bool:
        """See `AnswerBox.expect`."""
        return True

    async def put(self, session: Session, ask_id: str, answer: JSONObject) -> bool:
        """See `AnswerBox.put`."""
        return False

    async def take(self, session: Session, ask_id: str) -> JSONObject | None:
        """See `AnswerBox.take`."""
        return None

    async def forget(self, session: Session, ask_id: str) -> None:
        """See `AnswerBox.forget`."""


class MemoryEvents:
    """Record events in this process, within bounds; the oldest streams go first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._streams: OrderedDict[str, _Recorded] = OrderedDict()
        self._count = 0
        self._bytes = 0

    def open(self, stream_id: str, session: Session) -> None:
        """See `EventLog.open`."""
        self._streams[stream_id] = _Recorded(session.key, self._clock())

    def append(self, stream_id: str, session: Session, event: Event) -> None:
        """See `EventLog.append`."""
        recorded = self._streams.get(stream_id)
        if recorded is None:
            return
        recorded.events.append(event)
        recorded.is_running = not event.is_last
        self._count += 1
        self._bytes += len(event.message)
        oldest = self._clock() - MAX_EVENT_AGE_S
        while self._streams and (
            self._count > MAX_EVENTS
            or self._bytes > MAX_EVENT_BYTES
            or next(iter(self._streams.values())).opened_s < oldest
        ):
            _, dropped = self._streams.popitem(last=False)
            self._count -= len(dropped.events)
            self._bytes -= sum(len(each.message) for each in dropped.events)

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
    __slots__ = ("events", "is_running", "opened_s", "session_key")

    def __init__(self, session_key: str, now: float) -> None:
        self.session_key = session_key
        self.opened_s = now
        self.events: list[Event] = []
        self.is_running = True


class LocalBus:
    """Reach no other process: there is none."""

    is_shared = False

    async def send(self, *messages: JSONObject) -> None:
        """See `Bus.send`."""

    def send_now(self, message: JSONObject) -> None:
        """See `Bus.send_now`."""

    def start(self, receive: Callable[[JSONObject], None]) -> None:
        """See `Bus.start`."""

    async def ready(self) -> None:
        """See `Bus.ready`."""

    async def stop(self) -> None:
        """See `Bus.stop`."""


class NoObserver:
    """Look at nothing."""

    def session_opened(self, session: Session) -> None:
        """See `ConnectionObserver`."""

    def session_closed(self, session: Session, reason: str) -> None:
        """See `ConnectionObserver`."""

    def stream_opened(self, stream: Any) -> None:
        """See `ConnectionObserver`."""

    def stream_closed(self, stream: Any, reason: str) -> None:
        """See `ConnectionObserver`."""

    def client_notification(self, connection: Any, method: str, params: JSONObject) -> None:
        """See `ConnectionObserver`."""


def new_key() -> str:
    """Return a public key for a session."""
    return uuid.uuid4().hex
