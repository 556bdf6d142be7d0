"""Tasks of the extension, which the server decides on."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from django_mcp.extensions.tasks.core.task import MAX_EXTENSIONS
from django_mcp.extensions.tasks.core.transitions import advance
from django_mcp.server.handlers.context import Context
from tests.support.server.plain import MCPServer
from tests.support.server.tasks import EXTENSION, Gate, Legacy, Modern, Person, make_server, until
from tests.support.wire import META

ACCEPTED = {"action": "accept", "content": {"sure": True}}
FLAT = {"taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs"}


async def test_the_tasks_extension_is_advertised_without_a_capability(client: Modern):
    capabilities = (await client.result("server/discover"))["capabilities"]

    assert capabilities["extensions"] == {EXTENSION: {}}
    assert "tasks" not in capabilities


async def test_a_server_without_task_tools_has_no_tasks():
    server = MCPServer("tests")
    server.register_tool(lambda: "x", name="plain")
    client = Modern(server)

    assert "extensions" not in (await client.result("server/discover"))["capabilities"]
    status, error = await client.error("tasks/get", {"taskId": "x"}, mcp_name="x")
    assert (status, error["code"]) == (404, -32601)


async def test_a_task_is_created_immediately_and_ends_with_its_result(client: Modern, gate: Gate):
    made = await client.raw("tools/call", {"name": "wait"})

    assert set(made) == {"resultType", "_meta", *FLAT}
    assert (made["resultType"], made["status"]) == ("task", "working")
    assert isinstance(made["ttlMs"], int)
    assert made["createdAt"].endswith("Z")
    assert (await client.get(made["taskId"]))["resultType"] == "complete"

    gate.may_go_on.set()
    task = await client.until(made["taskId"], "completed")
    assert task["result"]["content"] == [{"type": "text", "text": "done"}]
    assert "error" not in task


async def test_progress_is_part_of_the_task_status(client: Modern, gate: Gate):
    task_id = await client.create("wait")

    async def is_told() -> bool:
        return (await client.get(task_id)).get("statusMessage") == "half of it"

    await until(is_told)
    gate.may_go_on.set()
    await client.until(task_id, "completed")


async def test_a_client_without_the_extension_gets_no_task(server: MCPServer, gate: Gate):
    client = Modern(server, declares=False)
    gate.may_go_on.set()

    assert (await client.call("wait"))["content"][0]["text"] == "done"
    # The parameter of legacy clients is ignored.
    assert (await client.call("quick", task={"ttl": 5}))["content"][0]["text"] == "at once"


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tasks/get", {"taskId": "x"}),
        ("tasks/update", {"taskId": "x", "inputResponses": {}}),
        ("tasks/cancel", {"taskId": "x"}),
        ("tools/call", {"name": "fail", "arguments": {}}),
        ("subscriptions/listen", {"notifications": {"taskIds": []}}),
    ],
)
async def test_without_the_extension_task_methods_are_rejected(
    server: MCPServer, method: str, params: dict[str, Any]
):
    client = Modern(server, declares=False)
    name = params.get("taskId") or params.get("name") or "x"

    status, error = await client.error(method, params, mcp_name=name)

    assert (status, error["code"]) == (400, -32021)
    assert error["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}


@pytest.mark.http_only("it is told by headers")
async def test_the_mcp_name_header_must_match_the_task_id(client: Modern):
    task_id = await client.create("fail")

    for headers in ({"mcp_name": "other"}, {"drop": "mcp-name"}):
        status, body = await client.send("tasks/get", {"taskId": task_id}, **headers)
        assert (status, body["error"]["code"]) == (400, -32020)


@pytest.mark.parametrize("method", ["tasks/result", "tasks/list"])
async def test_methods_outside_the_extension_are_unknown(client: Modern, method: str):
    status, error = await client.error(method, {"taskId": "x"})

    assert (status, error["code"]) == (404, -32601)


async def test_a_tool_error_completes_a_task_and_a_protocol_error_fails_it(client: Modern):
    told = await client.until(await client.create("fail"), "completed", "failed")
    assert told["status"] == "completed"
    assert told["result"]["isError"] is True

    failed = await client.until(await client.create("crash"), "completed", "failed")
    assert failed["status"] == "failed"
    assert failed["error"] == {"code": 7, "message": "Cannot be done", "data": {"why": "x"}}
    assert "result" not in failed


async def test_a_task_waits_for_input_and_continues_with_the_answer(client: Modern, gate: Gate):
    task_id = await client.create("confirm", item="a.txt")
    task = await client.until(task_id, "input_required")

    ((key, ask),) = task["inputRequests"].items()
    assert ask["method"] == "elicitation/create"
    assert ask["params"]["message"] == "Delete a.txt?"

    ack = await client.raw("tasks/update", {"taskId": task_id, "inputResponses": {key: ACCEPTED}})
    assert set(ack) == {"resultType", "_meta"}
    task = await client.until(task_id, "completed")
    # The `once` value was kept over both rounds.
    assert task["result"]["content"][0]["text"] == "7: a.txt, True"
    assert "inputRequests" not in task


async def test_a_repeated_question_has_a_new_key(client: Modern):
    task_id = await client.create("confirm", item="x")
    first = set((await client.until(task_id, "input_required"))["inputRequests"])
    unfit = {key: {"action": "accept", "content": {"sure": "perhaps"}} for key in first}
    await client.raw("tasks/update", {"taskId": task_id, "inputResponses": unfit})

    async with asyncio.timeout(10):
        while True:
            second = set((await client.until(task_id, "input_required"))["inputRequests"])
            if second != first:
                break
    assert not first & second


async def test_partial_answers_are_accepted_and_unknown_ones_ignored(client: Modern):
    task_id = await client.create("both")
    await client.until(task_id, "input_required")

    given = {"a": ACCEPTED, "bogus": ACCEPTED}
    await client.raw("tasks/update", {"taskId": task_id, "inputResponses": given})
    task = await client.get(task_id)
    assert (task["status"], set(task["inputRequests"])) == ("input_required", {"b"})

    late = {"a": {"action": "decline"}, "b": ACCEPTED}
    await client.raw("tasks/update", {"taskId": task_id, "inputResponses": late})
    task = await client.until(task_id, "completed")
    assert task["result"]["content"][0]["text"] == "True True"


async def test_a_slow_call_becomes_a_task_after_its_questions(client: Modern, gate: Gate):
    asked = await client.raw("tools/call", {"name": "auto", "arguments": {}})
    assert asked["resultType"] == "input_required"
    assert "taskId" not in asked

    again = {
        "name": "auto",
        "arguments": {},
        "inputResponses": dict.fromkeys(asked["inputRequests"], ACCEPTED),
        "requestState": asked["requestState"],
    }
    made = await client.raw("tools/call", again)
    assert made["resultType"] == "task"
    assert not {"requestState", "inputRequests"} & set(made)

    gate.may_go_on.set()
    task = await client.until(made["taskId"], "completed")
    assert task["result"]["content"][0]["text"] == "auto True"


@pytest.mark.parametrize("meta", [{}, {"progressToken": "p"}])
async def test_a_call_that_became_a_task_reports_progress(
    client: Modern, gate: Gate, meta: dict[str, Any]
):
    """Progress is reported from the start of the call, with or without a progress token."""
    params = {"name": "grow", "arguments": {}, "_meta": meta}
    task_id = (await client.raw("tools/call", params))["taskId"]

    async def says(text: str) -> bool:
        return (await client.get(task_id)).get("statusMessage") == text

    await until(lambda: says("1 / 2"))
    gate.may_go_on.set()
    await until(lambda: says("grown"))
    await client.raw("tasks/cancel", {"taskId": task_id})


async def test_a_fast_call_does_not_become_a_task(client: Modern):
    assert (await client.call("swift"))["content"][0]["text"] == "no task"


async def test_cancelling_stops_the_handler_and_is_acknowledged_again(client: Modern, gate: Gate):
    task_id = await client.create("wait")
    await gate.has_begun.wait()

    for _ in range(2):
        ack = await client.raw("tasks/cancel", {"taskId": task_id})
        assert set(ack) == {"resultType", "_meta"}
    async with asyncio.timeout(10):
        await gate.was_interrupted.wait()
    assert (await client.get(task_id))["status"] == "cancelled"


async def test_another_principals_task_is_as_unknown_as_a_forged_id(server: MCPServer):
    own, other = Modern(server, principal=Person("a")), Modern(server, principal=Person("b"))
    task_id = await own.create("fail")
    legacy = Legacy(server, principal=Person("a"))
    await legacy.open()

    seen = set()
    for asking, wanted in ((other, task_id), (own, "x" * 32), (own, "\x00"), (own, "y" * 10_000)):
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            params = {"taskId": wanted, "inputResponses": {}}
            status, error = await asking.error(method, params)
            seen.add((status, error["code"], error["message"]))
    _, error = await legacy.error("tasks/get", {"taskId": task_id})
    seen.add((200, error["code"], error["message"]))
    assert len({each[1:] for each in seen}) == 1
    assert {each[1] for each in seen} == {-32602}


@pytest.mark.http_only("a pipe has no URL")
async def test_a_task_is_known_only_at_the_url_that_it_was_made_at(server: MCPServer):
    """The URL may name a tenant, in which the task would go on."""
    here, there = (
        Modern(server, principal=Person("a"), url_kwargs={"tenant": name})
        for name in ("home", "other")
    )
    task_id = await here.create("confirm", item="x")
    asked = await here.until(task_id, "input_required")
    (key,) = asked["inputRequests"]

    params = {"taskId": task_id, "inputResponses": {key: ACCEPTED}}
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        assert (await there.error(method, params))[1]["code"] == -32602
    stream = there.begin("subscriptions/listen", {"notifications": {"taskIds": [task_id]}}, id=7)
    assert (await stream.sink.message())["params"]["notifications"] == {"taskIds": []}
    stream.leave()
    assert (await here.get(task_id))["status"] == "input_required"

    await here.raw("tasks/update", params)
    done = await here.until(task_id, "completed")
    assert done["result"]["content"][0]["text"] == "7: x, True"


@pytest.mark.parametrize("task_id", [None, 5, ["x"], {}])
async def test_a_task_id_must_be_a_string(client: Modern, task_id: Any):
    _, error = await client.error("tasks/get", {"taskId": task_id}, mcp_name="x")

    assert error["code"] == -32602


@pytest.mark.parametrize("responses", [None, [], "x"])
async def test_task_answers_must_be_an_object(client: Modern, responses: Any):
    task_id = await client.create("confirm", item="x")
    params = {"taskId": task_id, "inputResponses": responses}
    _, error = await client.error("tasks/update", params)

    assert error["code"] == -32602


async def test_a_task_expires(server: MCPServer, client: Modern):
    now = server.engine.ports.clock()
    task_id = await client.create("fail")
    await client.until(task_id, "completed")
    server.clock = lambda: now + 86_401

    _, error = await client.error("tasks/get", {"taskId": task_id})
    assert error["code"] == -32602


async def test_the_number_of_tasks_is_limited_per_principal():
    server, gate = make_server(max_tasks_per_principal=2)
    client, other = Modern(server, principal=Person("a")), Modern(server, principal=Person("b"))
    for _ in range(2):
        await client.create("wait")

    _, error = await client.error("tools/call", {"name": "wait", "arguments": {}})
    assert "Too many tasks" in error["message"]
    await other.create("wait")
    gate.may_go_on.set()


async def test_listeners_receive_status_of_their_own_tasks_without_progress(
    server: MCPServer, gate: Gate
):
    client, other = Modern(server, principal=Person("a")), Modern(server, principal=Person("b"))
    own, foreign = await client.create("wait"), await other.create("wait")

    filter_ = {"taskIds": [own, foreign, "forged"]}
    stream = client.begin("subscriptions/listen", {"notifications": filter_}, id=7)
    ack = await stream.sink.message()
    assert ack["params"]["notifications"] == {"taskIds": [own]}
    first = await stream.sink.message()
    assert (first["method"], first["params"]["status"]) == ("notifications/tasks", "working")

    gate.may_go_on.set()
    last = first
    while last["params"]["status"] != "completed":
        last = await stream.sink.message()
        assert last["method"] == "notifications/tasks"
        assert last["params"]["taskId"] == own
    assert last["params"]["result"]["content"][0]["text"] == "done"
    assert last["params"]["_meta"][META + "subscriptionId"] == 7
    stream.leave()


@pytest.mark.parametrize("task_ids", ["x", [5], ["x"] * 101, {}])
async def test_an_invalid_task_filter_is_rejected(client: Modern, task_ids: Any):
    _, error = await client.error("subscriptions/listen", {"notifications": {"taskIds": task_ids}})

    assert error["code"] == -32602


async def leave(server: MCPServer, task_id: str) -> None:
    """Leave a task as a killed process does."""
    rounds = {"extended": MAX_EXTENSIONS}
    assert await advance(
        server.engine,
        task_id,
        lambda task, _now_s: replace(task, run="gone", lease_s=0.0, rounds=rounds),
    )


async def test_a_task_whose_lease_expired_fails(server: MCPServer, client: Modern, gate: Gate):
    task_id = await client.create("wait")
    await gate.has_begun.wait()
    await leave(server, task_id)

    task = await client.get(task_id)
    assert task["status"] == "failed"
    assert task["error"]["code"] == -32603

    # The late end of its run changes nothing.
    gate.may_go_on.set()
    await asyncio.sleep(0)
    assert (await client.get(task_id))["status"] == "failed"


async def test_an_idempotent_task_is_restarted(server: MCPServer, client: Modern, gate: Gate):
    runs = []

    @server.tool(task="allowed", idempotent=True)
    async def export() -> str:
        runs.append(1)
        await gate.may_go_on.wait()
        return f"run {len(runs)}"

    async def is_begun() -> bool:
        return len(runs) == 1

    async def is_begun_again() -> bool:
        return len(runs) == 2

    task_id = await client.create("export")
    await until(is_begun)
    await leave(server, task_id)
    await client.until(task_id, "working")
    await until(is_begun_again)
    gate.may_go_on.set()
    task = await client.until(task_id, "completed")
    assert task["result"]["content"][0]["text"] == "run 2"


async def test_the_last_progress_message_is_stored_with_the_end(
    server: MCPServer, client: Modern, gate: Gate
):
    @server.tool(task="allowed")
    async def count(ctx: Context[Any]) -> str:
        await ctx.aprogress(1, 3, "1 of 3")
        await gate.may_go_on.wait()
        await ctx.aprogress(3, 3, "3 of 3")
        return "done"

    task_id = await client.create("count")

    async def is_shown() -> bool:
        return (await client.get(task_id)).get("statusMessage") == "1 of 3"

    await until(is_shown)
    gate.may_go_on.set()

    assert (await client.until(task_id, "completed"))["statusMessage"] == "3 of 3"
