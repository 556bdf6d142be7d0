"""The clients of the test kit call tools as tasks, and wait for them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_mcp import Context, MCPServer, ToolError
from django_mcp.inprocess import MCPError, Unanswered, UnknownTool
from django_mcp.test import AsyncMCPClient, MCPClient, MCPTestCase
from example_project.shop.models import Product
from tests.support.kit import Wish

REVISIONS = ("2025-11-25", "2026-07-28")


def make_server() -> MCPServer:
    server = MCPServer("task-kit", public=True)

    @server.tool(task="allowed")
    def stock(ctx: Context, sku: str) -> dict[str, int]:
        """Put an article into stock, which takes its time."""
        ctx.progress(1, 2, "half way")
        Product.objects.create(sku=sku, name="X", category="office", price=1)
        return {"count": Product.objects.filter(sku=sku).count()}

    @server.tool(task="required")
    async def wish(ctx: Context) -> str:
        """Ask for a wish."""
        answer = await ctx.aelicit("Which?", Wish, key="wish")
        return f"{answer.data.colour} {answer.data.count}" if answer.is_accepted else "none"

    @server.tool(task="allowed")
    def refuse() -> str:
        """Fail."""
        raise ToolError("Sold out.")

    @server.tool(task="allowed")
    def crash() -> str:
        """Fail unexpectedly."""
        raise ZeroDivisionError

    @server.tool(task="auto")
    def quick() -> str:
        """Be quick."""
        return "done"

    @server.tool(task="allowed")
    async def hang() -> str:
        """Never end."""
        await asyncio.Event().wait()
        return "never"

    @server.tool
    def plain() -> str:
        """Be no task."""
        return "plain"

    return server


@pytest.fixture
def server() -> MCPServer:
    return make_server()


@pytest.fixture(params=REVISIONS)
def client(request: pytest.FixtureRequest, server: MCPServer) -> MCPClient:
    return MCPClient(server, revision=request.param)


pytestmark = pytest.mark.django_db


def test_a_task_runs_to_completion_on_the_test_connection(client: MCPClient):
    Product.objects.create(sku="lamp", name="X", category="office", price=1)

    result = client.call_as_task("stock", sku="mug")

    assert result.structured == {"count": 1}
    assert Product.objects.filter(sku="mug").exists()
    assert client.task is not None
    assert client.task["status"] == "completed"
    assert client.task["statusMessage"] == "half way"
    # The client calls directly as before.
    assert client.call("stock", sku="cup").structured == {"count": 1}


def test_the_questions_of_a_task_are_answered(client: MCPClient):
    client.answer(Wish(colour="red"))

    assert client.call_as_task("wish").text == "red 1"
    assert [question.message for question in client.questions] == ["Which?"]


def test_an_unanswered_task_question_raises(client: MCPClient):
    with pytest.raises(Unanswered):
        client.call_as_task("wish")


def test_a_failure_of_the_tool_is_a_result(client: MCPClient):
    result = client.call_as_task("refuse")

    assert result.is_error
    assert result.text == "Sold out."


def test_a_crashed_task_fails_like_a_direct_call_or_raises(client: MCPClient):
    if client.revision == "2025-11-25":
        assert "reference" in client.call_as_task("crash").text
    else:
        with pytest.raises(MCPError, match="reference"):
            client.call_as_task("crash")
    assert client.task is not None
    assert client.task["status"] == "failed"


def test_call_as_task_accepts_a_direct_response(server: MCPServer):
    newest = MCPClient(server)
    newest.task = {"taskId": "old"}

    assert newest.call_as_task("quick").text == "done"
    assert newest.task is None


def test_a_tool_without_task_support_is_rejected(client: MCPClient):
    with pytest.raises(MCPError, match="Tool plain cannot run as a task"):
        client.call_as_task("plain")
    with pytest.raises(UnknownTool):
        client.call_as_task("missing")


def test_a_revision_without_tasks_raises(server: MCPServer):
    with pytest.raises(MCPError, match=r"2025-06-18 has no tasks.*2025-11-25"):
        MCPClient(server, revision="2025-06-18").call_as_task("stock", sku="mug")


def test_a_task_that_does_not_end_is_cancelled_and_raises(client: MCPClient):
    client.task_limit_s = 0.5

    with pytest.raises(TimeoutError, match=r"hang .*working.* 0\.5 s"):
        client.call_as_task("hang")

    assert client.task is not None
    assert client.task["status"] == "cancelled"


def test_a_task_without_a_running_loop_is_rejected_with_a_hint(server: MCPServer):
    client = MCPClient(server, revision="2025-11-25")

    def call(sku: str) -> dict[str, Any]:
        return client.send("tools/call", {"name": "stock", "arguments": {"sku": sku}, "task": {}})

    # Its task may have run before the loop ends.
    with pytest.raises(MCPError, match=r"call_as_task\(\)"):
        call("mug")

    # While a client listens, its loop keeps running.
    with client.listen():
        created = call("cup")
        result = client.send("tasks/result", {"taskId": created["task"]["taskId"]})
    assert result["structuredContent"] == {"count": 1}


class TaskCase(MCPTestCase):
    def setUp(self) -> None:
        self.server = make_server()

    async def test_the_async_client_can_call_tasks(self) -> None:
        for revision in REVISIONS:
            client = AsyncMCPClient(self.server, revision=revision)
            result: Any = await client.call_as_task("stock", sku=revision)
            assert result.structured == {"count": 1}

    def test_a_task_writes_in_the_test_transaction(self) -> None:
        assert not Product.objects.exists()
        for revision in REVISIONS:
            MCPClient(self.server, revision=revision).call_as_task("stock", sku=revision)
        assert Product.objects.count() == 2

    def test_task_writes_are_rolled_back_after_the_test(self) -> None:
        assert not Product.objects.exists()
