"""Sessions in databases: found by every process, cached for two seconds, bounded."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.db import transaction
from django.db.models import F

from django_mcp.execution.db_connections import run_with_connections
from django_mcp.execution.tables import prune_all
from django_mcp.execution.threads import run_in_pool
from django_mcp.models import PendingAnswer, StreamEvent
from django_mcp.models import Session as Row
from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.messages import Request
from django_mcp.server.exchange.caller import ANONYMOUS
from django_mcp.server.exchange.quotas import MAX_URIS
from django_mcp.server.exchange.session import Closing, Session
from django_mcp.server.options import Options
from django_mcp.server.streams.process_messages import SubscriptionsChanged
from django_mcp.server.streams.stream import Change, PushStream, StreamKind
from django_mcp.sessions.site.closing import close_sessions, find_prunes
from django_mcp.sessions.site.messages import DatabasePendingResponses, DatabaseResponseRelay
from django_mcp.sessions.site.store import DatabaseSessions
from django_mcp.sessions.site.writer import flush_sessions
from tests.support.server.streams import LiveSink
from tests.support.session_sites import V2025_11_25, Principal, Site, Time, site

# -- database stores only


async def test_another_process_loads_the_whole_session(clock: Time):
    here, there = site("database", clock), site("database", clock)
    token, session = await here.open(
        Principal("user:1"), client_info={"name": "c", "x": "\0"}, client_capabilities={"roots": {}}
    )
    await here.store.update(session, {"is_initialized": True, "log_level": "error"})
    await here.store.subscribe(session, "stock://1")
    await here.store.data(session, None).aset("a", 1)  # type: ignore[arg-type]

    found = await there.store.find(token)

    assert found is not None
    assert found is not session
    assert there.store.peek(token) is found
    assert (found.key, found.server_name, found.principal_key) == (session.key, "shop", "user:1")
    assert found.revision is V2025_11_25
    assert found.client_info == {"name": "c", "x": "\0"}
    assert found.client_capabilities == {"roots": {}}
    assert (found.is_initialized, found.log_level) == (True, "error")
    assert found.subscriptions is None
    assert await there.store.read_subscriptions(found) == {"stock://1"}
    assert await there.store.data(found, None).aget("a") == 1  # type: ignore[arg-type]


async def test_no_secret_is_stored(clock: Time):
    here = site("database", clock)
    token, _ = await here.open(client_info={"name": "c"})

    row = await run_in_pool(lambda: Row.objects.values().get())

    assert token not in str(row)


async def test_a_session_ended_elsewhere_is_noticed_within_two_seconds(clock: Time):
    here, there = site("database", clock), site("database", clock)
    token, session = await here.open()
    await there.store.end([session.key], Closing.SITE)

    assert here.store.peek(token) is session
    clock.now_s += 2

    assert here.store.peek(token) is None
    assert await here.store.find(token) is None
    assert session.is_ended


async def test_calls_of_a_session_ended_elsewhere_are_cancelled(clock: Time):
    here, there = site("database", clock), site("database", clock)
    _, session = await here.open()
    _, other = await here.open()
    running = Running()
    for each in (session, other):
        here.hub.calls.add(running, each)  # type: ignore[arg-type]
    await there.store.end([session.key], Closing.SITE)

    await here.tick()

    assert session.is_ended
    assert not other.is_ended
    assert running.cancelled == 1


class Running:
    cancelled = 0
    message = Request(id=1, method="tools/call", params={})

    def cancel(self) -> None:
        self.cancelled += 1


async def test_a_subscription_made_elsewhere_arrives_without_a_message(clock: Time):
    here, there = site("database", clock), site("database", clock)
    token, session = await here.open()
    here.hub.calls.add(Running(), session)  # type: ignore[arg-type]
    found = await there.store.find(token)
    assert found is not None
    await there.store.subscribe(found, "stock://1")

    await here.tick()

    assert session.subscriptions == {"stock://1"}


def told_of(session: Session, *, is_short: bool = True) -> SubscriptionsChanged:
    """Return what a process tells the others after a change of subscriptions."""
    uris = sorted(session.subscriptions or ()) if is_short else None
    version = session.subscriptions_version
    return SubscriptionsChanged(session=session.key, uris=uris, version=version)


async def test_a_subscription_arrives_from_a_process_whose_clock_is_behind(clock: Time):
    behind = Time()
    behind.now_s = clock.now_s - 30
    here, there = site("database", clock), site("database", behind)
    token, session = await here.open()
    await here.store.read_subscriptions(session)
    found = await there.store.find(token)
    assert found is not None

    await there.store.subscribe(found, "stock://1")
    here.hub.receive(told_of(found).to_wire())

    assert session.subscriptions == {"stock://1"}


async def test_a_subscription_without_a_message_arrives_after_one_of_a_clock_ahead(clock: Time):
    ahead = Time()
    ahead.now_s = clock.now_s + 30
    here, there = site("database", clock), site("database", ahead)
    token, session = await here.open()
    here.hub.calls.add(Running(), session)  # type: ignore[arg-type]
    found = await there.store.find(token)
    assert found is not None

    await there.store.subscribe(found, "stock://1")
    here.hub.receive(told_of(found).to_wire())
    # The message about this one is lost.
    await there.store.subscribe(found, "stock://2")
    await here.tick()

    assert session.subscriptions == {"stock://1", "stock://2"}


class Streaming(Site):
    """A process that has a stream of a session."""

    def may_receive(self, _change: Change) -> None:
        """Everything may be received."""

    async def read_subscriptions(self, session: Session) -> set[str]:
        return await self.store.read_subscriptions(session)

    async def listen(self, session: Session) -> LiveSink:
        self.hub.servers["shop"] = self  # type: ignore[assignment]
        sink = LiveSink()
        stream = PushStream(
            kind=StreamKind.STANDALONE,
            server_name="shop",
            sink=sink,
            principal=ANONYMOUS,
            uris=await self.read_subscriptions(session),
            session=session,
            revision_name=V2025_11_25.name,
        )
        self.hub.attach(stream)
        return sink


async def test_an_update_while_a_process_reads_a_long_subscription_is_not_lost(clock: Time):
    here, there = Streaming("database", Options(name="shop"), clock), site("database", clock)
    token, session = await here.open()
    sink = await here.listen(session)
    found = await there.store.find(token)
    assert found is not None
    await there.store.subscribe(found, "stock://1")

    here.hub.receive(told_of(found, is_short=False).to_wire())
    reached = here.hub.publish(Change(server="shop", uri="stock://1"))

    assert reached == 0
    assert (await sink.message())["params"] == {"uri": "stock://1"}
    await here.hub.stop()


async def test_a_long_subscription_alone_is_no_update(clock: Time):
    here, there = Streaming("database", Options(name="shop"), clock), site("database", clock)
    token, session = await here.open()
    sink = await here.listen(session)
    found = await there.store.find(token)
    assert found is not None
    await there.store.subscribe(found, "stock://1")
    await there.store.subscribe(found, "stock://2")

    here.hub.receive(told_of(found, is_short=False).to_wire())
    await here.read_subscriptions(session)
    here.hub.publish(Change(server="shop", uri="stock://2"))

    assert (await sink.message())["params"] == {"uri": "stock://2"}
    await here.hub.stop()


async def test_a_late_message_does_not_bring_a_subscription_back(clock: Time):
    here, there = site("database", clock), site("database", clock)
    token, session = await here.open()
    found = await there.store.find(token)
    assert found is not None
    await there.store.subscribe(found, "stock://1")
    late = told_of(found)
    await here.store.unsubscribe(session, "stock://1")

    here.hub.receive(late.to_wire())

    assert session.subscriptions == set()


async def test_unsubscribing_keeps_what_another_process_subscribed_to(clock: Time):
    here, there = site("database", clock), site("database", clock)
    token, session = await here.open()
    found = await there.store.find(token)
    assert found is not None
    await here.store.subscribe(session, "stock://1")
    await there.store.subscribe(found, "stock://2")

    await here.store.unsubscribe(session, "stock://1")

    assert session.subscriptions == {"stock://2"}


async def test_one_of_many_concurrent_deletes_sends_the_signal(clock: Time):
    here = site("database", clock)
    keys = [(await here.open())[1].key for _ in range(10)]
    start = threading.Barrier(4)

    def close() -> int:
        start.wait(10)
        return len(close_sessions(keys, Closing.EXPIRED))

    with ThreadPoolExecutor(4) as threads:
        work = [threads.submit(run_with_connections, close) for _ in range(4)]
        counts = [each.result() for each in work]

    assert sorted(key for key, _principal, _reason in here.closed) == sorted(keys)
    assert sorted(counts) == [0, 0, 0, 10]


async def test_the_end_of_a_session_is_signalled_on_commit(clock: Time):
    here = site("database", clock)
    _, session = await here.open()

    def close(*, is_kept: bool) -> None:
        with transaction.atomic("first"):
            close_sessions([session.key], Closing.EVICTED)
            assert here.closed == []
            transaction.set_rollback(not is_kept, "first")

    await run_in_pool(lambda: close(is_kept=False))
    assert here.closed == []
    await run_in_pool(lambda: close(is_kept=True))

    assert here.closed == [(session.key, None, Closing.EVICTED)]


async def test_a_session_in_use_elsewhere_is_not_evicted(clock: Time, databases: str):
    if databases == "sqlite":
        pytest.skip("SQLite has one writer at a time, and nothing that is locked by itself")
    here = site("database", clock, max_sessions_per_principal=1)
    token, session = await here.open(Principal("user:1"))
    used, done = threading.Event(), threading.Event()

    def use() -> None:
        with transaction.atomic("first"):
            Row.objects.filter(pk=session.key).update(last_seen_at=F("last_seen_at"))
            used.set()
            assert done.wait(20)

    with ThreadPoolExecutor(1) as threads:
        work = threads.submit(run_with_connections, use)
        assert used.wait(20)
        await here.open(Principal("user:1"))
        done.set()
        work.result()

    assert not session.is_ended
    assert await here.store.find(token) is session


async def test_a_session_deleted_by_cascade_is_signalled(
    clock: Time, monkeypatch: pytest.MonkeyPatch
):
    """The signal is sent after the commit, and not on a rollback."""
    told: list[tuple[str, Closing]] = []
    monkeypatch.setattr(
        "django_mcp.sessions.site.closing.notify_closed",
        lambda session, reason: told.append((session.key, reason)),
    )
    here = site("database", clock)
    _, session = await here.open()

    def delete(*, is_kept: bool) -> None:
        with transaction.atomic("first"):
            Row.objects.filter(pk=session.key).delete()
            assert told == []
            transaction.set_rollback(not is_kept, "first")

    await run_in_pool(lambda: delete(is_kept=False))
    assert told == []
    await run_in_pool(lambda: delete(is_kept=True))

    assert told == [(session.key, Closing.DELETED)]


class Counting(Site):
    """A process that notes for whose quota it is told of ended sessions."""

    def session_closed(self, session: Session, reason: str) -> None:
        quotas.append(session.quota_key)


quotas: list[str] = []


async def test_the_end_of_a_session_counts_for_its_own_caller(clock: Time):
    """Or one caller's sessions would take the place of the signals of all others."""
    here = Counting("database", Options(name="shop"), clock)
    quotas.clear()
    sessions = [(await here.open(Principal(key)))[1] for key in ("user:1", "user:2")]
    await here.store.end([session.key for session in sessions], Closing.CLIENT)

    assert len({*quotas, ""}) == 3


