"""SQLite's write lock: handlers and the package's own writes wait for it, and nothing else does."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import pytest
from django.db import connections, transaction

from django_mcp import Context, MCPServer
from django_mcp.execution.db_connections import run_with_connections
from django_mcp.execution.threads import run_in_pool
from django_mcp.execution.write_lock import TRY_MS
from django_mcp.extensions.tasks.core.transitions import advance
from django_mcp.protocol.json import encode
from django_mcp.server.exchange.session import Closing
from example_project.shop.models import Product
from tests.support.databases import make_product, products
from tests.support.ports import use_ports
from tests.support.server.tasks import Modern, until
from tests.support.session_sites import in_first
from tests.support.wire import V2025_11_25, V2026_07_28, WireClient

LIMIT_S = 30.0

pytestmark = [
    pytest.mark.usefixtures("databases"),
    pytest.mark.parametrize("databases", ["sqlite"], indirect=True),
]


@pytest.fixture
def site(databases: str) -> Iterator[None]:
    """Keep the package's tables in the file of `first`, as long as it is there."""
    with in_first(ATOMIC="first"):
        yield


@contextmanager
def locked() -> Iterator[sqlite3.Connection]:
    """Have the write lock of `first` in another connection, as another process would."""
    with closing(
        sqlite3.connect(connections["first"].settings_dict["NAME"], isolation_level=None)
    ) as other:
        other.execute("BEGIN IMMEDIATE")
        try:
            yield other
        finally:
            other.rollback()


def make_server() -> MCPServer:
    server = MCPServer("locks", atomic="first", task_after_s=0.01)

    @server.tool
    def write(sku: str) -> str:
        make_product(sku)
        return sku

    @server.tool
    def think() -> str:
        return "thought"

    return server


async def say(client: WireClient, name: str, **arguments: Any) -> str:
    result = await asyncio.wait_for(client.call(name, arguments), LIMIT_S)
    return str(result["content"][0]["text"])


@pytest.mark.usefixtures("site")
async def test_a_tool_that_does_not_use_the_database_waits_for_no_lock():
    with locked():
        assert await say(WireClient(make_server(), V2026_07_28), "think") == "thought"


@pytest.mark.usefixtures("site")
async def test_a_tool_that_only_waits_holds_no_lock():
    server = MCPServer("waits", atomic="first")
    begun, go = threading.Event(), threading.Event()

    @server.tool
    def wait() -> str:
        begun.set()
        assert go.wait(LIMIT_S)
        return "waited"

    waiting = asyncio.ensure_future(say(WireClient(server, V2026_07_28), "wait"))
    assert await asyncio.to_thread(begun.wait, LIMIT_S)
    with locked():
        go.set()
        assert await waiting == "waited"


@pytest.mark.usefixtures("site")
async def test_a_tool_waits_for_the_lock_as_long_as_its_call_lasts():
    # Enough for the COMMIT, which waits for readers only so long.
    connections["first"].settings_dict["OPTIONS"]["timeout"] = TRY_MS * 4 / 1000
    with locked():
        writing = asyncio.ensure_future(
            say(WireClient(make_server(), V2026_07_28), "write", sku="a")
        )
        # Longer than SQLite itself waits.
        done, _ = await asyncio.wait((writing,), timeout=TRY_MS * 6 / 1000)
        assert not done
    assert await writing == "a"
    assert await run_in_pool(products) == {"a"}


@pytest.mark.usefixtures("site")
async def test_calls_that_read_and_then_write_do_not_overlap():
    server = MCPServer("counts", atomic="first")

    @server.tool
    def add() -> str:
        product = Product.objects.using("first").select_for_update().get(sku="a")
        product.stock += 1
        product.save(using="first")
        return str(product.stock)

    await run_in_pool(partial(make_product, "a"))
    counts = await asyncio.gather(*(say(WireClient(server, V2026_07_28), "add") for _ in range(8)))

    assert sorted(counts) == [str(count) for count in range(1, 9)]


