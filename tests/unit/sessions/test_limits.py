"""Limits of session data: per caller and in total, in every store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.test import override_settings

from django_mcp.execution.threads import run_in_pool
from django_mcp.server.exchange.quotas import Limits, QuotaReached, QuotaScope
from django_mcp.server.exchange.session import Closing, Session
from django_mcp.server.ports import Event, EventLog, PendingResponses
from django_mcp.sessions.core.memory import EVENT_LIMITS, MemoryEvents, MemoryPendingResponses
from django_mcp.sessions.site import data, messages, rows, writer
from django_mcp.sessions.site.messages import DatabaseEvents, DatabasePendingResponses
from django_mcp.sessions.site.writer import flush_sessions
from tests.support.session_sites import Principal, Site, Time, site

ANN, BOB = Principal("user:ann"), Principal("user:bob")
KIB = 1024


@pytest.fixture
def here(kind: str) -> Site:
    return site(kind, Time())


async def open_session(here: Site, principal: Any) -> Session:
    return (await here.open(principal))[1]


def set_limits(monkeypatch: pytest.MonkeyPatch, **changes: int) -> None:
    """Set the limits of every store."""
    limits = Limits(
        **{"own_count": 10**9, "own_bytes": 10**9, "count": 10**9, "bytes": 10**9, **changes}
    )
    for usage in (messages._usage, data._usage, rows._subscriptions):
        monkeypatch.setattr(usage, "limits", limits)
    state = "django_mcp.sessions.core.memory"
    monkeypatch.setattr(f"{state}.QUESTION_LIMITS", limits)
    monkeypatch.setattr(f"{state}.MAX_OWN_BYTES", limits.own_bytes)
    monkeypatch.setattr(f"{state}.MAX_BYTES", limits.bytes)


# -- questions to clients


@pytest.fixture
def pending(kind: str) -> PendingResponses:
    return MemoryPendingResponses() if kind == "memory" else DatabasePendingResponses()


async def expect(pending: PendingResponses, session: Session, ask_id: str) -> QuotaScope | None:
    try:
        assert await pending.expect(session, ask_id, 60)
    except QuotaReached as reached:
        return reached.scope
    return None


async def test_the_number_of_client_requests_is_limited_per_caller(
    kind: str, monkeypatch: pytest.MonkeyPatch
):
    set_limits(monkeypatch, own_count=2, count=3)
    here = site(kind, Time())
    pending: PendingResponses = (
        MemoryPendingResponses() if kind == "memory" else DatabasePendingResponses()
    )
    one, two = await open_session(here, ANN), await open_session(here, ANN)
    bob, eve = await open_session(here, BOB), await open_session(here, Principal("user:eve"))

    assert await expect(pending, one, "1") is None
    assert await expect(pending, two, "2") is None
    assert await expect(pending, two, "3") is QuotaScope.OWN
    assert await expect(pending, bob, "4") is None
    assert await expect(pending, eve, "5") is QuotaScope.ALL
    await pending.forget(one, "1")
    assert await expect(pending, two, "3") is None


async def test_the_bytes_of_answers_are_limited_per_caller(monkeypatch: pytest.MonkeyPatch):
    set_limits(monkeypatch, own_bytes=10 * KIB)
    here, pending = site("database", Time()), DatabasePendingResponses()
    session, bob = await open_session(here, ANN), await open_session(here, BOB)
    for each, name in ((session, "1"), (session, "2"), (session, "3"), (bob, "4")):
        await pending.expect(each, name, 60)
    large = {"result": "x" * 6 * KIB}

    assert await pending.relay.put(session, "1", large)
    with pytest.raises(QuotaReached):
        await pending.relay.put(session, "2", large)
    assert await pending.relay.put(session, "2", {"result": {}})
    assert await pending.relay.put(bob, "4", large)
    # No request waits for it, so that it is not stored.
    assert not await pending.relay.put(session, "unknown", large)
    await pending.forget(session, "1")
    assert await pending.relay.put(session, "3", large)


async def test_client_requests_of_all_processes_are_counted(monkeypatch: pytest.MonkeyPatch):
    set_limits(monkeypatch, own_count=2)
    here, pending = site("database", Time()), DatabasePendingResponses()
    session = await open_session(here, ANN)
    for number in range(2):
        await pending.expect(session, f"elsewhere {number}", 60)
    # As a new process, which has counted nothing yet.
    messages._usage._counts.clear()

    assert await expect(pending, session, "here") is QuotaScope.OWN


# -- the log of events


async def record(log: EventLog, session: Session, stream: str, *, size: int = 10) -> None:
    log.open(stream, session)
    log.append(stream, session, Event(number=1, message=b"x" * size, is_last=True))
    await run_in_pool(flush_sessions)


async def read_kept(log: EventLog, streams: dict[str, Session]) -> list[str]:
    found = []
    for stream, session in streams.items():
        if await log.read(stream, session, 0) is not None:
            found.append(stream)
    return found


@pytest.mark.parametrize("bound", ["EVENTS", "BYTES"])
async def test_the_oldest_events_of_a_caller_are_evicted(
    kind: str, bound: str, monkeypatch: pytest.MonkeyPatch
):
    value = 3 if bound == "EVENTS" else 35
    monkeypatch.setattr(f"django_mcp.sessions.site.writer.MAX_OWN_{bound}", value)
    limit = {"own_count": value} if bound == "EVENTS" else {"own_bytes": value}
    limits = replace(EVENT_LIMITS, **limit)
    monkeypatch.setattr("django_mcp.sessions.core.memory.EVENT_LIMITS", limits)
    monkeypatch.setattr(writer, "LOOK_AFTER_BYTES", 0)
    here = site("database", Time())
    log: EventLog = MemoryEvents() if kind == "memory" else DatabaseEvents()
    bob = await open_session(here, BOB)
    streams = {f"{0:032x}": bob}
    await record(log, bob, f"{0:032x}")
    for number in range(1, 6):
        session = await open_session(here, ANN)
        streams[f"{number:032x}"] = session
        await record(log, session, f"{number:032x}")

    kept = [int(stream, 16) for stream in await read_kept(log, streams)]
    assert kept == [0, 3, 4, 5]


async def test_the_oldest_events_are_evicted_anonymous_ones_first(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(writer, "MAX_EVENTS", 4)
    monkeypatch.setattr(writer, "LOOK_AFTER_BYTES", 0)
    here, log = site("database", Time()), DatabaseEvents()
    streams = {}
    for number in range(8):
        is_user = number < 3
        _, session = (
            await here.open(Principal(f"user:{number}"))
            if is_user
            else await here.open(address=f"192.0.2.{number}")
        )
        streams[f"{number:032x}"] = session
        await record(log, session, f"{number:032x}")

    kept = [int(stream, 16) for stream in await read_kept(log, streams)]
    assert kept == [1, 2, 6, 7]


# -- `ctx.session`


async def test_the_bytes_of_session_data_are_limited(here: Site):
    session = await open_session(here, ANN)
    held = here.store.data(session, None)  # type: ignore[arg-type]
    large = "x" * 60 * KIB
    for number in range(17):
        await held.aset(f"key {number}", large)

    with pytest.raises(ValueError, match="A session holds at most 1048576 bytes of data"):
        await held.aset("more", large)
    # A replaced value does not count twice.
    await held.aset("key 1", large)
    await held.apop("key 2")
    await held.aset("more", large)


async def test_the_bytes_in_a_django_session_are_limited():
    with override_settings(
        DJANGO_MCP={"SESSION_DATA": "session_engine"},
        SESSION_ENGINE="django.contrib.sessions.backends.cache",
    ):
        here = site("database", Time())
        session = await open_session(here, ANN)
        held = here.store.data(session, None)  # type: ignore[arg-type]
        for number in range(17):
            await held.aset(f"key {number}", "x" * 60 * KIB)

        with pytest.raises(ValueError, match="A session holds at most"):
            await held.aset("more", "x" * 60 * KIB)


async def test_the_data_of_all_sessions_of_a_caller_is_limited(
    kind: str, monkeypatch: pytest.MonkeyPatch
):
    set_limits(monkeypatch, own_bytes=100 * KIB, bytes=150 * KIB)
    here = site(kind, Time())
    one, two = await open_session(here, ANN), await open_session(here, ANN)
    bob = await open_session(here, BOB)
    first, second, others = (
        here.store.data(each, None)  # type: ignore[arg-type]
        for each in (one, two, bob)
    )
    await first.aset("a", "x" * 60 * KIB)
    for _ in range(3):
        await first.aset("a", "y" * 60 * KIB)

    with pytest.raises(ValueError, match="sessions of this caller hold as many bytes"):
        await second.aset("b", "x" * 60 * KIB)
    await others.aset("c", "x" * 60 * KIB)
    with pytest.raises(ValueError, match="All sessions together hold as many"):
        await others.aset("d", "x" * 30 * KIB)


async def test_deleted_data_frees_its_quota_in_memory(monkeypatch: pytest.MonkeyPatch):
    set_limits(monkeypatch, own_bytes=100 * KIB)
    here = site("memory", Time())
    one, two = await open_session(here, ANN), await open_session(here, ANN)
    first = here.store.data(one, None)  # type: ignore[arg-type]
    second = here.store.data(two, None)  # type: ignore[arg-type]
    await first.aset("a", "x" * 60 * KIB)
    await first.aclear()
    await second.aset("b", "x" * 60 * KIB)
    await here.store.end([two.key], Closing.CLIENT)
    # Nothing is counted for an ended session.
    await second.aclear()

    await first.aset("a", "x" * 60 * KIB)


async def test_sessions_in_memory_are_evicted_by_size(monkeypatch: pytest.MonkeyPatch):
    set_limits(monkeypatch, own_bytes=14 * KIB, bytes=20 * KIB)
    here = site("memory", Time())
    info = {"name": "x" * 4 * KIB}
    mine = [(await here.open(ANN, client_info=info))[1] for _ in range(3)]
    stranger = (await here.open(address="192.0.2.1", client_info=info))[1]
    bob = (await here.open(BOB, client_info=info))[1]

    assert [each.is_ended for each in (*mine, stranger, bob)] == [True, False, False, True, False]


# -- subscriptions


async def subscribe(here: Site, session: Session, number: int, size: int = 100) -> int | None:
    """Return the code of the error, if it is rejected."""
    refusal = await here.store.subscribe(session, f"stock://{number}".ljust(size, "x"))
    return None if refusal is None else refusal.code


async def test_the_subscriptions_of_a_caller_are_limited(
    monkeypatch: pytest.MonkeyPatch,
):
    set_limits(monkeypatch, own_bytes=300, count=4)
    here = site("database", Time())
    one, two = await open_session(here, ANN), await open_session(here, ANN)
    bob = await open_session(here, BOB)

    assert [await subscribe(here, one, number) for number in (1, 2, 2)] == [None] * 3
    assert [await subscribe(here, two, number) for number in (3, 4)] == [None, -32602]
    assert [await subscribe(here, bob, number) for number in (5, 6)] == [None, -32603]


async def test_subscriptions_count_among_the_bytes_of_sessions_in_memory(
    monkeypatch: pytest.MonkeyPatch,
):
    set_limits(monkeypatch, own_bytes=10 * KIB)
    here = site("memory", Time())
    one, two = await open_session(here, ANN), await open_session(here, ANN)

    assert [await subscribe(here, one, n, 2 * KIB) for n in (1, 2, 2)] == [None] * 3
    assert await subscribe(here, two, 3, 2 * KIB) == -32602
    await here.store.unsubscribe(one, next(iter(one.subscriptions or ())))
    assert await subscribe(here, two, 3, 2 * KIB) is None
