import asyncio
import gc
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.server.exchange.exchange import Reply
from django_mcp.server.exchange.timers import TaskTimers
from django_mcp.transports.http.consumer import read_body
from tests.support.http.harness import GONE, LIMIT_S, part

LIMIT = 100


def admit(_size: int) -> None:
    """Keep whatever comes."""


async def read(
    *messages: dict[str, Any], limit: int = LIMIT, timeout_s: float = 30
) -> bytes | Reply | None:
    """Read a body from messages, after which receive() blocks."""
    incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    for message in messages:
        incoming.put_nowait(message)
    async with asyncio.timeout(LIMIT_S):
        return await read_body(incoming.get, limit, timeout_s, TaskTimers.of_current_task(), admit)


def status(found: bytes | Reply | None) -> int:
    assert isinstance(found, Reply)
    return found.status


async def test_a_body_in_one_chunk_is_read():
    assert await read(part(b"x" * LIMIT)) == b"x" * LIMIT


async def test_chunks_and_empty_chunks_are_joined():
    messages = [part(b"ab", more=True), part(more=True), part(b"c", more=True), part()]

    assert await read(*messages) == b"abc"


@pytest.mark.parametrize(
    "message", [{"type": "http.request"}, {"type": "http.request", "body": None}]
)
async def test_a_message_without_a_body_is_an_empty_one(message: dict[str, Any]):
    assert await read(message) == b""


async def test_one_byte_over_the_cap_is_rejected():
    assert status(await read(part(b"x" * (LIMIT + 1)))) == 413


async def test_a_body_is_refused_as_soon_as_it_is_over_the_cap():
    assert status(await read(part(b"x" * 60, more=True), part(b"x" * 60, more=True))) == 413


async def test_a_stalled_body_is_rejected_at_the_deadline():
    refused = await read(part(b"x", more=True), timeout_s=0.01)

    assert status(refused) == 408
    assert isinstance(refused, Reply)
    assert (b"connection", b"close") in refused.headers


async def test_a_body_that_never_starts_is_rejected_at_the_deadline():
    assert status(await read(timeout_s=0.01)) == 408


async def test_a_trickled_body_is_rejected_at_the_deadline():
    async def trickle() -> dict[str, Any]:
        await asyncio.sleep(0.001)
        return part(b"x", more=True)

    async with asyncio.timeout(LIMIT_S):
        refused = await read_body(trickle, 10**6, 0.05, TaskTimers.of_current_task(), admit)

    assert status(refused) == 408


async def test_a_deadline_does_not_leave_the_task_cancelled():
    await read(timeout_s=0.01)

    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@pytest.mark.parametrize("before", [[], [part(b"ab", more=True)], [part(more=True)]])
async def test_a_disconnected_client_gets_no_response(before: list[dict[str, Any]]):
    assert await read(*before, GONE) is None


async def test_an_unexpected_asgi_message_ends_the_request():
    assert await read(part(b"ab", more=True), {"type": "websocket.receive"}) is None


async def test_an_outer_cancellation_propagates():
    task = asyncio.create_task(read())
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


@given(
    parts=st.lists(st.tuples(st.binary(max_size=60), st.booleans()), max_size=10),
    ends=st.booleans(),
)
def test_any_message_order_gives_a_body_a_rejection_or_nothing(
    parts: list[tuple[bytes, bool]], ends: bool
):
    messages = [part(body, more=more) for body, more in parts] + ([GONE] if ends else [])
    expected: bytes | int | None = None if ends else 408
    whole = b""
    for body, more in parts:
        whole += body
        if len(whole) > LIMIT:
            expected = 413
            break
        if not more:
            expected = whole
            break

    found = asyncio.run(read(*messages, timeout_s=0.001))

    assert (found.status if isinstance(found, Reply) else found) == expected


async def test_a_million_tiny_chunks_stay_within_the_memory_cap():
    limit, count = 100_000, 0

    async def receive() -> dict[str, Any]:
        nonlocal count
        count += 1
        return part(b"x", more=True)

    gc.collect()
    tracemalloc.start()
    refused = await read_body(receive, limit, 30, TaskTimers.of_current_task(), admit)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert status(refused) == 413
    assert count == limit + 1
    assert peak < 3 * limit
