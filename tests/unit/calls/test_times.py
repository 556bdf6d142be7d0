"""Where the time of a call went, the size of its result, and which of its arguments were wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from asgiref.sync import async_to_sync
from django.test import override_settings
from pydantic import BaseModel, Field, create_model

from django_mcp import Context
from django_mcp.calls import RecordedCall, flush_calls
from django_mcp.calls.places import MAX_PLACES
from django_mcp.models import CallRecord
from django_mcp.push.call_reports import report_calls
from django_mcp.push.process_hub import process_hub
from django_mcp.server.exchange.session import Session
from django_mcp.servers import MCPServer
from django_mcp.signals import tool_called
from tests.support.held import Holder
from tests.support.server.tasks import until
from tests.support.wire import V2025_11_25, V2026_07_28, WireClient


@pytest.fixture
def calls() -> Iterator[list[RecordedCall]]:
    """The calls of the test, once they are flushed; its server has one thread."""
    found: list[RecordedCall] = []

    def take(call: RecordedCall, **_kwargs: Any) -> None:
        found.append(call)

    tool_called.connect(take)
    one = {"SYNC_THREADS": 1, "SESSION_STORE": "memory", "RECORD_CALLS": False}
    with override_settings(DJANGO_MCP=one):
        yield found
    tool_called.disconnect(take)


def times(call: RecordedCall) -> tuple[float, float]:
    assert call.queue_s is not None
    assert call.handler_s is not None
    return call.queue_s, call.handler_s


async def test_the_wait_for_a_thread_and_the_handler_are_told_apart(calls: list[RecordedCall]):
    holder = Holder("times")

    @holder.server.tool
    def brief() -> str:
        return "done"

    async with holder.holding(1):
        held_s = time.perf_counter()
        waiting = asyncio.create_task(holder.client("bob").call("brief"))

        async def is_queued() -> bool:
            return any(call.exchange.channel.waits_for_thread for call in process_hub().calls)

        await until(is_queued)
        queued_s = time.perf_counter()
        # What passes here passes for both.
        await asyncio.to_thread(threads_turn)
        passed_s = time.perf_counter() - queued_s
        held_s = time.perf_counter() - held_s
    await waiting
    flush_calls()
    by_name = {call.name: call for call in calls}
    (queue_s, handler_s), (_, of_holder_s) = times(by_name["brief"]), times(by_name["hold"])

    assert queue_s >= passed_s
    assert of_holder_s >= held_s
    for call in calls:
        assert sum(times(call)) <= call.duration_s
    assert handler_s > 0


def threads_turn() -> None:
    """Let some time pass that another thread is given."""


async def test_a_call_that_never_gets_a_thread_has_only_waited(calls: list[RecordedCall]):
    holder = Holder("busy", call_timeout_s=5.0)

    @holder.server.tool(timeout=0.05)
    def brief() -> str:
        return "done"

    async with holder.holding(1):
        await holder.client("bob").error("tools/call", {"name": "brief"})
    flush_calls()
    (call,) = [call for call in calls if call.name == "brief"]
    queue_s, handler_s = times(call)

    assert queue_s > 0
    # All the rest is what it took to give up.
    assert handler_s <= call.duration_s - queue_s


async def test_the_time_for_an_answer_is_neither(calls: list[RecordedCall]):
    server = MCPServer("asking", atomic=False)

    @server.tool
    async def ask(ctx: Context) -> str:
        return str((await ctx.aelicit("Sure?", {"type": "object", "properties": {}})).action)

    client = WireClient(server, V2025_11_25)
    await client.open({"elicitation": {}})
    call = asyncio.create_task(client.send("tools/call", {"name": "ask", "arguments": {}}))

    async def waits() -> bool:
        return any(call.is_suspended for call in process_hub().calls)

    await until(waits)
    began_s = time.perf_counter()
    await asyncio.to_thread(threads_turn)
    passed_s = time.perf_counter() - began_s
    # There may be sessions of other tests, which are forgotten later.
    (suspended,) = [call for call in process_hub().calls if call.is_suspended]
    assert isinstance(suspended.connection, Session)
    assert await server.aclose_session(suspended.connection.key)
    await call
    flush_calls()
    (recorded,) = calls

    assert times(recorded)[0] == 0
    assert times(recorded)[1] <= recorded.duration_s - passed_s
    assert report_calls(process_hub()) == ([], 0)


# -- in the table

RECORDING = override_settings(DJANGO_MCP={"RECORD_CALLS": True, "SYNC_THREADS": 0})


class Seat(BaseModel):
    row: Annotated[int, Field(ge=1)]
    guests: list[str] = []


def book(seats: list[Seat], day: str, prices: dict[str, float] | None = None) -> str:
    return "ü" * 10


def call_book(arguments: dict[str, Any]) -> CallRecord:
    server = MCPServer("book", public=True)
    server.tool(book)

    async def call() -> None:
        client = WireClient(server, V2026_07_28)
        await client.send("tools/call", {"name": "book", "arguments": arguments})

    async_to_sync(call)()
    flush_calls()
    return CallRecord.objects.get()


GOOD = {"seats": [{"row": 1}], "day": "monday"}


@pytest.mark.django_db
@RECORDING
def test_a_record_has_the_bytes_of_the_result_and_its_times():
    found = call_book(GOOD)

    # Ten letters of two bytes each, with what is around them.
    assert 20 < found.result_bytes < 200
    assert found.queue_ms is not None
    assert found.handler_ms is not None
    assert found.queue_ms + found.handler_ms <= found.duration_ms
    assert found.faulty == ""


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("arguments", "places"),
    [
        ({}, "day, seats"),
        ({**GOOD, "day": 7}, "day"),
        ({**GOOD, "seats": [{"row": 1}, {"row": 0}, {"row": -1}]}, "seats/*/row"),
        ({**GOOD, "seats": [{"row": 1, "guests": ["a", 7]}]}, "seats/*/guests/*"),
        # What a client made up is not recorded.
        ({**GOOD, "s3cret": 1}, "?"),
        ({**GOOD, "prices": {"s3cret": "much"}}, "prices/?"),
    ],
)
@RECORDING
def test_a_record_names_the_places_of_wrong_arguments(arguments: dict[str, Any], places: str):
    found = call_book(arguments)

    assert found.outcome != "done"
    assert found.faulty == places
    assert (found.queue_ms, found.handler_ms) == (None, None)
    assert found.result_bytes > 0


@pytest.mark.django_db
@pytest.mark.parametrize(("length", "most"), [(5, MAX_PLACES), (60, 2)])
@RECORDING
def test_the_places_of_one_call_are_bounded_and_whole(length: int, most: int):
    server = MCPServer("wide", public=True)
    names = [f"a{at:0{length}}" for at in range(100)]
    fields: Any = dict.fromkeys(names, (int, ...))
    many: Any = create_model("Many", **fields)

    def wide(values: Any) -> str:
        return ""

    wide.__annotations__["values"] = many
    server.tool(wide)

    async def call() -> None:
        arguments = {"values": dict.fromkeys(names, "x")}
        await WireClient(server, V2026_07_28).send(
            "tools/call", {"name": "wide", "arguments": arguments}
        )

    async_to_sync(call)()
    flush_calls()

    assert CallRecord.objects.get().faulty.split(", ") == [f"values/{n}" for n in names[:most]]
