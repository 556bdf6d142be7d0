"""Tasks with failures: of the queue, the store, a reader, or JSON serialization."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Coroutine, Sequence
from decimal import Decimal
from typing import Any

import pytest

from django_mcp.extensions.tasks.core.memory import MAX_TRIES, LoopRunner, MemoryTasks
from django_mcp.extensions.tasks.core.ports import ports_of
from django_mcp.extensions.tasks.core.task import Task
from django_mcp.server.exchange.call import MAX_STATE_BYTES
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.handlers.context import Context
from django_mcp.server.streams.stream import MAX_QUEUED_BYTES
from tests.support.ports import use_task_ports
from tests.support.server.plain import MCPServer
from tests.support.server.streams import StreamClient
from tests.support.server.tasks import LIMIT_S, Modern, Sure
from tests.support.wire import V2026_07_28

ACCEPTED = {"action": "accept", "content": {"sure": True}}
LARGE = "x" * (MAX_QUEUED_BYTES + 1)


class Runner(LoopRunner):
    """Runs tasks while the queue is available."""

    def __init__(self, is_here: bool) -> None:
        super().__init__()
        self.is_here = is_here
        self.is_away = False

    async def start(
        self,
        task: Task,
        exchange: Exchange | None,
        execute: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        if self.is_away:
            raise ConnectionError("there is no queue")
        await super().start(task, exchange, execute)


class Tasks(MemoryTasks):
    """Stores tasks while the database is available."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(now)
        self.is_away = self.is_contended = False
        self.was_missed = asyncio.Event()
        self.was_given_up = asyncio.Event()
        self.tries = 0

    async def find(self, task_ids: Sequence[str]) -> dict[str, Task]:
        if self.is_away:
            self.was_missed.set()
            raise ConnectionError("there is no database")
        return await super().find(task_ids)

    async def replace(self, task: Task) -> bool:
        if not self.is_contended:
            return await super().replace(task)
        # Another process was faster.
        self.tries += 1
        if self.tries % MAX_TRIES == 0:
            self.was_given_up.set()
        return False


class Server(MCPServer):
    def __init__(self, *, is_here: bool, **options: Any) -> None:
        super().__init__("tests", **options)
        self.given, self.kept = Runner(is_here), Tasks(self.engine.ports.clock)
        use_task_ports(self, runner=self.given, store=self.kept)


@pytest.fixture(params=[True, False], ids=["here", "elsewhere"])
def server(request: pytest.FixtureRequest) -> Server:
    server = Server(is_here=request.param, max_tasks_per_principal=1)

    @server.tool(task="allowed")
    def confirm(ctx: Context[Any]) -> str:
        return str(ctx.elicit("Sure?", Sure).data)

    @server.tool(task="allowed")
    async def shout() -> str:
        return LARGE

    @server.tool(task="allowed")
    async def crash() -> str:
        raise RuntimeError("secret")

    @server.tool(task="allowed")
    async def asynchronous(ctx: Context[Any]) -> str:
        async def price() -> Any:
            return {"price": Decimal("1.50"), "sizes": (1, 2)}

        first = await ctx.aonce("price", price)
        answer = await ctx.aelicit("Sure?", Sure)
        return f"{first} {answer.action}"

    @server.tool(task="allowed")
    def synchronous(ctx: Context[Any]) -> str:
        first = ctx.once("price", lambda: {"price": Decimal("1.50"), "sizes": (1, 2)})
        return f"{first} {ctx.elicit('Sure?', Sure).action}"

    @server.tool
    def shapeless(ctx: Context[Any]) -> str:
        ctx.once("it", object)
        return "?"

    return server


async def test_a_task_that_cannot_start_gets_503_and_frees_its_slot(server: Server, client: Modern):
    server.given.is_away = True
    for _ in range(3):
        status, error = await client.error("tools/call", {"name": "confirm"})
        assert status == 503
        assert error == {
            "code": -32603,
            "message": "The task could not be started now: try again later",
        }

    server.given.is_away = False
    await client.until(await client.create("confirm"), "input_required")


async def test_answers_that_could_not_be_queued_can_be_sent_again(server: Server, client: Modern):
    task_id = await client.create("confirm")
    await client.until(task_id, "input_required")
    answers = {"taskId": task_id, "inputResponses": {"question-1": ACCEPTED}}
    server.given.is_away = True
    status, error = await client.error("tasks/update", answers, mcp_name=task_id)
    assert (status, error["code"]) == (503, -32603)
    assert list((await client.get(task_id))["inputRequests"]) == ["question-1"]

    server.given.is_away = False
    await client.raw("tasks/update", answers)
    await client.until(task_id, "completed")


async def test_a_change_of_a_task_that_others_change_all_the_time_can_be_sent_again(
    server: Server, client: Modern
):
    task_id = await client.create("confirm")
    await client.until(task_id, "input_required")
    server.kept.is_contended = True
    status, _error = await client.error("tasks/cancel", {"taskId": task_id}, mcp_name=task_id)
    assert status == 503


