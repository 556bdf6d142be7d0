"""Messages between processes as rows: many at once are written together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.test import override_settings

from django_mcp.execution.threads import run_in_pool
from django_mcp.models.sessions import BusMessage
from django_mcp.push.database_bus import DatabaseBus
from django_mcp.push.wire import unpack
from django_mcp.server.streams.hub import Hub
from django_mcp.server.streams.messenger import OutageLog
from django_mcp.server.streams.process_messages import SessionEnded
from tests.support.session_sites import ToFirst


class CountingRouter(ToFirst):
    def __init__(self) -> None:
        self.writes = 0

    def db_for_write(self, *_args: Any, **_hints: Any) -> str:
        self.writes += 1
        return "first"


def numbers() -> list[int]:
    rows = BusMessage._default_manager.order_by("pk").values_list("body", flat=True)
    return [int(message["session"]) for body in rows for message in unpack(body)]


@pytest.mark.usefixtures("databases")
async def test_concurrent_messages_are_written_together_in_order():
    router = CountingRouter()
    with override_settings(DATABASE_ROUTERS=[router], DJANGO_MCP={}):
        hub: Hub[Any] = Hub(DatabaseBus(lambda: False, OutageLog("test")))
        hub.start()

        for number in range(100):
            hub.broadcast(SessionEnded(session=str(number)))
        await hub.flush()

        assert await run_in_pool(numbers) == list(range(100))
        # Each write consults the router, and so do the rows' block and pruning.
        assert router.writes < 20

        await hub.send(SessionEnded(session="100"))
        await hub.stop()
        assert (await run_in_pool(numbers))[-1] == 100


@pytest.mark.usefixtures("databases")
async def test_a_cancelled_publish_does_not_cancel_others():
    with override_settings(DATABASE_ROUTERS=[ToFirst()], DJANGO_MCP={}):
        bus = DatabaseBus(lambda: False, OutageLog("test"))
        bus.start(lambda _message: None)
        sending = [
            asyncio.create_task(bus.send(SessionEnded(session=str(n)).to_wire())) for n in range(10)
        ]
        await asyncio.sleep(0)
        sending[0].cancel()

        results = await asyncio.gather(*sending, return_exceptions=True)
        await bus.stop()

        assert [each is None for each in results[1:]] == [True] * 9
        assert await run_in_pool(numbers) == list(range(10))


@pytest.mark.usefixtures("databases")
async def test_messages_from_another_event_loop_are_published():
    """A WSGI request and a queue's worker each have a loop that sends one message, concurrently."""
    with override_settings(DATABASE_ROUTERS=[ToFirst()], DJANGO_MCP={}):
        bus = DatabaseBus(lambda: False, OutageLog("test"))
        bus.start(lambda _message: None)

        def say(number: int) -> None:
            asyncio.run(bus.send(SessionEnded(session=str(number)).to_wire()))

        apart = [asyncio.to_thread(say, number) for number in range(10)]
        here = [bus.send(SessionEnded(session=str(number)).to_wire()) for number in range(10, 20)]
        await asyncio.wait_for(asyncio.gather(*apart, *here), 30)
        await bus.stop()

        assert sorted(await run_in_pool(numbers)) == list(range(20))


@pytest.mark.usefixtures("databases")
async def test_full_batches_are_read_at_once_and_late_rows_once(monkeypatch: pytest.MonkeyPatch):
    with override_settings(DATABASE_ROUTERS=[ToFirst()], DJANGO_MCP={}):
        heard: list[int] = []
        changed = asyncio.Event()

        def receive(message: Any) -> None:
            heard.append(message["number"])
            if len(heard) == 2:
                # What follows the first batch comes without another pause.
                monkeypatch.setattr("django_mcp.push.database_bus.POLL_S", 3600.0)
            elif len(heard) == 3501:
                monkeypatch.setattr("django_mcp.push.database_bus.POLL_S", 0.01)
            changed.set()

        async def until(count: int) -> None:
            async with asyncio.timeout(120):
                while len(heard) < count:
                    changed.clear()
                    await changed.wait()

        def write(numbers: range, first_pk: int) -> None:
            BusMessage._default_manager.bulk_create(
                BusMessage(pk=first_pk + n, sender="other", body=f'{{"kind": "x", "number": {n}}}')
                for n in numbers
            )

        # However long it takes, no row is too late by this clock.
        bus = DatabaseBus(lambda: True, OutageLog("test"), clock=lambda: 0.0)
        bus.start(receive)
        # So that it knows where to start.
        await run_in_pool(lambda: write(range(1), 100))
        await until(1)
        await run_in_pool(lambda: write(range(1001, 4501), 100))
        await until(3501)
        await run_in_pool(lambda: write(range(1, 1001), 100))
        await until(4501)
        await bus.stop()

        assert len(heard) == 4501
        assert set(heard) == set(range(4501))
