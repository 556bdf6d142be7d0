"""How many queries a sampled call makes, and how long they take."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import Group
from django.db import IntegrityError, connections, transaction
from django.test import override_settings

from django_mcp import Context, MCPServer, ToolError
from django_mcp.calls import RecordedCall, flush_calls
from django_mcp.models import CallRecord
from django_mcp.signals import tool_called
from django_mcp.test import MCPClient
from example_project.shop.models import Product
from tests.support.databases import make_product, products
from tests.support.wire import V2026_07_28, WireClient

ALL = {"RECORD_QUERIES": True, "RECORD_CALLS": False}
FORM = {"type": "object", "properties": {"sure": {"type": "boolean"}}}


@pytest.fixture
def calls() -> Iterator[list[RecordedCall]]:
    """The calls of the test, once they are flushed."""
    found: list[RecordedCall] = []

    def take(call: RecordedCall, **_kwargs: Any) -> None:
        found.append(call)

    tool_called.connect(take)
    yield found
    tool_called.disconnect(take)


def make_server(function: Callable[..., Any], **options: Any) -> MCPServer:
    server = MCPServer("counting", public=True, atomic=False)
    server.register_tool(function, name="count", **options)
    return server


def send(server: MCPServer) -> None:
    """Call the tool on an event loop of its own, as under ASGI."""

    async def call() -> None:
        client = WireClient(server, V2026_07_28)
        await client.send("tools/call", {"name": "count", "arguments": {}})

    async_to_sync(call)()
    flush_calls()


def call_in_process(server: MCPServer) -> None:
    """Call the tool from synchronous code, whose thread runs its queries."""
    MCPClient(server=server).call("count")
    flush_calls()


def read_both() -> str:
    """Read from two databases."""
    return f"{len(products('first'))} {len(products('second'))}"


def read_lazily() -> Any:
    """Return rows that are read when the result is converted."""
    return Product.objects.using("first").values("sku")


def read_nothing() -> str:
    """Use no database."""
    return "done"


def fail_after_reading() -> str:
    """Read, then fail."""
    products("second")
    raise ToolError("No.")


def break_rule() -> str:
    """Have the database refuse a statement."""
    make_product("a", "first")
    try:
        with transaction.atomic("first"):
            make_product("a", "first")
    except IntegrityError:
        return "known"
    return "new"


async def read_both_later() -> str:
    """Read from two databases, by the ORM's own methods and by `sync_to_async`."""
    await Product.objects.using("first").acount()
    return str(await sync_to_async(products)("second"))


async def fail_later() -> str:
    """Read, then fail."""
    await Product.objects.using("second").acount()
    raise ValueError("No.")


async def return_lazily() -> Any:
    """Return rows that a thread reads."""
    return Product.objects.using("first").values("sku")


def read_elsewhere() -> str:
    """Read in a thread of its own, whose connections nothing watches."""

    def read() -> None:
        products("first")
        connections["first"].close()

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    return "done"


@pytest.mark.parametrize("call", [send, call_in_process])
@pytest.mark.parametrize(
    ("function", "options", "count"),
    [
        (read_both, {}, 2),
        (read_both, {"atomic": "first"}, 2),
        (read_lazily, {}, 1),
        (read_nothing, {}, 0),
        (fail_after_reading, {"atomic": "second"}, 1),
        (read_both_later, {}, 2),
        (fail_later, {}, 1),
        (return_lazily, {}, 1),
        (read_elsewhere, {}, 0),
    ],
)
def test_the_queries_of_a_handler_are_counted(
    calls: list[RecordedCall],
    call: Callable[[MCPServer], None],
    function: Callable[..., Any],
    options: dict[str, Any],
    count: int,
    databases: str,
):
    with override_settings(DJANGO_MCP=ALL):
        call(make_server(function, **options))

    (recorded,) = calls
    assert recorded.queries is not None
    # A connection to MariaDB is opened with some more.
    if databases == "mariadb" and count:
        assert recorded.queries >= count
    else:
        assert recorded.queries == count
    assert recorded.database_s is not None
    assert (recorded.database_s > 0) == (count > 0)
    assert recorded.handler_s is not None
    assert recorded.database_s <= recorded.handler_s


