"""The plain implementations of what outlives a request: sessions, answers, recorded events."""

from __future__ import annotations

import hashlib
import secrets
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod

from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.json import JSONObject
from django_mcp.server.exchange.connection import Closing, Session
from django_mcp.server.exchange.quotas import (
    Limits,
    QuotaMeter,
    QuotaReached,
    Scope,
    is_anonymous_quota,
    quota_key_of,
    share_of,
)
from django_mcp.server.exchange.session_data import MemoryData, refuse_data
from django_mcp.server.exchange.subscription_limits import TOO_MANY_URIS, check_uris
from django_mcp.server.services.session_lookup import SESSIONS_FULL, memory_size
from django_mcp.server.streams.upkeep import while_there

if TYPE_CHECKING:
    from django_mcp.server.exchange.call import Call
    from django_mcp.server.exchange.exchange import Exchange
    from django_mcp.server.options import Options
    from django_mcp.server.services.services import ServerHub

SESSION_LIMITS = Limits(
    own_count=100_000, own_bytes=64 * 1024 * 1024, count=1_000_000, bytes=256 * 1024 * 1024
)
"""Bytes of sessions with their data and subscriptions; `Options.max_sessions` bounds their number. Our own limit."""

QUESTION_LIMITS = Limits(own_count=250, own_bytes=0, count=10_000, bytes=0)
"""Questions to clients that are not answered yet. Our own limit."""


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
        self._meter = QuotaMeter(SESSION_LIMITS)

    async def open(self, session: Session, exchange: Exchange) -> str | Refusal:
        """See `SessionStore.open`."""
        options = self._options()
        self._drop_expired(self._hub)
        if self._on_tick not in self._hub.on_tick:
            self._hub.on_tick.append(self._on_tick)
        quota_key = quota_key_of(session.principal_key, exchange.address)
        size = memory_size(session)
        if not self._make_room(quota_key, options) or not self._make_room_for(quota_key, size):
            return SESSIONS_FULL
        token = new_token()
        digest = digest_of(token)
        now = self._clock()
        session.subscriptions = set()
        session.quota_key = quota_key
        self._by_digest[digest] = _Kept(session, quota_key, now, size)
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

    def _make_room_for(self, quota_key: str, size: int) -> bool:
        """Count bytes, after sessions that were idle for longest have made room; return whether it is done."""
        while (scope := self._take(quota_key, size)) is not None:
            doomed = self._find_idle(quota_key, scope)
            if doomed is None:
                return False
            self._drop(doomed, Closing.EVICTED)
        return True

    def _find_idle(self, quota_key: str, scope: Scope) -> str | None:
        """Return the session that makes room for another of a caller; anonymous ones do so first."""
        kept = self._by_digest.items()
        if scope is Scope.OWN:
            return next((digest for digest, each in kept if each.quota_key == quota_key), None)
        anonymous = (digest for digest, each in kept if is_anonymous_quota(each.quota_key))
        rest = None if is_anonymous_quota(quota_key) else next(iter(self._by_digest), None)
        return next(anonymous, rest)

    def _take(self, quota_key: str, size: int) -> Scope | None:
        share = self._options().anonymous_share
        return self._meter.take(quota_key, size, count=0, anonymous_share=share)

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
        before = session.subscriptions or set()
        refusal = check_uris(before | {uri})
        if refusal is not None or uri in before:
            return refusal
        kept = self._kept(session)
        if kept is not None:
            scope = self._take(kept.quota_key, len(uri))
            if scope is not None:
                return TOO_MANY_URIS[scope]
            kept.size += len(uri)
        self._hub.set_subscriptions(session, before | {uri})
        return None

    async def unsubscribe(self, session: Session, uri: str) -> None:
        """See `SessionStore.unsubscribe`."""
        before = session.subscriptions or set()
        kept = self._kept(session)
        if kept is not None and uri in before:
            self._grow(kept, -len(uri))
        self._hub.set_subscriptions(session, before - {uri})

    async def read_subscriptions(self, session: Session) -> set[str]:
        """See `SessionStore.read_subscriptions`."""
        if session.subscriptions is None:
            session.subscriptions = set()
        return session.subscriptions

    def data(self, session: Session, call: Call) -> Any:
        """See `SessionStore.data`."""
        kept = self._kept(session)
        return MemoryData({}) if kept is None else MemoryData(kept.data, partial(self._grow, kept))

    def _kept(self, session: Session) -> _Kept | None:
        digest = self._digests.get(session.key)
        return None if digest is None else self._by_digest.get(digest)

    def _grow(self, kept: _Kept, size: int) -> None:
        """Count more bytes of a session, or less of them.

        Raises:
            ValueError: a limit is reached.
        """
        if kept.session.is_ended:
            return
        scope = self._take(kept.quota_key, size) if size > 0 else None
        if scope is not None:
            refuse_data(scope)
        if size < 0:
            self._meter.give_back(kept.quota_key, -size, count=0)
        kept.size += size

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
        kept = self._by_digest.pop(digest)
        session = kept.session
        self._meter.give_back(kept.quota_key, kept.size, count=0)
        del self._digests[session.key]
        self._hub.forget_session(session.key)
        session.is_ended = True
        self._closed(session, reason)


class _Kept:
    __slots__ = ("data", "opened_s", "quota_key", "seen_s", "session", "size")

    def __init__(self, session: Session, quota_key: str, now: float, size: int) -> None:
        self.session = session
        self.quota_key = quota_key
        self.opened_s = self.seen_s = now
        self.size = size
        self.data: dict[str, bytes] = {}


class MemoryAnswers:
    """Keep no answers: the asking call waits in this process and gets its answer directly.

    Args:
        anonymous_share: the part of the limit on questions that anonymous callers may use together.
    """

    def __init__(self, anonymous_share: Callable[[], float] = lambda: 1.0) -> None:
        self._anonymous_share = anonymous_share
        self._meter = QuotaMeter(QUESTION_LIMITS)
        self._quota_keys: dict[tuple[str, str], str] = {}

    async def expect(self, session: Session, ask_id: str, timeout_s: float) -> bool:
        """See `AnswerBox.expect`."""
        scope = self._meter.take(session.quota_key, 0, anonymous_share=self._anonymous_share())
        if scope is not None:
            raise QuotaReached(scope)
        self._quota_keys[session.key, ask_id] = session.quota_key
        return True

    async def put(self, session: Session, ask_id: str, answer: JSONObject) -> bool:
        """See `AnswerBox.put`."""
        return False

    async def take(self, session: Session, ask_id: str) -> JSONObject | None:
        """See `AnswerBox.take`."""
        return None

    async def forget(self, session: Session, ask_id: str) -> None:
        """See `AnswerBox.forget`."""
        quota_key = self._quota_keys.pop((session.key, ask_id), None)
        if quota_key is not None:
            self._meter.give_back(quota_key, 0)


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
