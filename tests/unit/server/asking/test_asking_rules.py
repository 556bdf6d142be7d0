"""What a handler may ask a client, and when, in revisions before input-required results."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_mcp.protocol.asks import InputRequired, ask_roots, ask_sampling_raw, ask_url
from django_mcp.protocol.revisions import Revision
from django_mcp.server.handlers.context import Context
from tests.support.server.plain import MCPServer
from tests.support.server.streams import StreamClient
from tests.support.wire import HANDSHAKE, V2025_06_18, V2025_11_25

ALL: dict[str, Any] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}},
    "roots": {},
}


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("tests", ask_timeout_s=5)

    @server.tool
    def where(ctx: Context[Any]) -> list[str]:
        return [root["uri"] for root in ctx.list_roots()]

    @server.tool
    async def awhere(ctx: Context[Any]) -> list[str]:
        return [root["uri"] for root in await ctx.alist_roots()]

    @server.tool
    def visit(ctx: Context[Any]) -> str:
        return ctx.elicit_url("Please sign in", "https://example.com/x").action

    @server.tool
    def mixed(ctx: Context[Any]) -> Any:
        return InputRequired({"a": ask_url("A", "https://example.com/a"), "b": ask_roots()})

    @server.tool
    def both_pages(ctx: Context[Any]) -> str:
        asks = {"a": ask_url("A", "https://example.com/a"), "b": ask_url("B", "https://b.example")}
        return str(ctx.ask(asks)["b"].action)

    @server.tool
    def guided(ctx: Context[Any], question: str = "Your site?", hint: str = "") -> str:
        field = {"type": "string", "format": "uri", "description": hint}
        return ctx.elicit(question, {"type": "object", "properties": {"site": field}}).action

    @server.tool
    def talk(ctx: Context[Any], options: dict[str, Any]) -> str:
        messages = [{"role": "user", "content": TEXT}]
        answer = ctx.sample_raw({"messages": messages, "maxTokens": 1, **options})
        return str(answer["content"])

    @server.tool
    async def pinged(ctx: Context[Any]) -> str:
        await ctx.ainfo("asking")
        return "pong" if await ctx.aping_client() is not None else "silence"

    return server


async def connect(server: MCPServer, revision: Revision, **capabilities: Any) -> StreamClient:
    client = StreamClient(server, revision)
    await client.open(capabilities or ALL)
    return client


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_no_client_request_is_sent_before_initialized(
    server: MCPServer, revision: Revision
) -> None:
    """Pings and log messages may be sent; a question waits for `initialized`."""
    client = StreamClient(server, revision)
    await client.open(ALL, is_ready=False)
    early = client.call_tool("pinged")
    logged, ping = await early.sink.message(), await early.sink.message()
    await client.respond(ping, result={})
    await early.answer()
    waiting = client.call_tool("awhere")
    await client.result("ping")
    # It runs until it waits.
    for _ in range(100):
        await asyncio.sleep(0)
    was_silent = waiting.sink.items.empty()
    await client.ready()
    asked = await waiting.sink.message()
    await client.respond(asked, result={"roots": []})

    assert (logged["method"], ping["method"]) == ("notifications/message", "ping")
    assert was_silent
    assert asked["method"] == "roots/list"
    assert (await waiting.answer())["result"]["content"][0]["text"] == "[]"


async def test_a_client_that_never_sends_initialized_gets_no_requests(
    server: MCPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_mcp.sessions.core.back_channel.INITIALIZED_WITHIN_S", 0.05)
    client = StreamClient(server, V2025_11_25)
    await client.open(ALL, is_ready=False)
    call = client.call_tool("where")
    result = (await call.answer())["result"]

    assert result["isError"] is True
    assert "notifications/initialized" in result["content"][0]["text"]
    assert call.sink.items.empty()


@pytest.mark.http_only("on a pipe it can be asked")
async def test_url_elicitations_are_listed_in_an_error_without_a_stream(server: MCPServer) -> None:
    """The error lists URLs only, each with its id; clients without URL elicitation get none."""
    error = await refusal_of(server, V2025_11_25, "both_pages", ALL)
    shown = error["data"]["elicitations"]

    assert error["code"] == -32042
    assert [(each["mode"], each["url"]) for each in shown] == [
        ("url", "https://example.com/a"),
        ("url", "https://b.example"),
    ]
    assert len({each["elicitationId"] for each in shown}) == 2
    for revision, tool, capabilities in (
        (V2025_06_18, "visit", ALL),
        (V2025_11_25, "visit", {"elicitation": {}}),
        (V2025_11_25, "where", ALL),
        (V2025_11_25, "mixed", ALL),
    ):
        result = await refusal_of(server, revision, tool, capabilities)
        assert result["isError"] is True


async def refusal_of(
    server: MCPServer, revision: Revision, tool: str, capabilities: dict[str, Any]
) -> Any:
    """Return the error, or result, of a call on a session that nothing can be streamed to."""
    client = StreamClient(server, revision, streams=False)
    await client.open(capabilities)
    _, body = await client.send("tools/call", {"name": tool, "arguments": {}})
    return body.get("error") or body["result"]


@pytest.mark.parametrize(
    ("options", "capabilities", "is_asked"),
    [
        ({"tools": [], "toolChoice": {"mode": "auto"}}, {"sampling": {}}, False),
        ({"toolChoice": {"mode": "none"}}, {"sampling": {"context": {}}}, False),
        ({"tools": []}, {"sampling": {"tools": {}}}, True),
    ],
)
async def test_sampling_with_tools_requires_the_capability(
    server: MCPServer, options: dict[str, Any], capabilities: dict[str, Any], is_asked: bool
) -> None:
    client = await connect(server, V2025_11_25, **capabilities)
    call = client.call_tool("talk", {"options": options})
    if not is_asked:
        assert (await call.answer())["result"]["isError"] is True
        assert call.sink.items.empty()
        return
    asked = await call.sink.message()
    blocks = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    reply = {"role": "assistant", "content": blocks, "model": "m", "stopReason": "endTurn"}
    await client.respond(asked, result=reply)

    assert asked["params"]["tools"] == []
    # The result has one block or several.
    assert (await call.answer())["result"]["content"][0]["text"] == str(blocks)


@pytest.mark.parametrize(
    ("revision", "capability", "is_sent"),
    [
        (V2025_11_25, {}, False),
        (V2025_11_25, {"tools": {}}, False),
        (V2025_11_25, {"context": {}}, True),
        (V2025_06_18, {}, True),
    ],
)
async def test_include_context_requires_the_capability(
    server: MCPServer, revision: Revision, capability: dict[str, Any], is_sent: bool
) -> None:
    """Left out, since the model can do without; older revisions have nothing to declare."""
    client = await connect(server, revision, sampling=capability)
    call = client.call_tool("talk", {"options": {"includeContext": "allServers"}})
    asked = await call.sink.message()
    await client.respond(asked, error={"code": -1, "message": "No"})
    await call.answer()

    assert ("includeContext" in asked["params"]) is is_sent


USE: dict[str, Any] = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "u", "name": "t", "input": {}}],
}
RESULT = {"type": "tool_result", "toolUseId": "u", "content": []}
TEXT = {"type": "text", "text": "x"}


def said(*blocks: Any, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


@pytest.mark.parametrize(
    "messages",
    [
        [USE],
        [USE, said(TEXT)],
        [USE, said(TEXT), said(RESULT)],
        [USE, said(RESULT, TEXT)],
        [USE, said({**RESULT, "toolUseId": "v"})],
        [USE, said(RESULT, RESULT)],
        [USE, said(RESULT, role="assistant")],
        [said(RESULT)],
        [said(*USE["content"], role="user"), said(RESULT)],
        [said(*USE["content"], {**USE["content"][0], "id": "w"}, role="assistant"), said(RESULT)],
    ],
)
def test_each_tool_use_is_directly_followed_by_its_result(messages: Any) -> None:
    with pytest.raises(ValueError, match=r"messages\[|have no results"):
        ask_sampling_raw({"messages": messages, "maxTokens": 1})


def test_a_tool_use_with_its_result_can_be_sent_in_sampling() -> None:
    single = {"role": "user", "content": RESULT}
    messages = [said(TEXT), USE, single, said(TEXT, role="assistant"), USE, said(RESULT)]

    ask = ask_sampling_raw({"messages": messages, "maxTokens": 1})

    assert ask.params is not None
    assert ask.params["messages"] == messages
    assert ask.kind == "sampling.tools"


@pytest.mark.parametrize(
    ("arguments", "is_told"),
    [
        ({}, False),
        ({"question": "See HTTPS://evil.example"}, True),
        ({"hint": "as http://x.example"}, True),
    ],
)
async def test_a_url_in_a_form_is_reported(
    server: MCPServer, caplog: pytest.LogCaptureFixture, arguments: dict[str, str], is_told: bool
) -> None:
    client = await connect(server, V2025_11_25)
    call = client.call_tool("guided", arguments)
    await client.respond(await call.sink.message(), result={"action": "cancel"})
    await call.answer()

    assert ("guided asks with shows an address" in caplog.text) is is_told
    assert "example" not in caplog.text
