"""The queue of messages to other processes: merged, batched, bounded."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from django_mcp.server.streams import messenger as module
from django_mcp.server.streams.messenger import (
    BATCH,
    MAX_NOTICES,
    MAX_OTHERS,
    NOTICE_BATCHES,
    Outbox,
)
from django_mcp.server.streams.process_messages import (
    CallCancelled,
    Missed,
    ProcessMessage,
    SessionEnded,
    SubscriptionsChanged,
)
from django_mcp.server.streams.stream import Change


class Wire:
    """Accepts batches; blocks until it is released, and fails a given number of times."""

    def __init__(self) -> None:
        self.batches: list[list[ProcessMessage]] = []
        self.at_once = self.most_at_once = self.failures = 0
        self.is_open, self.has_more, self.has_begun = (asyncio.Event() for _ in range(3))
        self.is_open.set()

    async def send(self, *messages: ProcessMessage) -> bool:
        self.at_once += 1
        self.has_begun.set()
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self.is_open.wait()
        await asyncio.sleep(0)
        self.at_once -= 1
        if self.failures:
            self.failures -= 1
            return False
        self.batches.append(list(messages))
        self.has_more.set()
        return True

    @property
    def sent(self) -> list[ProcessMessage]:
        return [message for batch in self.batches for message in batch]

    async def until(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.sent) < count:
                self.has_more.clear()
                await self.has_more.wait()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PACE_S", 0.001)
    monkeypatch.setattr(module, "RETRY_S", 0.001)


def changed(number: int) -> Change:
    return Change(server="s", uri=f"x://{number}")


async def test_changes_go_out_in_batches_several_at_a_time_each_once():
    wire = Wire()
    outbox = Outbox(wire.send)
    wire.is_open.clear()
    for number in range(4000):
        outbox.put_notice(changed(number % 3000))
    outbox.put_notice(Change(server="s", list="tools"))
    await asyncio.sleep(0.05)
    wire.is_open.set()
    await wire.until(3001)

    assert Counter(map(repr, wire.sent)).most_common(1)[0][1] == 1
    assert wire.most_at_once == NOTICE_BATCHES
    assert max(map(len, wire.batches)) == BATCH


async def test_a_change_after_its_notification_is_sent_again():
    wire = Wire()
    outbox = Outbox(wire.send)
    for count in (1, 2):
        outbox.put_notice(changed(1))
        await wire.until(count)

    assert wire.sent == [changed(1)] * 2


async def test_other_messages_keep_their_order():
    wire = Wire()
    outbox = Outbox(wire.send)
    for number in range(1500):
        outbox.put(SessionEnded(session=str(number)))
    await outbox.flush()

    assert wire.sent == [SessionEnded(session=str(number)) for number in range(1500)]
    assert wire.most_at_once == 1


async def test_changes_are_sent_after_a_bus_outage_and_other_messages_dropped():
    wire = Wire()
    wire.failures = 5
    outbox = Outbox(wire.send)
    outbox.put(SessionEnded(session="1"))
    await outbox.flush()
    for number in range(10):
        outbox.put_notice(changed(number))
    await wire.until(10)

    assert sorted(map(repr, wire.sent)) == sorted(repr(changed(number)) for number in range(10))


async def test_too_many_queued_changes_become_one_change_of_everything():
    wire = Wire()
    outbox = Outbox(wire.send)
    for number in range(2 * MAX_NOTICES):
        outbox.put_notice(changed(number))
        outbox.put_notice(Change(server="other", list="tools"))
        if number == 5:
            outbox.put_notice(Change(server="other", uri="x://1"))
    await wire.until(3)

    assert {repr(each) for each in wire.sent} == {
        repr(Missed(server="s")),
        repr(Missed(server="other")),
        repr(Change(server="other", list="tools")),
    }


async def test_other_messages_are_bounded_and_drops_are_logged(
    caplog: pytest.LogCaptureFixture,
):
    wire = Wire()
    outbox = Outbox(wire.send)
    for number in range(MAX_OTHERS + 1000):
        outbox.put(SessionEnded(session=str(number)))
    await outbox.flush()

    assert len(wire.sent) == MAX_OTHERS
    assert 0 < len(caplog.records) <= 10


async def test_one_caller_cannot_take_the_place_of_others():
    wire = Wire()
    outbox = Outbox(wire.send)
    for number in range(2 * MAX_OTHERS):
        outbox.put(CallCancelled(session="1", id=number), "flood")
    outbox.put(CallCancelled(session="2", id=1), "other")
    outbox.put(SessionEnded(session="3"))
    await outbox.flush()
    last = [CallCancelled(session="2", id=1), SessionEnded(session="3")]

    assert wire.sent[-2:] == last
    assert len(wire.sent) < MAX_OTHERS / 5

    outbox.put(CallCancelled(session="1", id=1), "flood")
    await outbox.flush()

    assert wire.sent[-1] == CallCancelled(session="1", id=1)


async def send_more_than_a_batch(wire: Wire, outbox: Outbox) -> None:
    """Have a batch under way, and messages that wait for its end."""
    wire.is_open.clear()
    for number in range(2 * BATCH):
        outbox.put(SessionEnded(session=str(number)))
    await wire.has_begun.wait()


async def test_only_the_newest_subscriptions_of_a_session_wait():
    """A client may change its subscriptions at will."""
    wire = Wire()
    outbox = Outbox(wire.send)
    for version in range(MAX_OTHERS + 10):
        told = SubscriptionsChanged(session="a", version=version, uris=[])
        outbox.put(told, newest_of="a")
        outbox.put(SubscriptionsChanged(session="b", version=version), newest_of="b")
    outbox.put(SessionEnded(session="c"))
    await outbox.flush()

    assert wire.sent == [
        SubscriptionsChanged(session="a", version=MAX_OTHERS + 9, uris=[]),
        SubscriptionsChanged(session="b", version=MAX_OTHERS + 9),
        SessionEnded(session="c"),
    ]


async def test_nothing_more_is_sent_after_the_tasks_of_the_event_loop_are_cancelled():
    """As `asyncio.run` cancels them, which then gives what is left only a few steps."""
    wire = Wire()
    await send_more_than_a_batch(wire, Outbox(wire.send))
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.wait(others)

    wire.is_open.set()
    await asyncio.sleep(module.PACE_S * 10)
    assert wire.sent == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_no_task_is_left_when_an_outbox_stops():
    wire = Wire()
    outbox = Outbox(wire.send)
    await send_more_than_a_batch(wire, outbox)
    outbox.put_notice(changed(1))

    await outbox.stop()
    assert asyncio.all_tasks() == {asyncio.current_task()}