@pytest.mark.usefixtures("site")
async def test_sessions_open_work_and_end_while_a_tool_holds_the_lock():
    server = make_server()
    with locked():
        client = WireClient(server, V2025_11_25)
        async with asyncio.timeout(LIMIT_S):
            await client.open()
            assert await say(client, "think") == "thought"
            session = await server.engine.ports.sessions.find(client.session_id or "")
            assert session is not None
            await server.engine.ports.sessions.end([session.key], Closing.CLIENT)
            status, _ = await client.error("tools/list")
            assert status == 404
            kept = WireClient(server, V2025_11_25)
            await kept.open()
    # It is written as soon as the lock is free, and another process finds it.
    other = WireClient(make_server(), V2025_11_25)
    other.session_id = kept.session_id
    assert await say(other, "think") == "thought"
    client.session_id, gone = client.session_id, WireClient(make_server(), V2025_11_25)
    gone.session_id = client.session_id
    assert (await gone.error("tools/list"))[0] == 404


@pytest.mark.usefixtures("site")
async def test_a_session_opened_while_locked_is_found_elsewhere_when_the_lock_is_free():
    client = WireClient(make_server(), V2025_11_25)
    with locked():
        await asyncio.wait_for(client.open(), LIMIT_S)
        elsewhere = WireClient(make_server(), V2025_11_25)
        elsewhere.session_id = client.session_id
        asking = asyncio.ensure_future(say(elsewhere, "think"))
        done, _ = await asyncio.wait((asking,), timeout=0.5)
        # It neither fails nor is refused.
        assert not done
    assert await asyncio.wait_for(asking, LIMIT_S) == "thought"


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("what", ["answers", "tasks", "answers of tasks"])
async def test_what_waits_for_the_lock_after_its_response_is_limited_by_size(
    what: str, monkeypatch: pytest.MonkeyPatch
):
    """Beyond that, its client waits with it, and cannot send ever more."""
    server = MCPServer("locks", atomic="first")

    @server.tool(task="allowed")
    def ask(ctx: Context, text: str = "") -> str:
        return ctx.elicit("Sure?", {"type": "object", "properties": {}}).action

    client, text = WireClient(server, V2025_11_25), "x" * 60_000
    await client.open()
    modern = Modern(server)
    keys = [await modern.create("ask") for _ in range(4)]
    for key in keys:
        await modern.until(key, "input_required")

    async def send(number: int) -> None:
        if what == "tasks":
            await modern.create("ask", text=text)
        elif what == "answers":
            answer = {"id": f"ask-elicitation/create-{number}", "result": {"text": text}}
            headers = {"mcp-session-id": client.session_id or ""}
            await client.post(encode({"jsonrpc": "2.0", **answer}), headers)
        else:
            responses = {"question-1": {"action": "accept", "content": {}, "text": text}}
            params = {"taskId": keys[number], "inputResponses": responses}
            await modern.raw("tasks/update", params)

    async def send_all(*numbers: int) -> None:
        for number in numbers:
            await send(number)

    monkeypatch.setattr("django_mcp.execution.own_writes.DEFER_AFTER_S", 0.05)
    monkeypatch.setattr("django_mcp.execution.own_writes.MAX_DEFERRED_BYTES", 150_000)
    with locked():
        await asyncio.wait_for(send_all(0, 1), LIMIT_S)
        # The thread that waits for the lock may have the first, which does not count then.
        more = asyncio.ensure_future(send_all(2, 3))
        done, _ = await asyncio.wait((more,), timeout=0.5)
        assert not done
    await asyncio.wait_for(more, LIMIT_S)


