"""DatabaseSessions: sessions in rows, some of which a process caches for two seconds."""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any
from uuid import UUID

from django.db import IntegrityError

from django_mcp.conf import settings
from django_mcp.execution.own_writes import wait_for_other_writers
from django_mcp.execution.tables import Pruner
from django_mcp.models import sessions as models
from django_mcp.process import Sharing
from django_mcp.protocol.errors import Refusal, invalid_params
from django_mcp.server.exchange.call import Call
from django_mcp.server.exchange.digests import digest_of, new_token
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.quotas import CountLimits, check_uris
from django_mcp.server.exchange.session import Closing, Session, memory_size
from django_mcp.server.exchange.session_data import SessionData
from django_mcp.server.options import Options
from django_mcp.server.ports import StoreUnavailable
from django_mcp.server.services import ServerHub
from django_mcp.sessions.site.closing import close_sessions, find_prunes, to_session
from django_mcp.sessions.site.data import EngineData, RowData
from django_mcp.sessions.site.rows import (
    Known,
    Subscribed,
    Tally,
    add_subscription,
    ask_database,
    has_live_stream,
    insert_session,
    new_row,
    read_alive,
    read_subscribed,
    remove_subscription,
    write_changes,
    write_database,
)
from django_mcp.sessions.site.writer import write_if_alone

FRESH_S = 2.0
"""How long a process uses cached columns of a session."""

MAX_CACHED = 2000
MAX_CACHED_BYTES = 16 * 1024 * 1024
"""Size of the sessions that a process caches without running anything for them."""

MAX_UNWRITTEN = 1000
"""Sessions that a process opens while SQLite is locked; the next ones wait."""

PRUNE_EVERY_S = 60.0

_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


