"""Threads are shared fairly, and an exhausted pool is reported."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.test import override_settings

from django_mcp.endpoints import urlconf
from django_mcp.execution.threads import find_pool_states, in_calling_thread, run_in_pool
from django_mcp.protocol.headers import Headers
from django_mcp.protocol.json import encode
from django_mcp.push import stream_rows
from django_mcp.push.stream_rows import count_requests
from django_mcp.server.exchange.caller import Caller
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.quotas import Limits
from tests.support.held import LIMIT_S, Holder
from tests.support.server.tasks import Modern, until
from tests.support.wire import V2026_07_28, WireClient, headers_for, message


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    # On a busy machine the hub may tick, and would write to the database of other tests.
    few = {"SYNC_THREADS": 2, "TASK_THREADS": 1, "SESSION_STORE": "memory"}
    with override_settings(DJANGO_MCP=few):
        yield


@pytest.fixture
def exhausted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_mcp.execution.pool.EXHAUSTED_AFTER_S", 0.0)


@pytest.fixture
def holder() -> Holder:
    return Holder("held")


async def is_ready() -> bool:
    return (await urlconf._respond("GET", "ready")).status_code == 200


async def settle() -> None:
    """Let started work proceed until it needs a thread."""
    for _ in range(20):
        await asyncio.sleep(0)


# -- turns


async def test_many_calls_of_one_principal_delay_another_by_one_turn(holder: Holder):
    order: list[str] = []

    @holder.server.tool
    def note(name: str) -> None:
        order.append(name)

    async with holder.holding(2):
        many = [
            asyncio.create_task(holder.client("ann").call("note", {"name": f"ann {number}"}))
            for number in range(20)
        ]
        await settle()
        other = asyncio.create_task(holder.client("bob").call("note", {"name": "bob"}))
        await settle()
        # One thread stays held, so that the other runs all calls in their turn.
        holder.let_go(1)
        await asyncio.gather(other, *many)

    # Without turns it would be 20.
    assert order.index("bob") <= 1


async def test_anonymous_callers_take_turns_by_address(holder: Holder):
    order: list[str] = []

    @holder.server.tool
    def note(name: str) -> None:
        order.append(name)

    def call(name: str, address: str) -> asyncio.Task[object]:
        request = message(
            "tools/call", {"name": "note", "arguments": {"name": name}}, revision=V2026_07_28
        )
        lines = [(k.encode(), v.encode()) for k, v in headers_for(request, V2026_07_28).items()]
        exchange = Exchange(
            body=encode(request), headers=Headers(lines), caller=Caller(address=address)
        )
        return asyncio.create_task(holder.server.engine.answer(exchange))

    async with holder.holding(2):
        # Addresses of one /64 are one caller's.
        many = [call(f"first {number}", f"2001:db8::{number:x}") for number in range(20)]
        await settle()
        other = call("second", "2001:db8:1::1")
        await settle()
        holder.let_go(1)
        await asyncio.gather(other, *many)

    assert order.index("second") <= 1


# -- calls that never got a thread


async def test_the_calls_that_wait_for_a_thread_are_bounded(
    holder: Holder, monkeypatch: pytest.MonkeyPatch
):
    limits = Limits(own_count=2, own_bytes=0, count=3, bytes=0)
    monkeypatch.setattr("django_mcp.execution.threads.WAITING_LIMITS", limits)

    @holder.server.tool
    def quick() -> str:
        return "done"

    @holder.server.tool
    async def query() -> str:
        return await sync_to_async(lambda: "done")()

    async def status(name: str, tool: str = "quick") -> tuple[int, bool]:
        request = message("tools/call", {"name": tool, "arguments": {}}, revision=V2026_07_28)
        reply = await holder.client(name).post(encode(request), headers_for(request, V2026_07_28))
        return reply.status, (b"retry-after", b"2") in reply.headers

    async with holder.holding(2):
        waiting = [asyncio.create_task(status("ann")) for _ in range(2)]
        await settle()
        refused = await status("ann")
        failed = await holder.client("ann").call("query")
        waiting.append(asyncio.create_task(status("bob")))
        await settle()
        refused_too = await status("eve")

    assert refused == refused_too == (503, True)
    assert failed["isError"] is True
    # The tool ran until its query, so the client must not be told to call it again.
    text = failed["content"][0]["text"]
    assert "busy" in text
    assert "may have had effects" in text
    assert "again" not in text
    assert await asyncio.gather(*waiting) == [(200, False)] * 3
    assert await status("ann") == (200, False)


async def test_a_call_that_never_got_a_thread_gets_503_with_retry_after(
    holder: Holder,
):
    late: list[int] = []

    @holder.server.tool(timeout=0.05)
    def never() -> None:
        late.append(1)

    async with holder.holding(2):
        request = message("tools/call", {"name": "never", "arguments": {}}, revision=V2026_07_28)
        reply = await holder.client().post(encode(request), headers_for(request, V2026_07_28))

    assert reply.status == 503
    assert dict(reply.headers)[b"retry-after"] == b"2"
    assert b"busy" in (reply.body or b"")
    assert (await holder.client().call("hold"))["content"][0]["text"] == "held"
    assert late == []


async def test_an_async_tool_waiting_for_a_thread_gets_neither_503_nor_blame(
    holder: Holder,
):
    """Its work before the query is done."""
    late: list[int] = []

    @holder.server.tool(timeout=0.05)
    async def never() -> None:
        await sync_to_async(late.append)(1)

    async with holder.holding(2):
        result = await holder.client().call("never")

    assert result["isError"]
    assert "busy with other calls" in result["content"][0]["text"]
    assert (await holder.client().call("hold"))["content"][0]["text"] == "held"
    assert late == []


async def test_a_slow_tool_in_its_thread_times_out_itself(holder: Holder):
    may_go = threading.Event()

    @holder.server.tool(timeout=0.05)
    def slow() -> None:
        may_go.wait(LIMIT_S)

    result = await holder.client().call("slow")
    may_go.set()

    assert result["isError"]
    assert "No result within 0.05 s" in result["content"][0]["text"]


async def test_a_call_that_timed_out_waiting_leaves_the_queue_clean(holder: Holder):
    class Argument:
        pass

    argument = Argument()
    seen = weakref.ref(argument)

    async def query(held: Argument) -> None:
        await sync_to_async(lambda: held)()

    @holder.server.tool
    async def give_up() -> str:
        nonlocal argument
        waiting = query(argument)
        del argument
        try:
            async with asyncio.timeout(0.05):
                await waiting
        except TimeoutError:
            return "gave up"
        return "asked"

    async with holder.holding(2):
        result = await holder.client().call("give_up")
        assert result["content"][0]["text"] == "gave up"
        # A collection does nothing while another thread collects.
        async with asyncio.timeout(30):
            while seen() is not None:
                await settle()
                gc.collect()


# -- monitoring


@pytest.mark.usefixtures("exhausted_at_once")
async def test_the_log_names_the_tools_that_hold_the_threads(
    holder: Holder, caplog: pytest.LogCaptureFixture
):
    @holder.server.tool(timeout=0.05)
    def innocent() -> None:
        pass

    async with holder.holding(2):
        for _ in range(3):
            await holder.client("bob").error("tools/call", {"name": "innocent"})

    told = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert len(told) == 1
    assert told[0].count("tools/call hold by principal ann for 0 s") == 2
    assert "SYNC_THREADS" in told[0]


@pytest.mark.usefixtures("exhausted_at_once", "db")
async def test_a_process_without_free_threads_is_not_ready(holder: Holder):
    @holder.server.tool(timeout=0.05)
    def innocent() -> None:
        pass

    assert (await urlconf._respond("GET", "ready")).status_code == 200
    async with holder.holding(2):
        # All are busy, but no call waits.
        assert (await urlconf._respond("GET", "ready")).status_code == 200
        await holder.client("bob").error("tools/call", {"name": "innocent"})
        # The waiting call has ended; the next one would wait as well.
        assert (await urlconf._respond("GET", "ready")).status_code == 503
        assert (await urlconf._respond("GET", "")).status_code == 200
    # The calls are answered a moment before their threads are free.
    await until(is_ready)


async def test_threads_that_outlive_their_calls_are_reported(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(stream_rows, "HELD_AFTER_S", 0.0)
    holder = Holder("outlived", call_timeout_s=0.05)

    try:
        await holder.client().call("hold")
        found = count_requests(holder.server.engine.join_hub())
    finally:
        holder.let_go()

    assert found is not None
    assert (found["total"], found["threads"]) == (0, [1, 2, 0])
    ((what, since_s),) = found["held"]
    assert what.startswith("tools/call hold by ")
    assert time.time() - LIMIT_S < since_s <= time.time()


@pytest.mark.usefixtures("db")
async def test_concurrent_readiness_checks_share_one_database_check():
    looks: list[str] = []

    def count(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        looks.append(sql)
        return execute(sql, params, many, context)

    with in_calling_thread():
        await run_in_pool(lambda: connection.execute_wrappers.append(count))
        try:
            replies = await asyncio.gather(*(urlconf._respond("GET", "ready") for _ in range(20)))
        finally:
            await run_in_pool(lambda: connection.execute_wrappers.remove(count))

    assert {each.status_code for each in replies} == {200}
    assert looks.count("SELECT 1") == 1
    assert sum("SELECT name, type" in sql for sql in looks) <= 1  # of the names of tables


@pytest.mark.usefixtures("exhausted_at_once", "db")
async def test_tasks_that_wait_for_a_thread_do_not_make_a_process_unready():
    with override_settings(DJANGO_MCP={"TASK_THREADS": 1, "TASK_STORE": "memory"}):
        holder = Holder("tasks", task_after_s=0.01)
        holder.server.tool(name="long", task="required")(holder.hold)
        client = Modern(holder.server)
        for _ in range(2):
            await client.raw("tools/call", {"name": "long", "arguments": {}})

        async def one_waits() -> bool:
            return find_pool_states()["TASK_THREADS"].waiting == 1

        async def none_is_left() -> bool:
            return not find_pool_states()["TASK_THREADS"].running

        try:
            await until(one_waits)
            assert (await urlconf._respond("GET", "ready")).status_code == 200
        finally:
            holder.let_go()
            await until(none_is_left)


# -- replacements


async def test_an_abandoned_thread_is_replaced_up_to_a_limit():
    holder = Holder("replaced", call_timeout_s=0.05)

    @holder.server.tool(timeout=LIMIT_S)
    def quick() -> str:
        return "quick"

    with override_settings(DJANGO_MCP={"SYNC_THREADS": 1, "REPLACEMENT_THREADS": 1}):
        waiting = asyncio.create_task(holder.client("bob").call("quick"))
        try:
            await holder.client().call("hold")
            async with asyncio.timeout(LIMIT_S):
                assert (await waiting)["content"][0]["text"] == "quick"
            await holder.client().call("hold")
            status, _ = await WireClient(holder.server, V2026_07_28).send(
                "tools/call", {"name": "hold"}
            )
        finally:
            holder.let_go()

    assert status == 503


async def test_without_replacements_no_thread_is_added():
    holder = Holder("unreplaced", call_timeout_s=0.05)

    with override_settings(DJANGO_MCP={"SYNC_THREADS": 1}):
        try:
            await holder.client().call("hold")
            status, _ = await holder.client().send("tools/call", {"name": "hold"})
        finally:
            holder.let_go()

    assert status == 503
