"""`ctx.sample`: typed in and out, checked, in every revision."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp.protocol.asks import InputRequired, ask_form, ask_sampling
from django_mcp.protocol.revisions import REVISIONS, Revision
from django_mcp.protocol.sampling import ModelPreferences, SamplingMessage, SamplingResult
from django_mcp.server.asking.round_trips import Elicited
from django_mcp.server.handlers.context import Context
from tests.support.server.plain import MCPServer
from tests.support.server.streams import StreamClient
from tests.support.wire import HANDSHAKE, V2026_07_28, WireClient

SAID = {
    "role": "assistant",
    "content": {"type": "text", "text": "roses"},
    "model": "m-1",
    "stopReason": "endTurn",
}
DECLARED: dict[str, Any] = {
    "io.modelcontextprotocol/clientCapabilities": {"sampling": {}, "elicitation": {}}
}


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("tests", ask_timeout_s=5)

    @server.tool
    def write(ctx: Context[Any]) -> str:
        written = ctx.sample(
            [SamplingMessage("A poem")],
            max_tokens=9,
            system_prompt="Rhyme.",
            model_preferences=ModelPreferences(hints=["m"]),
        )
        return f"{written.text} {written.model} {written.stop_reason}"

    @server.tool
    async def awrite(ctx: Context[Any]) -> str:
        return (await ctx.asample("A poem", max_tokens=9)).text

    @server.tool
    def write_raw(ctx: Context[Any]) -> str:
        return str(ctx.sample_raw({"messages": [], "maxTokens": 9, "later": 1})["model"])

    @server.tool
    async def awrite_raw(ctx: Context[Any]) -> str:
        return str((await ctx.asample_raw({"messages": [], "maxTokens": 9}))["model"])

    @server.tool
    def misspelled(ctx: Context[Any]) -> str:
        return ctx.sample("A poem", max_tokens=9, systemPrompt="Rhyme.").text  # type: ignore[call-arg]

    @server.tool
    def steer(ctx: Context[Any]) -> Any:
        if not ctx.is_resubmit:
            return InputRequired(
                {
                    "poem": ask_sampling("A poem", max_tokens=9),
                    "sure": ask_form("Sure?", {"type": "object"}),
                }
            )
        poem = ctx.input_response_as(SamplingResult, "poem")
        sure = ctx.input_response_as(Elicited, "sure")
        return f"{poem.text if poem else None} {sure.action if sure is not None else None}"

    return server


@pytest.mark.parametrize("revision", HANDSHAKE)
@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ("write", "roses m-1 endTurn"),
        ("awrite", "roses"),
        ("write_raw", "m-1"),
        ("awrite_raw", "m-1"),
    ],
)
async def test_sampling_returns_a_typed_result(
    server: MCPServer, revision: Revision, tool: str, text: str
) -> None:
    client = StreamClient(server, revision)
    await client.open({"sampling": {}})
    call = client.call_tool(tool)
    asked = await call.sink.message()
    await client.respond(asked, result=SAID)

    assert asked["params"]["maxTokens"] == 9
    assert (await call.answer())["result"]["content"][0]["text"] == text
    if tool == "write":
        assert asked["params"]["systemPrompt"] == "Rhyme."
        assert asked["params"]["modelPreferences"] == {"hints": [{"name": "m"}]}
    if tool == "write_raw":
        assert asked["params"]["later"] == 1


async def test_an_invalid_sampling_result_fails_the_call_after_a_second_attempt(
    server: MCPServer,
) -> None:
    client = StreamClient(server, HANDSHAKE[-1])
    await client.open({"sampling": {}})
    call = client.call_tool("write")
    for _ in range(2):
        await client.respond(await call.sink.message(), result={**SAID, "model": None})
    result = (await call.answer())["result"]

    assert result["isError"] is True
    assert "its model and its stopReason must be strings" in result["content"][0]["text"]


async def test_a_misspelled_parameter_sends_no_request(server: MCPServer) -> None:
    client = StreamClient(server, HANDSHAKE[-1])
    await client.open({"sampling": {}})
    call = client.call_tool("misspelled")

    assert (await call.answer())["result"]["isError"] is True
    assert call.sink.items.empty()


async def test_an_input_response_parses_as_a_sampling_or_form_result(
    server: MCPServer,
) -> None:
    client = WireClient(server, V2026_07_28)
    call = {"name": "steer", "arguments": {}, "_meta": DECLARED}
    first = await client.result("tools/call", call)
    last = await client.result(
        "tools/call",
        {
            **call,
            "requestState": first["requestState"],
            "inputResponses": {"poem": SAID, "sure": {"action": "decline"}},
        },
    )

    assert last["content"][0]["text"] == "roses decline"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_context_reports_whether_the_revision_is_stateless(revision: Revision) -> None:
    server = MCPServer("tests")

    @server.tool
    def ask(ctx: Context[Any]) -> bool:
        return ctx.is_stateless

    answer = await WireClient(server, revision).result("tools/call", {"name": "ask"})

    assert answer["content"][0]["text"] == ("true" if revision is V2026_07_28 else "false")
