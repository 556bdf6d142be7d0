"""Strict mode: invalid messages are rejected on input, and detected on output."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_mcp.protocol.json import encode
from django_mcp.protocol.results import ToolResult
from django_mcp.protocol.revisions import REVISIONS
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.handlers.context import Context
from tests.support.server.plain import MCPServer
from tests.support.wire import V2024_11_05, V2025_11_25, V2026_07_28, WireClient
from tests.unit.server import test_any_output as outputs

META = "io.modelcontextprotocol/"


@pytest.fixture(scope="module")
def server() -> MCPServer:
    server = MCPServer("tests", strict=True, mode="stateless")

    @server.tool
    async def give() -> Any:
        return outputs.Given.value

    @server.tool
    async def ask(ctx: Context[Any]) -> str:
        return str((await ctx.aelicit("?", {"type": "object"})).action)

    @server.tool
    async def tell(ctx: Context[Any]) -> str:
        wrong: Any = 7
        await ctx.aprogress(1, 2)
        await ctx.alog("info", "begun", logger=wrong)
        return "told"

    @server.resource("x://give")
    async def read() -> Any:
        return outputs.Given.value

    @server.resource("x://of/{number}")
    async def of(number: int) -> str:
        return str(number)

    @server.prompt
    async def fill(a: str = "") -> Any:
        return outputs.Given.value

    @server.completion(fill, "a")
    async def propose(value: str) -> Any:
        return outputs.Given.value

    return server


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("method", "returned"), outputs.CALLED, ids=[method for method, _ in outputs.CALLED]
)
@settings(max_examples=25)
@given(data=st.data())
async def test_valid_messages_pass(
    server: MCPServer, revision: Any, method: str, returned: Any, data: Any
):
    outputs.Given.value = data.draw(returned)

    await WireClient(server, revision).result(method, outputs.PARAMS[method])


@pytest.mark.parametrize("revision", REVISIONS)
async def test_every_method_can_be_used(server: MCPServer, revision: Any):
    client = WireClient(server, revision)
    for method in set(revision.methods) - outputs.UNSENT:
        outputs.Given.value = ["x"] if method == "completion/complete" else "x"
        params = outputs.PARAMS.get(method)
        if method == "initialize":
            params = {**outputs.SETTLED, "protocolVersion": revision.name}
        await client.result(method, params)


@pytest.mark.parametrize(
    ("method", "params", "named"),
    [
        ("tools/list", {"cursor": 5}, "/cursor"),
        ("tools/list", {"_meta": {"progressToken": 1.5}}, "/_meta/progressToken"),
        ("tools/call", {"name": "give", "inputResponses": 5}, "/inputResponses"),
        ("prompts/get", {"name": "fill", "arguments": {"a": 5}}, "/arguments/a"),
        ("server/discover", {"_meta": {META + "clientInfo": {"name": "x"}}}, "version"),
        ("server/discover", {"_meta": {"traceparent": 5}}, "/_meta/traceparent"),
        ("server/discover", {"_meta": {META + "clientCapabilities": {"roots": []}}}, "roots"),
        (
            "server/discover",
            {"_meta": {META + "clientCapabilities": {"elicitation": {"url": 1}}}},
            "elicitation/url",
        ),
        (
            "server/discover",
            {"_meta": {META + "clientCapabilities": {"extensions": {"noprefix": {}}}}},
            "extensions",
        ),
    ],
)
async def test_invalid_client_messages_are_rejected(
    server: MCPServer, method: str, params: dict[str, Any], named: str
):
    client = WireClient(server, V2026_07_28)

    _, error = await client.error(method, params)

    assert error["code"] == -32602
    assert named in error["message"]


async def test_a_handshake_requires_client_info(server: MCPServer):
    opening = {"protocolVersion": V2025_11_25.name, "capabilities": {}}

    _, error = await WireClient(server, V2025_11_25).error("initialize", opening)

    assert (error["code"], "/clientInfo" in error["message"]) == (-32602, True)


async def test_notifications_are_validated_too(server: MCPServer):
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1.5}}

    answer = await server.handle_raw(encode(note), connection=ConnectionState(V2025_11_25))

    assert "-32602" in answer


@pytest.mark.http_only("a pipe has no header that could be missing")
async def test_a_notification_without_a_version_is_validated_as_a_request_without_one():
    server = MCPServer(
        "tests", strict=True, mode="stateless", revisions=[V2025_11_25.name, V2026_07_28.name]
    )
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}}
    client = WireClient(server, V2025_11_25)

    # The id is optional at 2025-11-25 alone, and pings are not in 2026-07-28.
    assert (await client.send("ping", drop="mcp-protocol-version"))[0] == 200
    assert (await client.post(encode(note), {})).status == 202
    assert (
        await client.post(encode(note), {"mcp-protocol-version": V2026_07_28.name})
    ).status == 400


async def test_a_valid_input_required_result_passes(server: MCPServer):
    meta: dict[str, Any] = {META + "clientCapabilities": {"elicitation": {}}}
    client = WireClient(server, V2026_07_28)

    first = await client.result("tools/call", {"name": "ask", "_meta": meta})

    assert first["resultType"] == "input_required"


class Crooked(ToolResult):
    """A result with a field unknown to every revision."""

    def to_wire(self) -> dict[str, Any]:
        return {"content": [{"type": "hologram"}], "isError": "perhaps"}


@pytest.mark.parametrize("revision", [V2024_11_05, V2026_07_28])
async def test_invalid_server_messages_are_detected(
    server: MCPServer, revision: Any, caplog: pytest.LogCaptureFixture
):
    outputs.Given.value = Crooked()

    _, error = await WireClient(server, revision).error("tools/call", {"name": "give"})

    assert error["code"] == -32603
    assert "/content/0/type" in caplog.text
    assert "/isError" in caplog.text


async def test_without_strict_mode_nothing_is_rejected():
    lax = MCPServer("tests", mode="stateless")

    @lax.tool
    async def crooked() -> Any:
        return Crooked()

    _, body = await WireClient(lax, V2026_07_28).send("tools/call", {"name": "crooked"})

    assert body["result"]["content"] == [{"type": "hologram"}]


async def test_an_invalid_message_is_not_sent(server: MCPServer, caplog: pytest.LogCaptureFixture):
    client = WireClient(server, V2026_07_28)
    meta: dict[str, Any] = {"progressToken": "t", f"{META}logLevel": "debug"}
    await client.result("tools/call", {"name": "tell", "_meta": meta})

    assert [each["method"] for each in client.sink.messages] == ["notifications/progress"]
    assert "/logger" in caplog.text