@pytest.mark.usefixtures("site")
async def test_a_task_whose_tool_holds_the_lock_shows_progress_and_completes():
    server = MCPServer("locks", atomic="first", task_after_s=0.01)
    go, has_noted = threading.Event(), threading.Event()

    @server.tool(task="auto")
    def write(ctx: Context) -> str:
        make_product("a")
        ctx.progress(1, 2, "half of it")
        has_noted.set()
        assert go.wait(LIMIT_S)
        return "written"

    client = Modern(server)
    async with asyncio.timeout(LIMIT_S):
        # It becomes a task although its row cannot be written.
        task_id = await client.create("write")
        assert await asyncio.to_thread(has_noted.wait, LIMIT_S)

        async def has_moved() -> bool:
            return (await client.get(task_id)).get("statusMessage") == "half of it"

        await until(has_moved)
        go.set()
        task = await client.until(task_id, "completed")
    assert task["result"]["content"][0]["text"] == "written"
    assert await run_in_pool(products) == {"a"}


@pytest.mark.usefixtures("site")
async def test_a_lease_is_counted_from_the_end_of_the_wait_for_the_lock():
    server = MCPServer("locks", atomic="first")
    go = threading.Event()

    @server.tool(task="required")
    def wait() -> str:
        assert go.wait(LIMIT_S)
        return "done"

    client, now_s = Modern(server), [server.engine.ports.clock()]
    task_id = await client.create("wait")
    use_ports(server, clock=lambda: now_s[0])
    with locked():
        renewing = asyncio.ensure_future(
            advance(
                server.engine,
                task_id,
                lambda each, at_s: each.renew(each.run or "", at_s),
                may_defer=False,
            )
        )
        done, _ = await asyncio.wait((renewing,), timeout=0.3)
        assert not done
        now_s[0] += 100
    renewed = await asyncio.wait_for(renewing, LIMIT_S)
    go.set()
    await client.until(task_id, "completed")

    assert renewed is not None
    assert renewed.lease_s is not None
    assert renewed.lease_s > now_s[0]


def test_no_cursor_outlives_its_work_for_the_garbage_collector_of_another_thread():
    kept: list[Any] = []
    connections["first"].settings_dict["CONN_MAX_AGE"] = None

    def leave_a_cycle() -> None:
        cursor = connections["first"].cursor()
        cursor.execute("SELECT 1 UNION SELECT 2")
        holder = [cursor.cursor]
        holder.append(holder)
        kept.append(cursor.cursor)

    run_with_connections(leave_a_cycle)

    with pytest.raises(sqlite3.ProgrammingError):
        kept[0].fetchone()


@pytest.mark.usefixtures("site")
async def test_collecting_a_cursor_of_a_waiting_thread_does_not_wait_for_the_lock():
    server = MCPServer("garbage", atomic="first")
    connections["first"].settings_dict["OPTIONS"]["timeout"] = 60
    is_deferred = threading.Event()

    @server.tool(atomic=False)
    def litter() -> str:
        cursor = connections["first"].cursor()
        cursor.execute("SELECT 1 UNION SELECT 2")
        holder: list[Any] = [cursor]
        holder.append(holder)
        del cursor, holder
        is_deferred.set()
        with transaction.atomic("first"):
            make_product("a")
        return "written"

    gc.disable()
    try:
        with locked():
            writing = asyncio.ensure_future(say(WireClient(server, V2026_07_28), "litter"))
            assert await asyncio.to_thread(is_deferred.wait, LIMIT_S)
            await asyncio.sleep(0.1)
            # On the loop: with the lock still held, it returns.
            gc.collect()
            assert not writing.done()
        assert await writing == "written"
    finally:
        gc.enable()


@pytest.mark.usefixtures("site")
async def test_an_idle_thread_keeps_nothing_of_its_last_call():
    server = MCPServer("forgets", atomic="first")
    seen: list[weakref.ref[Context]] = []

    @server.tool
    def note(ctx: Context) -> str:
        seen.append(weakref.ref(ctx))
        return "noted"

    assert await say(WireClient(server, V2026_07_28), "note") == "noted"

    # The thread may still be at its end, and a collection does nothing while another thread collects.
    async with asyncio.timeout(LIMIT_S):
        while seen[0]() is not None:
            gc.collect()
            await asyncio.sleep(0)
