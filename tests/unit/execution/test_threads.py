"""Threads of synchronous handlers: parallel, bounded, with the context of their request."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.local import Local
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections
from django.test import TestCase, override_settings
from django.utils import translation

from django_mcp.execution import threads
from django_mcp.protocol.json import decode
from django_mcp.servers import MCPServer
from example_project.shop.models import Product
from tests.support.databases import make_product, products
from tests.support.wire import V2026_07_28, WireClient

LIMIT_S = 10.0


@pytest.fixture
def server() -> MCPServer:
    return MCPServer("threads", atomic=False)


async def call(server: MCPServer, name: str, arguments: Any = None) -> dict[str, Any]:
    return await WireClient(server, V2026_07_28).call(name, arguments)


@pytest.fixture
def few_threads() -> Iterator[int]:
    # On a busy machine the hub may tick, and would write to the database of other tests.
    with override_settings(DJANGO_MCP={"SYNC_THREADS": 2, "SESSION_STORE": "memory"}):
        yield 2


def text_of(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


async def test_twenty_tools_run_at_once(server: MCPServer):
    """Each of the twenty waits in its own thread until the others run."""
    everybody = threading.Barrier(20, timeout=LIMIT_S)

    @server.tool
    def wait() -> str:
        everybody.wait()
        return "done"

    results = await asyncio.gather(*[call(server, "wait") for _ in range(20)])

    assert {text_of(result) for result in results} == {"done"}


@pytest.mark.usefixtures("few_threads")
async def test_concurrency_is_limited_by_the_number_of_threads(server: MCPServer):
    running, peak, lock = 0, 0, threading.Lock()

    @server.tool
    def count() -> None:
        nonlocal running, peak
        with lock:
            running += 1
            peak = max(peak, running)
        time.sleep(0.02)
        with lock:
            running -= 1

    await asyncio.gather(*[call(server, "count") for _ in range(10)])

    assert peak == 2


@pytest.mark.usefixtures("few_threads")
async def test_asynchronous_tools_do_not_wait_for_a_thread(server: MCPServer):
    release = threading.Event()

    @server.tool
    def block() -> None:
        release.wait(LIMIT_S)

    @server.tool
    async def quick() -> str:
        return "quick"

    blocked = [asyncio.create_task(call(server, "block")) for _ in range(8)]
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(LIMIT_S):
            assert text_of(await call(server, "quick")) == "quick"
    finally:
        release.set()
        await asyncio.gather(*blocked)


# -- the context of a handler


tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")
local = Local()


async def test_handlers_get_the_language_and_contextvars_of_their_request(server: MCPServer):
    @server.tool
    def see() -> list[str | None]:
        return [tenant.get(), translation.get_language(), getattr(local, "name", None)]

    async def ask(name: str, language: str) -> list[str]:
        tenant.set(name)
        local.name = name
        with translation.override(language):
            result = await call(server, "see")
        return list(decode(text_of(result)))

    names = [(f"tenant {number}", ("de", "en")[number % 2]) for number in range(20)]
    seen = await asyncio.gather(*[ask(*name) for name in names])

    assert seen == [[name, language, name] for name, language in names]


async def test_changes_by_a_handler_stay_in_its_request(server: MCPServer):
    @server.tool
    def change() -> str:
        seen = tenant.get()
        tenant.set("changed")
        translation.activate("de")
        return f"{seen} {threading.get_ident()}"

    async def ask() -> str:
        return text_of(await call(server, "change"))

    seen = [await asyncio.create_task(ask()) for _ in range(3)]

    assert {each.split()[0] for each in seen} == {"nobody"}
    assert translation.get_language() == "en"


# -- no deadlocks


def test_a_sync_caller_never_deadlocks(server: MCPServer):
    """This is how a view runs under WSGI."""

    @server.tool
    def plain() -> str:
        return threading.current_thread().name

    name = text_of(async_to_sync(call)(server, "plain"))

    assert name.startswith("django-mcp")


@pytest.mark.usefixtures("few_threads")
@pytest.mark.parametrize("depth", [1, 2, 5])
async def test_nested_handlers_do_not_deadlock(server: MCPServer, depth: int):
    """More of them than there are threads, each deeper than there are threads."""

    @server.tool
    def descend(levels: int) -> str:
        if levels == 0:
            return "bottom"
        return text_of(async_to_sync(call)(server, "descend", {"levels": levels - 1}))

    async with asyncio.timeout(LIMIT_S):
        calls = [call(server, "descend", {"levels": depth}) for _ in range(4)]
        results = await asyncio.gather(*calls)

    assert {text_of(result) for result in results} == {"bottom"}


async def test_a_handler_may_use_the_event_loop_of_its_request(server: MCPServer):
    loops = []

    @server.tool
    def reach() -> str:
        async def come_back() -> str:
            loops.append(asyncio.get_running_loop())
            return await sync_to_async(lambda: threading.current_thread().name)()

        return f"{async_to_sync(come_back)()} {threading.current_thread().name}"

    inner, outer = text_of(await call(server, "reach")).split()

    assert loops == [asyncio.get_running_loop()]
    assert inner == outer


async def test_work_after_cancelled_work_runs_in_the_pool(
    server: MCPServer,
):
    """asgiref copies the context variables of an abandoned thread to its waiter."""
    loop, waiting = asyncio.get_running_loop(), asyncio.current_task()
    has_ended, names = threading.Event(), list[str]()
    assert waiting is not None

    def hang() -> None:
        loop.call_soon_threadsafe(waiting.cancel)
        has_ended.wait(10)

    @server.tool
    def where() -> str:
        names.append(threading.current_thread().name)
        return "done"

    try:
        with pytest.raises(asyncio.CancelledError):
            await threads.run_in_pool(hang)
        waiting.uncancel()
        await WireClient(server, V2026_07_28).call("where")
    finally:
        has_ended.set()

    assert names[0].startswith("django-mcp_")


@pytest.mark.usefixtures("few_threads")
async def test_a_call_that_never_got_a_thread_is_not_run_after_its_deadline(server: MCPServer):
    release, begun = threading.Event(), threading.Semaphore(0)
    late = []

    @server.tool
    def block() -> None:
        begun.release()
        release.wait(LIMIT_S)

    @server.tool(timeout=0.05)
    def never() -> None:
        late.append(1)

    blocked = [asyncio.create_task(call(server, "block")) for _ in range(2)]
    for _ in range(2):
        assert await asyncio.to_thread(begun.acquire, timeout=LIMIT_S)
    status, _ = await WireClient(server, V2026_07_28).error("tools/call", {"name": "never"})
    release.set()
    await asyncio.gather(*blocked)

    assert status == 503
    assert late == []


# -- transactions and connections, through the whole server


@pytest.mark.usefixtures("databases")
async def test_a_tool_that_fails_leaves_nothing_behind(server: MCPServer):
    @server.tool(atomic=["first", "second"])
    def write_and_fail(sku: str) -> None:
        make_product(sku, "first")
        make_product(sku, "second")
        raise RuntimeError

    @server.tool(atomic=["first", "second"])
    def write(sku: str) -> None:
        make_product(sku, "first")

    failed = await call(server, "write_and_fail", {"sku": "a"})
    await call(server, "write", {"sku": "b"})

    assert failed["isError"]
    assert await threads.run_in_pool(lambda: products("first")) == {"b"}
    assert await threads.run_in_pool(lambda: products("second")) == set()


@pytest.mark.usefixtures("databases")
async def test_an_unserializable_result_leaves_nothing_behind(server: MCPServer):
    """The result is converted inside of the transaction."""

    @server.tool(atomic=["first", "second"])
    def write() -> object:
        make_product("a")
        return object()

    assert (await call(server, "write"))["isError"]
    assert await threads.run_in_pool(products) == set()


@pytest.mark.usefixtures("databases")
async def test_writes_after_the_deadline_are_rolled_back(server: MCPServer):
    release, done = threading.Event(), threading.Event()

    @server.tool(timeout=0.5, atomic="first")
    def slow() -> None:
        make_product("a")
        release.wait(LIMIT_S)
        done.set()

    result = await call(server, "slow")
    release.set()
    assert await asyncio.to_thread(done.wait, LIMIT_S)
    # The thread is free again when it has rolled back.
    await threads.run_in_pool(lambda: None)
    await asyncio.gather(*[threads.run_in_pool(lambda: None) for _ in range(32)])

    assert result["isError"]
    assert await threads.run_in_pool(products) == set()


@pytest.mark.usefixtures("databases")
async def test_no_connection_stays_open_in_the_threads(server: MCPServer):
    seen: list[Any] = []

    @server.tool
    def read() -> int:
        seen.append(connections["first"])
        return len(products())

    await asyncio.gather(*[call(server, "read") for _ in range(8)])

    assert len(seen) == 8
    assert [connection.connection for connection in seen] == [None] * 8


@pytest.mark.usefixtures("databases")
@pytest.mark.parametrize("is_on", [True, False])
async def test_atomic_requests_makes_no_difference(server: MCPServer, is_on: bool):
    connections["first"].settings_dict["ATOMIC_REQUESTS"] = is_on

    @server.tool(atomic=["first", "second"])
    def write() -> None:
        make_product("a")
        raise RuntimeError

    await call(server, "write")

    assert await threads.run_in_pool(products) == set()


@override_settings(DJANGO_MCP={"SYNC_THREADS": 0})
class InATestCase(TestCase):
    """With SYNC_THREADS 0 handlers share the transaction of a test case."""

    def setUp(self) -> None:
        self.server = MCPServer("test-case")
        Product.objects.create(sku="a", name="a", category="office", price=1)

        @self.server.tool
        def count() -> int:
            return Product.objects.count()

        @self.server.tool
        def add(sku: str, fails: bool = False) -> None:
            Product.objects.create(sku=sku, name=sku, category="office", price=1)
            if fails:
                raise RuntimeError

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        return async_to_sync(WireClient(self.server, V2026_07_28).call)(name, arguments)

    def test_a_tool_sees_what_the_test_wrote(self) -> None:
        assert text_of(self.call("count")) == "1"

    def test_the_test_sees_what_a_tool_wrote(self) -> None:
        self.call("add", sku="b")
        self.call("add", sku="c", fails=True)

        assert set(Product.objects.values_list("sku", flat=True)) == {"a", "b"}

    async def test_writes_are_visible_both_ways_in_an_async_test(self) -> None:
        client = WireClient(self.server, V2026_07_28)

        await client.call("add", {"sku": "b"})
        await client.call("add", {"sku": "c", "fails": True})

        assert text_of(await client.call("count")) == "2"


# -- processes


def test_the_pool_follows_the_settings(few_threads: int):
    async def name_of_pool() -> threads._ThreadPools | None:
        await threads.run_in_pool(lambda: None)
        return threads._thread_pools.current

    few = async_to_sync(name_of_pool)()
    with override_settings(DJANGO_MCP={"SYNC_THREADS": 3}):
        more = async_to_sync(name_of_pool)()

    assert few is not more


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    run: Callable[[Callable[[], str]], str] = async_to_sync(threads.run_in_pool)
    assert run(lambda: "parent") == "parent"

    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if run(lambda: "child") == "child" else 1)
        finally:
            os._exit(2)

    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


async def test_queries_of_the_package_take_turns_between_addresses() -> None:
    gate, order = threading.Event(), list[str]()

    async def ask(address: str, name: str) -> None:
        threads.caller_address.set(address)
        await threads.run_in_pool(lambda: order.append(name))

    with override_settings(DJANGO_MCP={"SYNC_THREADS": 1}):
        held = asyncio.create_task(threads.run_in_pool(lambda: gate.wait(LIMIT_S)))
        asked = []
        for address, name in (("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1")):
            asked.append(asyncio.create_task(ask(address, name)))
        # They wait for the thread, in this order.
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(held, *asked)

    assert order == ["a1", "b1", "a2", "a3"]