async def test_the_result_of_a_task_that_others_change_all_the_time_is_not_lost(
    server: Server, client: Modern
):
    begun, go = asyncio.Event(), asyncio.Event()

    @server.tool(task="allowed")
    async def slow() -> str:
        begun.set()
        await go.wait()
        return "done"

    task_id = await client.create("slow")
    await asyncio.wait_for(begun.wait(), LIMIT_S)
    server.kept.is_contended = True
    go.set()
    await asyncio.wait_for(server.kept.was_given_up.wait(), LIMIT_S)
    server.kept.is_contended = False
    task = await client.until(task_id, "completed", "failed", "cancelled")

    assert task["status"] == "completed"


async def test_a_large_result_reaches_listeners(client: Modern):
    """Its size says nothing about the speed of its reader."""
    task_id = await client.create("shout")
    stream = client.begin("subscriptions/listen", {"notifications": {"taskIds": [task_id]}})
    await stream.sink.message()

    while (told := await stream.sink.message())["params"]["status"] != "completed":
        pass
    assert told["params"]["result"]["content"][0]["text"] == LARGE
    stream.leave()


async def test_a_large_filter_is_acknowledged_first():
    server = MCPServer("tests")
    server.register_resource("x://a", lambda: "a", name="a")
    # In JSON each quotation mark takes two bytes.
    quotes = '"' * 1000
    uris = [f"x://{number}{quotes}" for number in range(200)]
    stream = StreamClient(server, V2026_07_28).begin(
        "subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}}
    )

    assert (await stream.sink.message())["params"]["notifications"]["resourceSubscriptions"] == uris
    stream.leave()


async def test_a_listener_resumes_when_the_store_recovers(
    server: Server, client: Modern, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("django_mcp.extensions.tasks.core.listening.POLL_S", 0.01)
    task_id = await client.create("confirm")
    await client.until(task_id, "input_required")
    stream = client.begin("subscriptions/listen", {"notifications": {"taskIds": [task_id]}})
    await stream.sink.message()
    assert (await stream.sink.message())["params"]["status"] == "input_required"

    server.kept.is_away = True
    await asyncio.wait_for(server.kept.was_missed.wait(), LIMIT_S)
    server.kept.is_away = False
    await client.raw(
        "tasks/update", {"taskId": task_id, "inputResponses": {"question-1": ACCEPTED}}
    )

    while (await stream.sink.message())["params"]["status"] != "completed":
        pass
    stream.leave()


@pytest.mark.parametrize("task_id", ["a\0b", "é", "a b", "", "x" * 65])
async def test_a_malformed_task_id_is_unknown(client: Modern, task_id: str):
    for method in ("tasks/get", "tasks/cancel", "tasks/update"):
        params = {"taskId": task_id, "inputResponses": {}}
        _, error = await client.error(method, params, mcp_name=f"=?base64?{_base64(task_id)}?=")
        assert error == {"code": -32602, "message": "Unknown task"}


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


async def test_a_crash_gives_an_error_instead_of_a_result(client: Modern):
    task = await client.until(await client.create("crash"), "failed", "completed")

    assert task["status"] == "failed"
    assert task["error"]["code"] == -32603
    assert "Internal error (reference " in task["error"]["message"]


@pytest.mark.parametrize("name", ["synchronous", "asynchronous"])
async def test_once_returns_the_same_value_in_each_round(server: Server, name: str):
    """The value is stored before anything else can happen to the process."""
    client = Modern(server)
    task_id = await client.create(name)
    await client.until(task_id, "input_required")
    kept = (await ports_of(server.engine).store.find((task_id,)))[task_id].rounds["kept"]
    assert kept == {"price": {"price": "1.50", "sizes": [1, 2]}}

    answers = {"taskId": task_id, "inputResponses": {"question-1": ACCEPTED}}
    await client.raw("tasks/update", answers)
    task = await client.until(task_id, "completed")
    assert task["result"]["content"][0]["text"] == f"{kept['price']} accept"


async def test_once_requires_a_json_serializable_value(
    client: Modern, caplog: pytest.LogCaptureFixture
):
    assert "Internal error" in (await client.call("shapeless"))["content"][0]["text"]
    assert "'it' returned what has no form in JSON" in caplog.text


async def test_an_oversized_answer_is_rejected_and_the_task_keeps_waiting(client: Modern):
    task_id = await client.create("confirm")
    await client.until(task_id, "input_required")
    large = {"action": "accept", "content": {"sure": "x" * MAX_STATE_BYTES}}
    params = {"taskId": task_id, "inputResponses": {"question-1": large}}

    _, error = await client.error("tasks/update", params, mcp_name=task_id)

    assert error["code"] == -32602
    assert "too large" in error["message"]
    assert (await client.get(task_id))["status"] == "input_required"


@pytest.mark.parametrize("answer", [None, [], "a", 5])
async def test_an_invalid_answer_to_a_task_is_rejected(client: Modern, answer: Any):
    task_id = await client.create("confirm")
    await client.until(task_id, "input_required")
    params = {"taskId": task_id, "inputResponses": {"question-1": answer, "other": answer}}

    _, error = await client.error("tasks/update", params, mcp_name=task_id)

    assert error["code"] == -32602
    assert list((await client.get(task_id))["inputRequests"]) == ["question-1"]
