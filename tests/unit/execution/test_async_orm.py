"""The async ORM of calls uses pool threads: in parallel, with usable connections, none held while idle."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections, transaction
from django.test import TestCase, override_settings

from django_mcp.auth.authenticators import Authenticator
from django_mcp.auth.principal import Principal
from django_mcp.execution import threads
from django_mcp.servers import MCPServer
from django_mcp.test import AsyncMCPClient
from example_project.shop.models import Product
from tests.support.auth.asking import exchange_with
from tests.support.databases import make_product
from tests.support.held import LIMIT_S, Holder
from tests.support.server.tasks import Modern, until
from tests.support.wire import V2026_07_28, WireClient


@pytest.fixture
def server() -> MCPServer:
    return MCPServer("async-orm", atomic=False)


@pytest.fixture
def one_thread() -> Iterator[None]:
    with override_settings(DJANGO_MCP={"SYNC_THREADS": 1}):
        yield


async def call(server: MCPServer, name: str, **arguments: Any) -> str:
    result = await WireClient(server, V2026_07_28).call(name, arguments)
    return str(result["content"][0]["text"])


async def name_of_thread() -> str:
    return await sync_to_async(lambda: threading.current_thread().name)()


async def test_queries_of_different_calls_run_concurrently(server: MCPServer):
    everybody = threading.Barrier(10, timeout=LIMIT_S)

    @server.tool
    async def meet() -> str:
        await sync_to_async(everybody.wait)()
        return "met"

    assert await asyncio.gather(*[call(server, "meet") for _ in range(10)]) == ["met"] * 10


async def test_queries_of_one_call_run_in_one_thread(
    server: MCPServer, monkeypatch: pytest.MonkeyPatch
):
    # On a busy machine the event loop may take longer from one query to the next.
    monkeypatch.setattr("django_mcp.execution.thread_loans.LINGER_S", 10.0)

    @server.tool
    async def ask() -> list[str]:
        return await asyncio.gather(*[name_of_thread() for _ in range(5)]) + [
            await name_of_thread()
        ]

    async def threads_of_call() -> list[str]:
        result = await WireClient(server, V2026_07_28).call("ask")
        return result["structuredContent"]

    for names in await asyncio.gather(*[threads_of_call() for _ in range(5)]):
        assert len(names) == 6
        assert len(set(names)) == 1
        assert names[0].startswith("django-mcp")


@pytest.mark.usefixtures("one_thread")
async def test_a_call_awaiting_something_else_holds_no_thread(server: MCPServer):
    has_asked, may_go = asyncio.Event(), asyncio.Event()

    @server.tool
    async def ask_and_wait() -> str:
        await name_of_thread()
        has_asked.set()
        await may_go.wait()
        return await name_of_thread()

    @server.tool
    def quick() -> str:
        return "quick"

    waiting = asyncio.create_task(call(server, "ask_and_wait"))
    async with asyncio.timeout(LIMIT_S):
        await has_asked.wait()
        assert await call(server, "quick") == "quick"
        may_go.set()
        assert (await waiting).startswith("django-mcp")


@pytest.mark.usefixtures("one_thread")
async def test_an_async_tool_with_queries_may_call_synchronous_tools(server: MCPServer):
    @server.tool
    def quick() -> str:
        return "quick"

    @server.tool
    async def ask_and_call() -> str:
        await name_of_thread()
        found = await asyncio.gather(*[server.acall_tool("quick") for _ in range(3)])
        return found[0].text

    async with asyncio.timeout(LIMIT_S):
        found = await asyncio.gather(*[call(server, "ask_and_call") for _ in range(3)])

    assert found == ["quick"] * 3


@pytest.mark.usefixtures("one_thread")
async def test_no_thread_is_held_after_a_call(server: MCPServer):
    @server.tool
    async def ask() -> str:
        return await name_of_thread()

    async def is_free() -> bool:
        return not threads.find_pool_states()["SYNC_THREADS"].running

    for _ in range(3):
        await call(server, "ask")
    await until(is_free)


@pytest.mark.usefixtures("one_thread")
async def test_tasks_that_outlive_their_call_can_still_query(server: MCPServer):
    left: list[asyncio.Task[str]] = []
    may_go = asyncio.Event()

    async def later() -> str:
        await may_go.wait()
        return await name_of_thread()

    @server.tool
    async def leave() -> str:
        left.append(asyncio.create_task(later()))
        return await name_of_thread()

    await call(server, "leave")
    may_go.set()
    async with asyncio.timeout(LIMIT_S):
        assert (await left[0]).startswith("django-mcp")


async def test_a_cancelled_query_leaves_the_thread_usable(server: MCPServer):
    begun, may_go = threading.Event(), threading.Event()

    def block() -> None:
        begun.set()
        may_go.wait(LIMIT_S)

    @server.tool
    async def slow() -> None:
        await sync_to_async(block)()

    with override_settings(DJANGO_MCP={"SYNC_THREADS": 1}):

        @server.tool
        async def ask() -> str:
            return await name_of_thread()

        calling = asyncio.create_task(call(server, "slow"))
        assert await asyncio.to_thread(begun.wait, LIMIT_S)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        waiting = asyncio.create_task(call(server, "ask"))
        may_go.set()
        async with asyncio.timeout(LIMIT_S):
            assert (await waiting).startswith("django-mcp")


# -- connections


@pytest.mark.usefixtures("databases")
async def test_no_connection_stays_open_after_a_call(server: MCPServer):
    """The setting `CONN_MAX_AGE` of 0 applies to a call as it does to a request."""
    seen: list[Any] = []

    @server.tool
    async def read() -> int:
        seen.append(await sync_to_async(lambda: connections["first"])())
        return await Product.objects.using("first").acount()

    async def are_closed() -> bool:
        return all(connection.connection is None for connection in seen)

    await asyncio.gather(*[call(server, "read") for _ in range(4)])

    assert len(seen) == 4
    await until(are_closed)


@pytest.mark.usefixtures("databases")
async def test_one_call_keeps_its_connection_from_query_to_query(
    server: MCPServer, monkeypatch: pytest.MonkeyPatch
):
    # A busy machine may need longer from one query to the next.
    monkeypatch.setattr("django_mcp.execution.thread_loans.LINGER_S", 5.0)

    @server.tool
    async def read() -> int:
        found = set()
        for _ in range(3):
            await Product.objects.using("first").acount()
            found.add(await sync_to_async(lambda: id(connections["first"].connection))())
        return len(found)

    assert await call(server, "read") == "1"


@pytest.mark.usefixtures("databases")
async def test_a_connection_is_not_closed_while_rows_are_read_from_it(
    server: MCPServer, databases: str
):
    """Other calls wait for the only thread meanwhile, and have it afterwards."""
    for number in range(5):
        await threads.run_in_pool(lambda number=number: make_product(str(number)))  # type: ignore[misc]
    others: list[asyncio.Task[str]] = []

    @server.tool
    def quick() -> str:
        return "quick"

    @server.tool
    async def read() -> list[str]:
        found = []
        async for product in Product.objects.using("first").order_by("sku").aiterator(chunk_size=1):
            found.append(product.sku)
            others.append(asyncio.create_task(call(server, "quick")))
            # Long enough for a thread without open cursors to be released.
            await asyncio.sleep(0.01)
        return found

    with override_settings(DJANGO_MCP={"SYNC_THREADS": 1}):
        async with asyncio.timeout(LIMIT_S):
            result = await WireClient(server, V2026_07_28).call("read")
            assert await asyncio.gather(*others) == ["quick"] * 5

    assert result["structuredContent"] == ["0", "1", "2", "3", "4"]


@pytest.mark.usefixtures("databases")
async def test_a_transaction_that_a_call_left_open_is_rolled_back_and_reaches_no_other_call(
    server: MCPServer,
):
    others: list[asyncio.Task[str]] = []

    @server.tool(read_only=True)
    def count() -> int:
        return Product.objects.using("first").count()

    @server.tool
    async def leave_open() -> str:
        await sync_to_async(transaction.atomic(using="first").__enter__)()
        await Product.objects.using("first").acreate(sku="a", name="a", category="x", price=1)
        others.append(asyncio.create_task(call(server, "count")))
        await asyncio.sleep(0.01)
        return str(await Product.objects.using("first").acount())

    with override_settings(DJANGO_MCP={"SYNC_THREADS": 1}):
        async with asyncio.timeout(LIMIT_S):
            assert await call(server, "leave_open") == "1"
            assert await asyncio.gather(*others) == ["0"]
            assert await call(server, "count") == "0"


# -- separate threads for authenticators and tasks


class Asking(Authenticator):
    async def authenticate(self, exchange: Any) -> Principal:
        return Principal(key=await name_of_thread())


async def test_async_authenticators_do_not_wait_for_handler_threads():
    with override_settings(DJANGO_MCP={"SYNC_THREADS": 1}):
        holder = Holder("asking", authenticators=[Asking()])
        async with holder.holding(1), asyncio.timeout(LIMIT_S):
            exchange = exchange_with()
            authenticate = holder.server.engine.authenticate
            assert authenticate is not None
            assert await authenticate(exchange) is None

    assert exchange.caller.principal.key.startswith("django-mcp-auth")


async def test_queries_of_a_task_use_the_task_threads():
    server = MCPServer("tasks", task_after_s=0.01)

    @server.tool(task="required")
    async def ask() -> str:
        return await name_of_thread()

    with override_settings(DJANGO_MCP={"TASK_STORE": "memory"}):
        client = Modern(server)
        task = await client.raw("tools/call", {"name": "ask", "arguments": {}})
        found: dict[str, Any] = {}

        async def is_done() -> bool:
            found.update(await client.raw("tasks/get", {"taskId": task["taskId"]}))
            return found["status"] == "completed"

        await until(is_done)

    assert found["result"]["content"][0]["text"].startswith("django-mcp-task")


# -- tests in site projects


class InATestCase(TestCase):
    """The async ORM of a tool sees the uncommitted writes of the test."""

    def setUp(self) -> None:
        self.server = MCPServer("test-case", public=True)
        Product.objects.create(sku="a", name="a", category="office", price=1)

        @self.server.tool
        async def count() -> int:
            return await Product.objects.acount()

    def test_the_async_orm_works_in_a_sync_test(self) -> None:
        assert async_to_sync(call)(self.server, "count") == "1"

    async def test_the_async_orm_works_in_an_async_test(self) -> None:
        assert await call(self.server, "count") == "1"

    async def test_the_async_orm_works_in_a_task_of_an_async_test(self) -> None:
        assert await asyncio.create_task(call(self.server, "count")) == "1"

    async def test_the_async_orm_works_through_the_test_client(self) -> None:
        result = await AsyncMCPClient(self.server).call("count")
        assert result.text == "1"


@override_settings(DJANGO_MCP={"SYNC_THREADS": 0})
class InATestCaseWithoutThreads(InATestCase):
    """As `InATestCase`."""


def run_in_leased_thread(server: MCPServer, name: str) -> str:
    """Call a tool from synchronous code that an async tool runs with `sync_to_async`."""
    return async_to_sync(call)(server, name)


@pytest.mark.usefixtures("one_thread")
async def test_code_in_the_thread_of_a_call_may_call_synchronous_tools(server: MCPServer):
    """They run in the same thread: there is no second one."""

    @server.tool
    def inner() -> str:
        return threading.current_thread().name

    @server.tool
    async def outer() -> list[str]:
        def work() -> list[str]:
            return [threading.current_thread().name, run_in_leased_thread(server, "inner")]

        return await sync_to_async(work)()

    async with asyncio.timeout(LIMIT_S):
        result = await WireClient(server, V2026_07_28).call("outer")

    own, nested = result["structuredContent"]
    assert own == nested


@pytest.mark.usefixtures("one_thread", "databases")
async def test_a_nested_call_does_not_close_the_connection_of_its_caller(server: MCPServer):
    @server.tool
    def inner() -> int:
        return 1

    @server.tool
    async def outer() -> bool:
        def work() -> bool:
            connections["first"].ensure_connection()
            before = connections["first"].connection
            # As with `CONN_MAX_AGE` 0, after which Django closes a connection that is not needed.
            connections["first"].close_at = 0
            run_in_leased_thread(server, "inner")
            return before is not None and connections["first"].connection is before

        return await sync_to_async(work)()

    async with asyncio.timeout(LIMIT_S):
        assert await call(server, "outer") == "true"
