"""Messages between processes that are lost, late, repeated or forged."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from channels.layers import get_channel_layer
from django.test import override_settings

from django_mcp.push.layer_bus import LATE_S, MAX_SENDERS, Gaps, LayerBus
from django_mcp.push.wire import MAX_MESSAGE_BYTES, hand_over, pack, unpack
from django_mcp.server.streams.messenger import OutageLog


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.parametrize("numbers", [[5, 6, 7], [5, 7, 6], [5, 5, 6, 6], [5, 4, 6]])
def test_a_complete_sequence_has_no_gap(clock: Clock, numbers: list[int]):
    gaps = Gaps(clock)
    for number in numbers:
        gaps.take("other", number)
    clock.now_s += 10 * LATE_S

    assert not gaps.find_lost()


def test_a_lost_message_is_reported_once(clock: Clock):
    gaps = Gaps(clock)
    for number in (5, 7):
        gaps.take("other", number)

    assert not gaps.find_lost()
    clock.now_s += LATE_S
    assert gaps.find_lost()
    assert not gaps.find_lost()
    gaps.take("other", 8)
    clock.now_s += LATE_S
    assert not gaps.find_lost()


def test_forged_senders_take_no_memory(clock: Clock):
    gaps = Gaps(clock)
    for sender in range(3 * MAX_SENDERS):
        gaps.take(str(sender), 1)
    odd: list[tuple[Any, Any]] = [(None, 1), ("x", "1"), ("x", True), ({}, {})]
    for sender, number in odd:
        gaps.take(sender, number)

    assert len(gaps._senders) == MAX_SENDERS


def test_small_messages_are_batched_into_one_payload():
    messages = [{"kind": "x", "text": "ä" * size} for size in (10, 20_000, 20_000, 60_000, 5, 20)]
    texts = pack(messages)

    assert all(len(text.encode()) <= MAX_MESSAGE_BYTES for text in texts)
    found = [message for text in texts for message in unpack(text)]
    assert found == [each for each in messages if len(each["text"]) != 60_000]
    assert len(texts) == 2


@pytest.mark.parametrize(
    "body", [None, 1, b"[]", "", "[", "7", "[7]", "{", "[" * 60_000, "x" * 70_000]
)
def test_a_foreign_payload_contains_no_messages(body: Any):
    assert unpack(body) == []


async def test_streams_are_written_between_the_messages_of_a_payload():
    turns: list[str] = []
    asyncio.get_running_loop().call_soon(turns.append, "others")
    (text,) = pack({"kind": "x"} for _ in range(1000))
    await hand_over(text, lambda message: turns.append(message["kind"]))

    assert turns.count("x") == 1000
    assert turns.index("others") < 100


async def test_messages_lost_by_a_layer_are_reported_as_missed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("django_mcp.push.layer_bus.REJOIN_S", 0.01)
    monkeypatch.setattr("django_mcp.push.layer_bus.LATE_S", 0.0)
    heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    layers = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
    with override_settings(CHANNEL_LAYERS=layers):
        bus, layer = LayerBus(OutageLog("test")), cast("Any", get_channel_layer())
        await bus.start(heard.put_nowait).wait()
        for number in (1, 3):
            envelope = {"type": "x", "from": "other", "number": number, "body": '[{"kind":"told"}]'}
            await layer.group_send(bus._group, envelope)
        kinds = [(await asyncio.wait_for(heard.get(), 10))["kind"] for _ in range(3)]
        await bus.stop()

    assert kinds == ["told", "told", "missed"]
