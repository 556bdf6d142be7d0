"""Requests to the client on the stream of a call, in revisions before input-required results."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from django_mcp.protocol.asks import InputRequired, ask_form, ask_roots
from django_mcp.protocol.json import encode
from django_mcp.protocol.revisions import Revision
from django_mcp.server.asking.questions import MAX_UNFIT
from django_mcp.server.exchange.call import AskFailed
from django_mcp.server.exchange.quotas import Limits, QuotaReached, QuotaScope
from django_mcp.server.exchange.session import Session
from django_mcp.server.handlers.context import Context
from django_mcp.sessions.core.memory import MemoryPendingResponses
from tests.support.ports import use_ports
from tests.support.server.plain import MCPServer
from tests.support.server.streams import StreamClient
from tests.support.wire import HANDSHAKE, V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25

ALL: dict[str, Any] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}},
    "roots": {},
}


@dataclass
class Confirmation:
    sure: bool
    note: str = ""


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("tests", ask_timeout_s=5)

    @server.tool
    def order(ctx: Context[Any], item: str) -> str:
        number = ctx.once("number", lambda: 7)
        answer = ctx.elicit(f"Order {item}?", Confirmation)
        if not answer.is_accepted:
            return f"not ordered: {answer.action}"
        return f"order {number}: {item}, {answer.data.sure}, {answer.data.note}"

    @server.tool
    async def write(ctx: Context[Any]) -> str:
        answer = await ctx.asample("A poem", max_tokens=10)
        return answer.text

    @server.tool
    def where(ctx: Context[Any]) -> list[str]:
        return [root["uri"] for root in ctx.list_roots()]

    @server.tool
    def visit(ctx: Context[Any]) -> str:
        return ctx.elicit_url("Please sign in", "https://example.com/x").action

    @server.tool
    def both(ctx: Context[Any]) -> Any:
        if not ctx.is_resubmit:
            asks = {"sure": ask_form("Sure?", Confirmation), "roots": ask_roots()}
            return InputRequired(asks, state={"round": 1})
        form = ctx.input_response_as(Confirmation, "sure")
        return f"{form} {len(ctx.input_responses['roots']['roots'])} {ctx.request_state}"

    @server.tool
    def careful(ctx: Context[Any]) -> str:
        try:
            ctx.list_roots()
        except AskFailed as error:
            return f"failed {error.code}"
        return "?"

    return server


async def connect(server: MCPServer, revision: Revision, **capabilities: Any) -> StreamClient:
    client = StreamClient(server, revision)
    await client.open(capabilities or ALL)
    return client


@pytest.mark.parametrize("revision", [V2025_06_18, V2025_11_25])
async def test_a_form_elicitation_returns_its_content(
    server: MCPServer, revision: Revision
) -> None:
    """The handler runs again with the answer; `once` blocks are not repeated."""
    client = await connect(server, revision)
    call = client.call_tool("order", {"item": "mug"})
    asked = await call.sink.message()
    await client.respond(
        asked, result={"action": "accept", "content": {"sure": True, "note": "soon"}}
    )

    assert asked["method"] == "elicitation/create"
    assert asked["params"]["message"] == "Order mug?"
    assert ("mode" in asked["params"]) is (revision is V2025_11_25)
    assert (await call.answer())["result"]["content"][0]["text"] == "order 7: mug, True, soon"


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_user_may_decline(server: MCPServer, action: str) -> None:
    client = await connect(server, V2025_11_25)
    call = client.call_tool("order", {"item": "mug"})
    await client.respond(await call.sink.message(), result={"action": action})

    assert (await call.answer())["result"]["content"][0]["text"] == f"not ordered: {action}"


@pytest.mark.parametrize(
    "unfit",
    [
        {"action": "accept", "content": {"sure": "perhaps"}},
        {"action": "maybe"},
        {},
        [],
        None,
        "yes",
    ],
)
async def test_an_invalid_answer_is_asked_for_again(server: MCPServer, unfit: Any) -> None:
    client = await connect(server, V2025_11_25)
    call = client.call_tool("order", {"item": "mug"})
    await client.respond(await call.sink.message(), result=unfit)
    again = await call.sink.message()
    await client.respond(again, result={"action": "accept", "content": {"sure": False}})

    assert again["method"] == "elicitation/create"
    assert "order 7" in (await call.answer())["result"]["content"][0]["text"]


async def test_a_client_with_only_invalid_answers_is_not_asked_again(server: MCPServer) -> None:
    client = await connect(server, V2025_11_25)
    call = client.call_tool("order", {"item": "mug"})
    for _ in range(MAX_UNFIT):
        await client.respond(await call.sink.message(), result={"action": "maybe"})

    result = (await call.answer())["result"]
    assert result["isError"] is True
    assert result["content"][0]["text"] == (
        f"None of {MAX_UNFIT} answers to elicitation/create fitted:\n\n"
        "- the action must be accept, decline or cancel"
    )


@pytest.mark.parametrize(
    ("tool", "answer"),
    [
        ("write", {"foo": 1}),
        ("write", {"role": 7, "content": {"type": "text", "text": "x"}}),
        ("write", {"role": "user", "content": 5}),
        ("write", {"role": "user", "content": [{"type": "text"}, 5]}),
        ("where", {"roots": 5}),
        ("where", {"roots": [5]}),
        ("where", {"roots": [{"uri": 7}]}),
    ],
)
async def test_an_invalid_sampling_or_roots_result_is_retried_once(
    server: MCPServer, tool: str, answer: Any
) -> None:
    client = await connect(server, V2025_11_25)
    call = client.call_tool(tool)
    for _ in range(2):
        await client.respond(await call.sink.message(), result=answer)

    result = (await call.answer())["result"]
    assert result["isError"] is True
    assert "None of 2 answers to" in result["content"][0]["text"]


@pytest.mark.parametrize(
    ("tool", "declared", "missing"),
    [
        ("visit", {"elicitation": {}}, "elicitation.url"),
        ("order", {"elicitation": {"url": {}}}, "elicitation.form"),
    ],
)
async def test_the_error_names_the_capability_to_declare(
    server: MCPServer, tool: str, declared: dict[str, Any], missing: str
) -> None:
    client = await connect(server, V2025_11_25, **declared)

    arguments = {"item": "mug"} if tool == "order" else {}
    result = (await client.call_tool(tool, arguments).answer())["result"]

    assert (
        f"which did not declare {missing}. Use a client that does."
        in (result["content"][0]["text"])
    )


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_sampling_asks_the_clients_model(server: MCPServer, revision: Revision) -> None:
    client = await connect(server, revision)
    call = client.call_tool("write")
    asked = await call.sink.message()
    await client.respond(
        asked,
        result={"role": "assistant", "content": {"type": "text", "text": "Roses"}, "model": "m"},
    )

    assert asked["method"] == "sampling/createMessage"
    assert asked["params"]["maxTokens"] == 10
    assert (await call.answer())["result"]["content"][0]["text"] == "Roses"


async def test_roots_are_requested_from_the_client(server: MCPServer) -> None:
    client = await connect(server, V2025_03_26)
    call = client.call_tool("where")
    asked = await call.sink.message()
    await client.respond(asked, result={"roots": [{"uri": "file:///home"}]})

    assert asked["method"] == "roots/list"
    assert (await call.answer())["result"]["content"][0]["text"] == '["file:///home"]'


async def test_url_elicitation_works_in_revisions_that_have_it(server: MCPServer) -> None:
    client = await connect(server, V2025_11_25)
    call = client.call_tool("visit")
    asked = await call.sink.message()
    await client.respond(asked, result={"action": "accept"})
    older = await connect(server, V2025_06_18)
    refused = await older.call("visit")

    assert asked["params"]["mode"] == "url"
    assert asked["params"]["elicitationId"]
    assert (await call.answer())["result"]["content"][0]["text"] == "accept"
    assert refused["isError"] is True


async def test_a_handler_that_controls_the_rounds_works_the_same(server: MCPServer) -> None:
    client = await connect(server, V2025_11_25)
    call = client.call_tool("both")
    for _ in range(2):
        asked = await call.sink.message()
        result: dict[str, Any] = {"roots": [{"uri": "file:///a"}]}
        if asked["method"] == "elicitation/create":
            result = {"action": "accept", "content": {"sure": True}}
        await client.respond(asked, result=result)
    text = (await call.answer())["result"]["content"][0]["text"]

    assert text == "Confirmation(sure=True, note='') 1 {'round': 1}"


@pytest.mark.parametrize(
    ("revision", "capabilities", "tool"),
    [
        (V2025_11_25, {"roots": {}}, "order"),
        (V2025_11_25, {"elicitation": {"url": {}}}, "order"),
        (V2025_11_25, {"elicitation": {}}, "visit"),
        (V2024_11_05, ALL, "order"),
        (V2025_11_25, {"elicitation": {}}, "write"),
    ],
)
async def test_a_client_is_asked_only_for_declared_capabilities(
    server: MCPServer, revision: Revision, capabilities: dict[str, Any], tool: str
) -> None:
    """Nothing is sent, and the error says what is missing."""
    client = await connect(server, revision, **capabilities)
    call = client.call_tool(tool, {"item": "mug"} if tool == "order" else {})
    result = (await call.answer())["result"]

    assert result["isError"] is True
    assert "client" in result["content"][0]["text"]
    assert call.sink.items.empty()


async def test_a_clients_error_reaches_the_handler(server: MCPServer) -> None:
    client = await connect(server, V2025_11_25)
    caught = client.call_tool("careful")
    await client.respond(await caught.sink.message(), error={"code": -1, "message": "No"})
    steered = await caught.answer()
    uncaught = client.call_tool("write")
    await client.respond(await uncaught.sink.message(), error={"code": -1, "message": "No"})

    assert steered["result"]["content"][0]["text"] == "failed -1"
    told = (await uncaught.answer())["result"]
    assert told["isError"] is True
    assert "No" in told["content"][0]["text"]


async def test_an_answer_over_1_mib_is_rejected_and_fails_the_request(
    server: MCPServer,
) -> None:
    """It may have to be stored until the asking process fetches it."""
    client = await connect(server, V2025_11_25)
    call = client.call_tool("careful", {})
    asked = await call.sink.message()
    large = {"roots": [{"uri": "file:///" + "x" * 1024 * 1024}]}
    headers = {"mcp-protocol-version": V2025_11_25.name, "mcp-session-id": client.session_id or ""}
    body = {"jsonrpc": "2.0", "id": asked["id"], "result": large}
    reply = await client.post(encode(body), headers)

    assert b"larger than 1 MiB" in (reply.body or b"")
    assert (await call.answer())["result"]["content"][0]["text"] == "failed -32600"


@pytest.mark.http_only("a pipe has one client")
async def test_a_tool_that_cannot_ask_returns_an_error(
    server: MCPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = Limits(own_count=1, own_bytes=0, count=1, bytes=0)
    monkeypatch.setattr("django_mcp.sessions.core.memory.QUESTION_LIMITS", limits)
    use_ports(server, pending_responses=MemoryPendingResponses())
    client, other = await connect(server, V2025_11_25), await connect(server, V2025_11_25)
    call = client.call_tool("where")
    asked = await call.sink.message()
    refused = (await other.call_tool("where").answer())["result"]
    await client.respond(asked, result={"roots": []})
    await call.answer()
    again = other.call_tool("where")
    await other.respond(await again.sink.message(), result={"roots": []})

    assert refused["isError"] is True
    assert "cannot be asked now" in refused["content"][0]["text"]
    assert "isError" not in (await again.answer())["result"]


class FullRelay:
    """Has no room for a response that another process waits for."""

    async def put(self, session: Session, ask_id: str, response: Any) -> bool:
        raise QuotaReached(QuotaScope.OWN)

    async def take(self, session: Session, ask_id: str) -> None:
        return None


@pytest.mark.http_only("a pipe has no other processes")
async def test_an_answer_that_cannot_be_stored_is_rejected(server: MCPServer) -> None:
    pending = MemoryPendingResponses()
    use_ports(server, pending_responses=pending)
    pending.relay = FullRelay()
    client = await connect(server, V2025_11_25)
    headers = {"mcp-protocol-version": V2025_11_25.name, "mcp-session-id": client.session_id or ""}
    body = {"jsonrpc": "2.0", "id": "elsewhere", "result": {}}
    reply = await client.post(encode(body), headers)

    assert (reply.status, [name for name, _ in reply.headers]) == (429, [b"retry-after"])


async def test_waiting_for_a_client_answer_times_out() -> None:
    """The client is notified which request was cancelled."""
    server = MCPServer("tests", ask_timeout_s=0.05)

    @server.tool
    def where(ctx: Context[Any]) -> list[Any]:
        return ctx.list_roots()

    client = await connect(server, V2025_11_25)
    call = client.call_tool("where")
    asked, cancelled = await call.sink.message(), await call.sink.message()
    result = (await call.answer())["result"]

    assert cancelled["method"] == "notifications/cancelled"
    assert cancelled["params"]["requestId"] == asked["id"]
    assert result["isError"] is True
    assert "in time" in result["content"][0]["text"]


async def test_answers_from_other_sessions_are_ignored(server: MCPServer) -> None:
    """Another session, a request never made, an answer twice, an id of another type."""
    client, other = await connect(server, V2025_11_25), await connect(server, V2025_11_25)
    call = client.call_tool("order", {"item": "mug"})
    asked = await call.sink.message()
    yes = {"action": "accept", "content": {"sure": True}}
    await other.respond(asked, result=yes)
    for id in ("ask-of-nobody", 1, 0):
        await client.respond({"id": id}, result=yes)
    await asyncio.sleep(0)
    assert not call.task.done()
    await client.respond(asked, result={"action": "decline"})
    await client.respond(asked, result=yes)

    assert (await call.answer())["result"]["content"][0]["text"] == "not ordered: decline"


@pytest.mark.http_only("on a pipe what is cancelled is not answered: test_process of stdio")
async def test_cancelling_a_call_cancels_its_client_request(server: MCPServer) -> None:
    client = await connect(server, V2025_11_25)
    call = client.call_tool("order", {"item": "mug"})
    asked = await call.sink.message()
    await client.tell(
        {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": "call"},
        }
    )
    cancelled = await call.sink.message()

    assert cancelled["params"]["requestId"] == asked["id"]
    assert "error" in await call.answer()


@pytest.mark.http_only("several calls on one pipe cannot be told apart by where a question comes")
async def test_server_request_ids_are_never_reused(server: MCPServer) -> None:
    client = await connect(server, V2025_11_25)
    calls = [
        client.begin("tools/call", {"name": "where", "arguments": {}}, id=f"c{n}")
        for n in range(20)
    ]
    asked = [await call.sink.message() for call in calls]
    for call, each in zip(calls, asked, strict=True):
        await client.respond(each, result={"roots": []})
        await call.answer()

    assert len({each["id"] for each in asked}) == 20
