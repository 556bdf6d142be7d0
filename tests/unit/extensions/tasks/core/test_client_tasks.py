"""Core tasks of the revision 2025-11-25, which clients request."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.server.plain import MCPServer
from tests.support.server.tasks import FORMS, RELATED, Gate, Legacy, Modern, Person, make_server
from tests.support.wire import V2025_03_26, V2025_06_18, WireClient

ACCEPTED = {"action": "accept", "content": {"sure": True}}


@pytest.fixture
def client(server: MCPServer) -> Legacy:
    return Legacy(server)


async def initialize(client: Legacy) -> dict[str, Any]:
    params = {
        "protocolVersion": client.revision.name,
        "capabilities": {},
        "clientInfo": {"name": "tests", "version": "1"},
    }
    return (await client.result("initialize", params))["capabilities"]


async def test_the_capability_offers_task_lists_only_to_authenticated_clients(server: MCPServer):
    capabilities = await initialize(Legacy(server))
    assert capabilities["tasks"] == {"cancel": {}, "requests": {"tools": {"call": {}}}}
    assert "extensions" not in capabilities

    capabilities = await initialize(Legacy(server, principal=Person("a")))
    assert capabilities["tasks"]["list"] == {}


async def test_tools_list_their_task_support(server: MCPServer, client: Legacy):
    tools = {tool["name"]: tool for tool in (await client.result("tools/list"))["tools"]}

    assert "execution" not in tools["quick"]
    assert tools["wait"]["execution"] == {"taskSupport": "optional"}
    assert tools["auto"]["execution"] == {"taskSupport": "optional"}
    assert tools["fail"]["execution"] == {"taskSupport": "required"}
    for other in (WireClient(server, V2025_06_18), Modern(server)):
        assert all("execution" not in tool for tool in (await other.result("tools/list"))["tools"])


async def test_a_task_is_created_and_its_result_awaited(client: Legacy, gate: Gate):
    task_id = await client.create("wait", ttl=60_000)
    task = await client.result("tasks/get", {"taskId": task_id})
    assert (task["status"], task["ttl"]) == ("working", 60_000)

    waiting = client.begin("tasks/result", {"taskId": task_id})
    await gate.has_begun.wait()
    assert not waiting.task.done()
    gate.may_go_on.set()
    result = (await waiting.answer())["result"]
    assert result["content"] == [{"type": "text", "text": "done"}]
    assert result["_meta"] == {RELATED: {"taskId": task_id}}
    assert (await client.result("tasks/result", {"taskId": task_id})) == result


@pytest.mark.parametrize(
    ("wished", "given"), [(10**12, 86_400_000), (None, 86_400_000), (5e3, 5000)]
)
async def test_a_lifetime_is_bounded(client: Legacy, wished: Any, given: int):
    task_id = await client.create("fail", ttl=wished)

    assert (await client.result("tasks/get", {"taskId": task_id}))["ttl"] == given


@pytest.mark.parametrize("task", [None, 5, [], {"ttl": "x"}, {"ttl": -1}, {"ttl": True}])
async def test_an_invalid_task_parameter_is_rejected(client: Legacy, task: Any):
    _, error = await client.error("tools/call", {"name": "wait", "arguments": {}, "task": task})

    assert error["code"] == -32602


async def test_task_support_decides_whether_a_tool_runs_as_a_task(client: Legacy, gate: Gate):
    gate.may_go_on.set()
    _, error = await client.error("tools/call", {"name": "fail", "arguments": {}})
    assert error["code"] == -32601
    _, error = await client.error("tools/call", {"name": "quick", "arguments": {}, "task": {}})
    assert error["code"] == -32601
    assert (await client.call("wait"))["content"][0]["text"] == "done"


async def test_a_server_without_tasks_ignores_the_task_parameter():
    server = MCPServer("tests")
    server.register_tool(lambda: "x", name="plain")
    client = Legacy(server)

    _, body = await client.send("tools/call", {"name": "plain", "task": {"ttl": 5}})
    assert body["result"]["content"][0]["text"] == "x"
    assert "tasks" not in await initialize(client)


@pytest.mark.parametrize("revision", [V2025_03_26, V2025_06_18])
async def test_older_clients_have_no_tasks(server: MCPServer, gate: Gate, revision: Any):
    client = WireClient(server, revision)
    gate.may_go_on.set()

    assert (await client.call("wait", task={"ttl": 5}))["content"][0]["text"] == "done"
    _, error = await client.error("tasks/get", {"taskId": "x"})
    assert error["code"] == -32601


async def test_a_tool_error_fails_the_task_and_is_its_result(client: Legacy):
    task_id = await client.create("fail")
    await client.until(task_id, "failed")

    result = await client.result("tasks/result", {"taskId": task_id})
    assert result["isError"] is True

    task_id = await client.create("crash")
    _, error = await client.error("tasks/result", {"taskId": task_id})
    assert error == {"code": 7, "message": "Cannot be done", "data": {"why": "x"}}


async def test_a_cancelled_task_has_stopped_when_the_response_arrives(client: Legacy, gate: Gate):
    task_id = await client.create("wait")
    await gate.has_begun.wait()

    assert (await client.result("tasks/cancel", {"taskId": task_id}))["status"] == "cancelled"
    async with asyncio.timeout(10):
        await gate.was_interrupted.wait()
    assert (await client.result("tasks/get", {"taskId": task_id}))["status"] == "cancelled"
    for method in ("tasks/cancel", "tasks/result"):
        _, error = await client.error(method, {"taskId": task_id})
        assert error["code"] == (-32602 if method == "tasks/cancel" else -32800)


async def test_a_cancelled_notification_does_not_touch_the_task(client: Legacy, gate: Gate):
    await client.open(FORMS)
    call = client.call_tool("wait", task={"ttl": 60_000})
    task_id = (await call.answer())["result"]["task"]["taskId"]

    gone = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "call"}}
    await client.tell(gone)
    gate.may_go_on.set()
    await client.until(task_id, "completed")


async def test_a_question_is_sent_on_the_stream_of_tasks_result(client: Legacy):
    task_id = await client.create("confirm", item="a.txt")
    assert (await client.until(task_id, "input_required"))["status"] == "input_required"

    waiting = client.begin("tasks/result", {"taskId": task_id})
    question = await waiting.sink.message()
    assert question["method"] == "elicitation/create"
    assert question["params"]["_meta"] == {RELATED: {"taskId": task_id}}
    await client.respond(question, result=ACCEPTED)

    result = (await waiting.answer())["result"]
    assert result["content"][0]["text"] == "7: a.txt, True"


async def test_an_error_response_to_a_question_fails_the_tool(client: Legacy):
    task_id = await client.create("confirm", item="a.txt")
    waiting = client.begin("tasks/result", {"taskId": task_id})
    question = await waiting.sink.message()
    await client.respond(question, error={"code": -1, "message": "No"})

    result = (await waiting.answer())["result"]
    assert result["isError"] is True
    assert "refused to answer: No" in result["content"][0]["text"]


@pytest.mark.http_only("on a pipe the stream of the call is the standalone one")
async def test_progress_keeps_its_token_and_names_the_task(client: Legacy, gate: Gate):
    await client.open(FORMS)
    gate.may_go_on.clear()
    async with client.standalone() as stream:
        call = client.call_tool("wait", task={}, _meta={"progressToken": "t"})
        task_id = (await call.answer())["result"]["task"]["taskId"]
        progress = await stream.sink.message()
        assert progress["method"] == "notifications/progress"
        assert progress["params"] == {
            "progressToken": "t",
            "progress": 1,
            "total": 2,
            "message": "half of it",
            "_meta": {RELATED: {"taskId": task_id}},
        }

        gate.may_go_on.set()
        status = await stream.sink.message()
        assert status["method"] == "notifications/tasks/status"
        assert status["params"]["taskId"] == task_id
        assert "_meta" not in status["params"]


async def test_authenticated_clients_list_their_own_tasks_in_pages():
    server, gate = make_server(page_size=2)
    own, other = Legacy(server, principal=Person("a")), Legacy(server, principal=Person("b"))
    made = [await own.create("wait") for _ in range(5)]
    await other.create("wait")

    found: list[str] = []
    params: dict[str, Any] = {}
    while True:
        page = await own.result("tasks/list", params)
        found += [task["taskId"] for task in page["tasks"]]
        if "nextCursor" not in page:
            break
        params = {"cursor": page["nextCursor"]}
    assert sorted(found) == sorted(made)

    _, error = await own.error("tasks/list", {"cursor": "forged"})
    assert error["code"] == -32602
    gate.may_go_on.set()


async def test_no_page_of_tasks_is_empty_for_those_of_another_revision():
    server, gate = make_server(page_size=2)
    person = Person("a")
    own, modern = Legacy(server, principal=person), Modern(server, principal=person)
    made = []
    for _ in range(2):
        for _ in range(3):
            await modern.create("wait")
        made += [await own.create("wait"), await own.create("wait")]

    pages = [await own.result("tasks/list", {})]
    while "nextCursor" in pages[-1]:
        pages.append(await own.result("tasks/list", {"cursor": pages[-1]["nextCursor"]}))

    assert [len(page["tasks"]) for page in pages] == [2, 2]
    found = [task["taskId"] for page in pages for task in page["tasks"]]
    assert sorted(found) == sorted(made)
    gate.may_go_on.set()


@pytest.mark.http_only("a pipe has no URL")
async def test_the_tasks_of_another_url_are_not_listed(server: MCPServer, gate: Gate):
    """The URL may name a tenant."""
    person = Person("a")
    here, there = (
        Legacy(server, principal=person, url_kwargs={"tenant": name}) for name in ("home", "other")
    )
    made, others = await here.create("wait"), await there.create("wait")

    for client, own in ((here, made), (there, others)):
        page = await client.result("tasks/list", {})
        assert [task["taskId"] for task in page["tasks"]] == [own]
    gate.may_go_on.set()


@pytest.mark.http_only(
    "on a pipe, as without sessions, its id is what opens the task of nobody in particular"
)
async def test_anonymous_clients_see_only_their_sessions_tasks_and_cannot_list(
    server: MCPServer, client: Legacy
):
    task_id = await client.create("fail")
    _, error = await client.error("tasks/list")
    assert error["code"] == -32601

    for stranger in (Legacy(server), Modern(server)):
        _, error = await stranger.error("tasks/get", {"taskId": task_id})
        assert (error["code"], error["message"]) == (-32602, "Unknown task")


async def test_without_sessions_the_task_id_grants_access():
    server, gate = make_server(mode="stateless")
    client = Legacy(server)
    made = await client.result("tools/call", {"name": "wait", "arguments": {}, "task": {}})
    gate.may_go_on.set()

    result = await client.result("tasks/result", {"taskId": made["task"]["taskId"]})
    assert result["content"][0]["text"] == "done"