class DatabaseSessions:
    """Keep sessions of one server in the site's database. See `SessionStore`.

    The server's hub holds the session objects, so that there is one for each session in use.
    """

    def __init__(
        self, hub: ServerHub, options: Options, clock: Callable[[], float] = time.time
    ) -> None:
        self._hub = hub
        self._options = options
        self._clock = clock
        self._tally = Tally()
        # Not at once, since workers that start together would all do it.
        self._pruner = Pruner(PRUNE_EVERY_S, clock=clock, first_s=PRUNE_EVERY_S)
        # Several threads serve requests under WSGI. Least recently used first.
        self._lock = threading.Lock()
        self._cache: OrderedDict[str, Session] = OrderedDict()
        self._cached_bytes = 0
        # Sessions by digest whose rows wait to be inserted, and keys of those whose rows wait to be deleted.
        self._unwritten: dict[str, Session] = {}
        self._ending: set[str] = set()
        self._finding: Sharing[Session | None] = Sharing()

    # -- opening and ending

    async def open(self, session: Session, exchange: Exchange) -> str | Refusal:
        options, now_s = self._options, self._clock()
        token = new_token()
        user_id = getattr(getattr(exchange.caller.principal, "user", None), "pk", None)
        known = Known(digest_of(token), user_id)
        known.read_s = known.seen_s = known.noted_s = now_s
        known.expires_s = now_s + options.session_max_age_s
        row = new_row(session, self._options.name, known, exchange.caller.quota_key)
        limits = CountLimits.of(
            options.max_sessions, options.max_sessions_per_principal, options.anonymous_share
        )

        def write() -> list[str] | Refusal:
            try:
                write_if_alone()
                self._prune_if_due(now_s)
                ended = insert_session(row, self._tally, limits)
                known.is_written = True
                return ended
            finally:
                self._unwritten.pop(known.digest, None)

        session.state, known.is_written = known, False
        may_leave = len(self._unwritten) < MAX_UNWRITTEN
        if may_leave:
            self._unwritten[known.digest] = session
        otherwise: Callable[[], list[str] | Refusal] | None = list if may_leave else None
        ended = await write_database(write, otherwise)
        if isinstance(ended, Refusal):
            return ended
        for key in ended:
            self._hub.end_session(key)
        session.quota_key = row.quota_key
        session.subscriptions = set()
        self._remember(session, known)
        return token

    async def end(self, keys: Collection[str], reason: Closing) -> list[str]:
        def write() -> list[str]:
            try:
                return [key.hex for key in close_sessions(keys, reason)]
            finally:
                self._ending.difference_update(keys)

        self._ending.update(keys)
        ended = await write_database(write, lambda: list(keys))
        for key in ended:
            session = self._hub.sessions.get(key)
            is_anonymous = session is not None and session.principal_key is None
            self._tally.add(-1, anonymous=-1 if is_anonymous else 0)
        for key in keys:
            self._forget(key)
        return ended

    def _forget(self, key: str) -> None:
        hub = self._hub
        session = hub.sessions.get(key)
        if session is None:
            return
        hub.forget_session(key)
        with self._lock:
            self._uncache(session.state.digest)

    # -- finding

    def peek(self, token: str) -> Session | None:
        session = self._cache.get(digest_of(token))
        if session is None or session.is_ended:
            return None
        known, now_s, idle_s = session.state, self._clock(), self._options.session_idle_s
        if not 0 <= now_s - known.read_s < FRESH_S or known.is_over(now_s, idle_s):
            return None
        known.note_use(session.key, now_s, idle_s)
        return session

    async def find(self, token: str) -> Session | None:
        if _TOKEN.fullmatch(token) is None:
            return None
        digest = digest_of(token)
        return await self._finding.ask(digest, lambda: self._find(digest))

    async def _find(self, digest: str) -> Session | None:
        cached = self._unwritten.get(digest) or self._cache.get(digest)
        session = await self._read(None if cached is None else cached.key, digest=digest)
        if session is None and cached is None and await wait_for_other_writers():
            # Another process may have opened it while SQLite was locked.
            session = await self._read(None, digest=digest)
        if session is not None:
            session.state.note_use(session.key, self._clock(), self._options.session_idle_s)
            self._remember(session, session.state)
        return session

    async def get(self, key: str) -> Session | None:
        return await self._read(key, pk=UUID(key))

    async def _read(self, key: str | None, **lookup: Any) -> Session | None:
        if key in self._ending:
            return None
        held = None if key is None else self._hub.sessions.get(key)
        if held is not None and self._unwritten.get(held.state.digest) is held:
            return held
        rows = models.Session.objects.filter(server=self._options.name, **lookup)

        def read() -> models.Session | None:
            write_if_alone()
            return rows.first()

        # The result is as old as the query.
        now_s = self._clock()
        row = await ask_database(read)
        if row is None:
            if key is not None:
                self._forget(key)
            return None
        if row.pk.hex in self._ending:
            return None
        session = self._hub.sessions.get(row.pk.hex)
        if session is None or session.is_ended or not isinstance(session.state, Known):
            session = to_session(row)
            # Over HTTP+SSE the row exists before the handshake, so it has no revision yet.
            if session.revision is None and row.revision:
                # It is not known any more.
                return None
            session.state = Known(row.digest, row.user_id)
        known: Known = session.state
        known.read_s = now_s
        known.expires_s = row.expires_at.timestamp()
        known.seen_s = max(known.seen_s, row.last_seen_at.timestamp())
        # Never reset: the row may have been read before this process wrote it.
        session.is_initialized = session.is_initialized or row.is_initialized
        session.log_level = row.log_level or None
        if known.is_over(now_s, self._options.session_idle_s):
            await self.end([session.key], Closing.EXPIRED)
            return None
        self._hub.sessions[session.key] = session
        return session

    def _remember(self, session: Session, known: Known) -> None:
        size = memory_size(session)
        with self._lock:
            self._uncache(known.digest)
            self._cache[known.digest] = session
            self._cached_bytes += size
            known.cached_bytes = size
            while len(self._cache) > MAX_CACHED or self._cached_bytes > MAX_CACHED_BYTES:
                self._uncache(next(iter(self._cache)))
        hub = self._hub
        hub.sessions[session.key] = session
        hub.stores.add(self)

    def _uncache(self, digest: str) -> None:
        session = self._cache.pop(digest, None)
        if session is not None:
            self._cached_bytes -= session.state.cached_bytes

    async def has_stream(self, session: Session) -> bool:
        return await ask_database(lambda: has_live_stream(session.key, self._clock()))

    # -- changes

    async def update(self, session: Session, changes: Mapping[str, Any]) -> None:
        session.update(changes)
        await write_database(lambda: write_changes(session, changes), lambda: None)

    async def subscribe(self, session: Session, uri: str) -> Refusal | None:
        if "\0" in uri:
            return _BAD_URI
        try:
            subscribed = await write_database(
                lambda: add_subscription(session, uri),
                lambda: _limit(_guess(session, {*(session.subscriptions or ()), uri})),
            )
        except IntegrityError:
            # The session ended meanwhile, so nobody receives the response.
            return _ENDED
        if isinstance(subscribed, Refusal):
            return subscribed
        self._hub.set_subscriptions(session, subscribed.uris, version=subscribed.version)
        return None

    async def unsubscribe(self, session: Session, uri: str) -> None:
        subscribed = await write_database(
            lambda: remove_subscription(session.key, uri),
            lambda: _guess(session, {*(session.subscriptions or ())} - {uri}),
        )
        self._hub.set_subscriptions(session, subscribed.uris, version=subscribed.version)

    async def read_subscriptions(self, session: Session) -> set[str]:
        subscribed = await ask_database(lambda: read_subscribed(session.key))
        if session.key in subscribed:
            stored = subscribed[session.key]
            self._hub.set_subscriptions(session, stored.uris, version=stored.version)
        return session.subscriptions if session.subscriptions is not None else set()

    def data(self, session: Session, call: Call) -> SessionData:
        if settings.SESSION_DATA == "session_engine":
            return self._engine_data(session.key)
        return RowData(session)

    def _engine_data(self, key: str) -> EngineData:
        return EngineData(key, self._options.session_max_age_s)

    # -- upkeep

    async def recheck(self, hub: ServerHub) -> None:
        """Find out which sessions in use here have ended; prune from time to time."""
        held = {session.key: session for session in self._held(hub)}
        now_s = self._clock()
        if not held and not self._pruner.is_due:
            return

        def read() -> dict[str, tuple[Any, ...]]:
            self._prune_if_due(now_s)
            return read_alive(held, now_s)

        try:
            alive = await ask_database(read)
            expired = held.keys() - alive.keys()
            if expired:
                await write_database(lambda: close_sessions(expired, Closing.EXPIRED), list)
        except StoreUnavailable:
            return
        changed: dict[str, Session] = {}
        for key, session in held.items():
            if key not in alive:
                self._forget(key)
                continue
            session.state.note_use(key, now_s, self._options.session_idle_s)
            if session.subscriptions is not None and session.state.mark != alive[key]:
                changed[key] = session
        if changed:
            await self._read_again(hub, changed, alive)

    async def _read_again(
        self, hub: ServerHub, sessions: dict[str, Session], marks: dict[str, tuple[Any, ...]]
    ) -> None:
        try:
            subscribed = await ask_database(lambda: read_subscribed(*sessions))
        except StoreUnavailable:
            return
        for key, stored in subscribed.items():
            session = sessions[key]
            session.state.mark = marks[key]
            hub.set_subscriptions(session, stored.uris, version=stored.version)

    def _held(self, hub: ServerHub) -> Iterator[Session]:
        for session in list(hub.sessions.values()):
            is_ours = session.server_name == self._options.name and isinstance(session.state, Known)
            if (
                is_ours
                and session.state.is_written
                and (hub.calls.of(session) or hub.streams_of(session.key))
            ):
                yield session

    def _prune_if_due(self, now_s: float) -> None:
        if self._pruner.is_due:
            idle_s = self._options.session_idle_s
            self._pruner.prune_if_due(*find_prunes(self._options.name, now_s, idle_s))


def _guess(session: Session, uris: set[str]) -> Subscribed:
    """Return what will be stored later: the next version is not known yet."""
    return Subscribed(version=session.subscriptions_version, uris=uris)


def _limit(subscribed: Subscribed) -> Subscribed | Refusal:
    return check_uris(subscribed.uris) or subscribed


_BAD_URI = invalid_params("The URI cannot be subscribed to")
_ENDED = invalid_params("The session has ended")