def test_a_statement_that_fails_is_a_query(calls: list[RecordedCall], databases: str):
    with override_settings(DJANGO_MCP=ALL):
        send(make_server(break_rule, atomic=False))

    # Two inserts. On SQLite, Django executes what begins a transaction. What opens a connection to MariaDB counts as
    # well, and depends on the version of Django.
    found = calls[0].queries
    assert found is not None
    assert found > 2 if databases == "mariadb" else found == 2 + (databases == "sqlite")
    assert calls[0].outcome == "done"


@pytest.mark.django_db(transaction=True)
def test_nothing_watches_a_connection_after_the_call(calls: list[RecordedCall]):
    @sync_to_async
    def find_wrappers() -> list[str]:
        return [type(each).__name__ for each in connections["default"].execute_wrappers]

    left: list[list[str]] = []

    async def read() -> str:
        """Read, and look at the connection from outside of the count."""
        await Group.objects.acount()
        left.append(await find_wrappers())
        return "done"

    with override_settings(DJANGO_MCP=ALL):
        call_in_process(make_server(read))
    with override_settings(DJANGO_MCP={"RECORD_CALLS": False}):
        call_in_process(make_server(read))

    assert [call.queries for call in calls] == [1, None]
    assert "_Counter" in left[0]
    assert "_Counter" not in left[1]
    assert connections["default"].execute_wrappers == []


@pytest.mark.django_db(transaction=True)
def test_a_call_inside_of_another_is_a_part_of_it(calls: list[RecordedCall]):
    server = MCPServer("counting", public=True, atomic=False)

    @server.tool
    async def inner() -> str:
        """Read once."""
        return str(await Group.objects.acount())

    @server.tool
    def inner_in_thread() -> str:
        """Read once."""
        return str(Group.objects.count())

    @server.tool
    async def count() -> str:
        """Read once, and twice by others."""
        await Group.objects.acount()
        await server.acall_tool("inner")
        await server.acall_tool("inner_in_thread")
        return "done"

    with override_settings(DJANGO_MCP=ALL):
        send(server)

    assert {call.name: call.queries for call in calls} == {
        "inner": 1,
        "inner_in_thread": 1,
        "count": 3,
    }


@pytest.mark.django_db(transaction=True)
def test_all_rounds_of_a_call_are_counted(calls: list[RecordedCall]):
    def ask(ctx: Context) -> str:
        """Read, ask, and read again, since it runs from its start."""
        Group.objects.count()
        ctx.elicit("Go on?", FORM)
        return "done"

    with override_settings(DJANGO_MCP=ALL):
        make_server(ask).call_tool("count", answers=[{"sure": True}])
        flush_calls()

    assert [(call.outcome, call.queries) for call in calls] == [("asked", 1), ("done", 1)]


@pytest.mark.django_db(transaction=True)
def test_the_run_of_a_task_is_counted(calls: list[RecordedCall]):
    def read() -> str:
        """Read once."""
        return str(Group.objects.count())

    with override_settings(DJANGO_MCP={**ALL, "TASK_STORE": "memory"}):
        client = MCPClient(server=make_server(read, task="required"))
        client.call_as_task("count")
        flush_calls()

    (call,) = calls
    assert call.queries == 1
    assert call.handler_s


@pytest.mark.django_db
@pytest.mark.parametrize(("share", "is_counted"), [(1.0, True), (True, True), (0, False)])
def test_a_record_has_the_queries_of_a_sampled_call(share: float, is_counted: bool):
    def read() -> str:
        """Read once."""
        return str(Group.objects.count())

    chosen = {"RECORD_CALLS": True, "RECORD_QUERIES": share, "SYNC_THREADS": 0}
    with override_settings(DJANGO_MCP=chosen):
        send(make_server(read))

    found = CallRecord.objects.get()
    assert found.queries == (1 if is_counted else None)
    assert (found.database_ms is not None) == is_counted
    if found.database_ms is not None:
        assert found.handler_ms is not None
        assert 0 < found.database_ms <= found.handler_ms


@pytest.mark.django_db
def test_a_call_that_is_refused_has_no_queries(calls: list[RecordedCall]):
    def read(sku: str) -> str:
        """Read once."""
        return sku

    with override_settings(DJANGO_MCP={**ALL, "SYNC_THREADS": 0}):
        send(make_server(read))

    assert (calls[0].outcome, calls[0].queries) == ("failed", None)
