"""The event log for resumption: in order, bounded, in any process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import uuid
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connections
from django.utils import timezone

from django_mcp.execution.tables import delete_some
from django_mcp.execution.threads import run_in_pool
from django_mcp.execution.workers import gone_workers, worker_id, worker_lease
from django_mcp.models import Stream, StreamEvent, Worker
from django_mcp.server.exchange.session import Closing
from django_mcp.server.ports import Event, EventLog, Resumption
from django_mcp.sessions.core.memory import MemoryEvents
from django_mcp.sessions.site.closing import expired_events
from django_mcp.sessions.site.messages import DatabaseEvents
from django_mcp.sessions.site.writer import flush_sessions
from tests.support.session_sites import Site, Time, site


@pytest.fixture(params=["memory", "database"])
def log(request: pytest.FixtureRequest) -> EventLog:
    return MemoryEvents() if request.param == "memory" else DatabaseEvents()


@pytest.fixture
def here() -> Site:
    return site("database", Time())


def new_id() -> str:
    return uuid.uuid4().hex


def event(number: int, text: str = "", *, is_last: bool = False) -> Event:
    return Event(number=number, message=(text or f"m{number}").encode(), is_last=is_last)


def numbers(resumption: Resumption | None) -> list[int]:
    assert resumption is not None
    return [each.number for each in resumption.events]


# -- every event log


async def test_a_resumed_stream_gets_the_events_after_an_id_in_order(log: EventLog, here: Site):
    _, session = await here.open()
    stream = new_id()
    log.open(stream, session)
    for number in range(1, 6):
        log.append(stream, session, event(number))

    assert numbers(await log.read(stream, session, 0)) == [1, 2, 3, 4, 5]
    assert numbers(await log.read(stream, session, 3)) == [4, 5]
    resumption = await log.read(stream, session, 99)
    assert resumption is not None
    assert (list(resumption.events), resumption.is_running) == ([], True)

    log.append(stream, session, event(6, "{}", is_last=True))
    resumption = await log.read(stream, session, 5)
    assert resumption == Resumption(events=[event(6, "{}", is_last=True)], is_running=False)


async def test_only_its_session_can_find_a_stream(log: EventLog, here: Site):
    _, session = await here.open()
    _, stranger = await here.open()
    stream = new_id()
    log.open(stream, session)
    assert await log.read(stream, stranger, 0) is None
    log.append(stream, session, event(1))
    assert await log.read(stream, stranger, 0) is None
    log.append(stream, session, event(2, is_last=True))

    assert await log.read(stream, stranger, 0) is None
    assert await log.read(new_id(), session, 0) is None


async def test_a_closed_call_without_a_response_is_not_running(log: EventLog, here: Site):
    _, session = await here.open()
    stream = new_id()
    log.open(stream, session)
    log.append(stream, session, event(1))

    log.close(stream, session)

    resumption = await log.read(stream, session, 0)
    assert resumption is not None
    assert (numbers(resumption), resumption.is_running) == ([1], False)


# -- the database event log


async def test_another_process_sees_running_calls_until_they_end(here: Site):
    """The second log represents it: it shares the database, and has no streams of its own."""
    log, elsewhere = DatabaseEvents(), DatabaseEvents()
    _, session = await here.open()
    stream = new_id()
    log.open(stream, session)
    resumption = await elsewhere.read(stream, session, 0)
    assert resumption == Resumption(events=[], is_running=True)

    log.append(stream, session, event(1))
    log.append(stream, session, event(2, is_last=True))

    resumption = await elsewhere.read(stream, session, 0)
    assert resumption is not None
    assert (numbers(resumption), resumption.is_running) == ([1, 2], False)
    assert await run_in_pool(Stream.objects.count) == 0


async def test_events_and_streams_are_rows(here: Site):
    log = DatabaseEvents()
    _, session = await here.open()
    stream = new_id()
    log.open(stream, session)
    log.append(stream, session, event(1, "ü"))
    await run_in_pool(flush_sessions)

    row = await run_in_pool(StreamEvent.objects.get)
    assert (row.stream_id.hex, row.number, row.message, row.size) == (stream, 1, "ü", 2)
    kept = await run_in_pool(Stream.objects.get)
    assert (kept.kind, kept.worker_id) == ("call", worker_id())
    assert kept.session_id is not None
    assert kept.session_id.hex == session.key


async def test_a_call_that_ends_immediately_records_no_stream(here: Site):
    log = DatabaseEvents()
    _, session = await here.open()
    log.append(new_id(), session, event(1))  # never opened

    await run_in_pool(flush_sessions)

    assert await run_in_pool(StreamEvent.objects.count) == 0
    assert await run_in_pool(Stream.objects.count) == 0
    # On a busy machine this process may have come to a row of its own.
    assert await run_in_pool(Worker.objects.exclude(pid=os.getpid()).count) == 0


async def test_a_stream_of_a_dead_process_is_not_running(here: Site):
    log, elsewhere = DatabaseEvents(), DatabaseEvents()
    _, session = await here.open()
    stream = new_id()
    log.open(stream, session)
    log.append(stream, session, event(1))
    await run_in_pool(flush_sessions)
    past = timezone.now() - timedelta(seconds=31)

    # As a killed process leaves it: the lease is not renewed.
    ghost = Worker(host="gone", pid=1, lease_until=past)

    def move() -> None:
        ghost.save(force_insert=True)
        Stream.objects.update(worker=ghost)

    await run_in_pool(move)

    resumption = await elsewhere.read(stream, session, 0)
    assert resumption is not None
    assert (numbers(resumption), resumption.is_running) == ([1], False)
    assert await run_in_pool(lambda: delete_some(gone_workers())) == 1
    assert await run_in_pool(Stream.objects.count) == 0
    assert numbers(await elsewhere.read(stream, session, 0)) == [1]


async def test_a_lease_is_renewed_and_written_again_when_lost(here: Site):
    def lease() -> list[Worker]:
        return list(Worker.objects.all())

    await run_in_pool(worker_lease.hold)
    first = await run_in_pool(lease)
    await run_in_pool(worker_lease.hold)
    assert [each.lease_until for each in await run_in_pool(lease)] == [first[0].lease_until]

    await run_in_pool(lambda: worker_lease.hold(is_due=True))
    assert (await run_in_pool(lease))[0].lease_until > first[0].lease_until

    await run_in_pool(lambda: Worker.objects.all().delete())
    log = DatabaseEvents()
    _, session = await here.open()
    stream = new_id()
    log.open(stream, session)
    resumption = await DatabaseEvents().read(stream, session, 0)
    assert resumption is not None
    assert resumption.is_running
    [again] = await run_in_pool(lease)
    assert again.pk == worker_id()
    # The process did not restart.
    assert again.started_at == first[0].started_at


async def test_a_stream_log_is_bounded_except_for_its_response(
    here: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr("django_mcp.sessions.site.messages.MAX_STREAM_EVENTS", 3)
    log = DatabaseEvents()
    _, session = await here.open()
    stream = new_id()
    log.open(stream, session)
    for number in range(1, 10):
        log.append(stream, session, event(number))
    log.append(stream, session, event(10, is_last=True))

    assert numbers(await log.read(stream, session, 0)) == [1, 2, 3, 10]
    assert "too much" in caplog.text


@pytest.mark.parametrize("bound", ["MAX_SESSION_EVENTS", "MAX_SESSION_BYTES"])
async def test_the_log_of_a_session_is_bounded_and_drops_its_oldest_streams(
    here: Site, monkeypatch: pytest.MonkeyPatch, bound: str
):
    monkeypatch.setattr(f"django_mcp.sessions.site.writer.{bound}", 250)
    log = DatabaseEvents()
    _, session = await here.open()
    _, other = await here.open()
    kept = new_id()
    log.open(kept, other)
    log.append(kept, other, event(1, is_last=True))
    streams = [new_id() for _ in range(6)]
    for stream in streams:
        log.open(stream, session)
        for number in range(1, 100):
            log.append(stream, session, event(number, "x"))
        log.append(stream, session, event(100, "x", is_last=True))
        await run_in_pool(flush_sessions)

    found = [await log.read(stream, session, 0) is not None for stream in streams]
    assert found == [False, False, False, False, True, True]
    assert numbers(await log.read(kept, other, 0)) == [1]


async def test_events_are_deleted_when_too_old(here: Site):
    log = DatabaseEvents()
    _, session = await here.open()
    stream = new_id()
    log.open(stream, session)
    for number in (1, 2, 3):
        log.append(stream, session, event(number))
    await run_in_pool(flush_sessions)
    old = timezone.now() - timedelta(seconds=601)
    await run_in_pool(lambda: StreamEvent.objects.filter(number__lt=3).update(created_at=old))

    assert await run_in_pool(lambda: delete_some(expired_events())) == 2

    assert numbers(await log.read(stream, session, 0)) == [3]


async def test_events_are_deleted_with_their_session(here: Site):
    log = DatabaseEvents()
    _, session = await here.open()
    stream = new_id()
    log.open(stream, session)
    log.append(stream, session, event(1, is_last=True))
    await run_in_pool(flush_sessions)

    await here.store.end([session.key], Closing.SITE)

    assert await log.read(stream, session, 0) is None


CHILD = """
import asyncio, sys, uuid, json
if "mysql" in sys.argv[1]:
    import tests.support.mysql_driver