async def test_a_session_of_another_server_is_unknown(clock: Time):
    here = site("database", clock)
    token, session = await here.open()
    staff = DatabaseSessions(here.hub, replace(here.options, name="staff"), clock)

    assert await staff.find(token) is None
    assert await staff.get(session.key) is None


async def test_a_session_is_one_object_while_referenced(
    clock: Time, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("django_mcp.sessions.site.store.MAX_CACHED", 2)
    here = site("database", clock)
    token, session = await here.open()
    for _ in range(3):
        await here.open()

    assert here.store.peek(token) is None
    assert await here.store.find(token) is session


async def test_a_process_caches_a_bounded_number_of_sessions(
    clock: Time, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("django_mcp.sessions.site.store.MAX_CACHED", 20)
    here = site("database", clock, max_sessions=50, anonymous_share=1)

    for _ in range(120):
        await here.open()

    assert len(here.hub.sessions) <= 21
    assert await run_in_pool(Row.objects.count) == 50


async def test_a_process_caches_a_bounded_number_of_bytes(
    clock: Time, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("django_mcp.sessions.site.store.MAX_CACHED_BYTES", 50_000)
    here = site("database", clock)
    large = {"experimental": {"x": "y" * 8000}}

    tokens = [(await here.open(client_capabilities=large))[0] for _ in range(20)]

    assert 1 <= len(here.hub.sessions) <= 5
    assert here.store.peek(tokens[-1]) is not None
    for token in tokens:
        assert await here.store.find(token) is not None
    assert 1 <= len(here.hub.sessions) <= 5


async def test_expired_rows_are_removed(clock: Time):
    here = site("database", clock, session_idle_s=100)
    await here.open()
    clock.now_s += 50
    token, _ = await here.open()
    clock.now_s += 111

    await run_in_pool(lambda: prune_all(*find_prunes("shop", clock.now_s, 100), max_s=60))

    assert await run_in_pool(Row.objects.count) == 1
    assert await here.store.find(token) is None


async def test_more_than_one_batch_of_expired_rows_is_removed(
    clock: Time, monkeypatch: pytest.MonkeyPatch
):
    """Otherwise clients could create rows faster than they are deleted."""
    for module in ("execution.tables", "sessions.site.closing"):
        monkeypatch.setattr(f"django_mcp.{module}.AT_ONCE", 2)
    here = site("database", clock, session_idle_s=1000)
    sessions = [(await here.open())[1] for _ in range(5)]
    for number in range(5):
        await DatabasePendingResponses().expect(sessions[0], f"ask-{number}", -100)
    old = datetime.now(UTC) - timedelta(hours=1)
    stream, session_id = uuid4(), sessions[0].key
    events = [
        StreamEvent(stream_id=stream, session_id=session_id, number=number, size=2, created_at=old)
        for number in range(1, 6)
    ]
    await run_in_pool(lambda: StreamEvent.objects.bulk_create(events))

    await run_in_pool(lambda: prune_all(*find_prunes("shop", clock.now_s, 1000), max_s=60))
    assert await run_in_pool(PendingAnswer.objects.count) == 0
    assert await run_in_pool(StreamEvent.objects.count) == 0
    await run_in_pool(lambda: prune_all(*find_prunes("shop", clock.now_s + 1100, 1000), max_s=60))

    assert await run_in_pool(Row.objects.count) == 0


async def test_last_use_is_written_every_five_seconds(clock: Time):
    here = site("database", clock)
    token, _ = await here.open()

    async def seen_s() -> float:
        await run_in_pool(flush_sessions)
        row = await run_in_pool(Row.objects.get)
        return row.last_seen_at.timestamp()

    opened_s = await seen_s()
    clock.now_s += 3
    await here.store.find(token)
    assert await seen_s() == opened_s
    clock.now_s += 2
    await here.store.find(token)
    assert await seen_s() == opened_s + 5


async def test_the_number_of_subscriptions_is_limited(
    kind: str, clock: Time, monkeypatch: pytest.MonkeyPatch
):
    assert MAX_URIS == 1000
    monkeypatch.setattr("django_mcp.server.exchange.quotas.MAX_URIS", 2)
    here = site(kind, clock)
    _, session = await here.open()
    for uri in ("a:1", "a:2", "a:2"):
        assert await here.store.subscribe(session, uri) is None

    for uri in ("a:3", "a:" + "x" * 5000):
        assert isinstance(await here.store.subscribe(session, uri), Refusal)
    assert session.subscriptions == {"a:1", "a:2"}


async def test_the_bytes_of_subscriptions_of_a_session_are_limited(kind: str, clock: Time):
    here = site(kind, clock)
    _, session = await here.open()
    uris = [f"a:{number}:{'x' * 4000}" for number in range(70)]

    refused = [uri for uri in uris if await here.store.subscribe(session, uri) is not None]

    assert refused == uris[-5:]


async def test_a_uri_that_databases_cannot_store_is_rejected(clock: Time):
    here = site("database", clock)
    _, session = await here.open()

    assert isinstance(await here.store.subscribe(session, "a:\0"), Refusal)


# -- answers


async def test_the_first_answer_from_any_process_wins(clock: Time):
    here = site("database", clock)
    _, session = await here.open()
    _, stranger = await here.open()
    asks, relay = DatabasePendingResponses(), DatabaseResponseRelay()
    other = DatabaseResponseRelay()
    await asks.expect(session, "ask-1", 60)
    first, second = {"result": {"a": "\0"}}, {"error": {"code": 1, "message": "no"}}

    assert await relay.take(session, "ask-1") is None
    assert not await other.put(stranger, "ask-1", second)
    assert not await other.put(session, "ask-2", second)
    assert not await other.put(session, "x" * 5000 + "\0", second)
    assert await other.put(session, "ask-1", first)
    assert not await other.put(session, "ask-1", second)

    assert await relay.take(stranger, "ask-1") is None
    assert await relay.take(session, "ask-1") == first
    await asks.forget(session, "ask-1")
    assert not await other.put(session, "ask-1", second)
    assert await relay.take(session, "ask-1") is None


async def test_a_late_answer_is_ignored(clock: Time):
    here = site("database", clock)
    _, session = await here.open()
    asks, relay = DatabasePendingResponses(), DatabaseResponseRelay()
    await asks.expect(session, "ask-1", 0)

    assert not await relay.put(session, "ask-1", {"result": {}})