import django
from django.conf import settings
settings.configure(DATABASES=json.loads(sys.argv[1]), INSTALLED_APPS=[
    "django.contrib.auth", "django.contrib.contenttypes", "django_mcp"])
django.setup()
from types import SimpleNamespace
from django_mcp.server.ports import Event
from django_mcp.sessions.site.messages import DatabaseEvents
from django_mcp.sessions.site.writer import flush_sessions
session = SimpleNamespace(key=sys.argv[2], server_name="shop", principal_key=None,
    quota_key="", state=None, revision=None, client_info=None)
log = DatabaseEvents()
log.open(sys.argv[3], session)
for number in range(1, 51):
    log.append(sys.argv[3], session, Event(number=number, message=b"m", is_last=False))
"""


async def test_recorded_events_outlive_their_process(here: Site):
    """It ends right after: queued events are written at shutdown, and its row is removed."""
    import json

    _, session = await here.open()
    stream = new_id()
    database = {
        key: str(value) if isinstance(value, Path) else value
        for key, value in connections["first"].settings_dict.items()
        if key in ("ENGINE", "NAME", "USER", "PASSWORD", "HOST", "PORT")
    }
    arguments = [json.dumps({"default": database}), session.key, stream]
    await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", CHILD, *arguments],
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )

    resumption = await DatabaseEvents().read(stream, session, 0)

    assert resumption is not None
    assert (numbers(resumption), resumption.is_running) == (list(range(1, 51)), False)
    # On a busy machine this process may have come to a row of its own.
    assert await run_in_pool(Worker.objects.exclude(pid=os.getpid()).count) == 0
