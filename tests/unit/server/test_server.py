"""Messages that the caller reads and writes itself: `handle_raw`, and the capabilities."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_mcp.protocol.errors import ProtocolError
from django_mcp.protocol.json import JSONObject, decode, encode
from django_mcp.protocol.revisions import Revision
from django_mcp.server.exchange.call import AskFailed
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.handlers.context import Context
from tests.support.server.plain import MCPServer
from tests.support.wire import HANDSHAKE, V2025_11_25, V2026_07_28, WireClient, message

CAN_DO: dict[str, Any] = {"elicitation": {}, "roots": {}, "sampling": {}}
FORM = {"type": "object", "properties": {"colour": {"type": "string"}}}


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("tests", ask_timeout_s=5)

    @server.tool
    def paint(ctx: Context[Any]) -> str:
        ctx.progress(1, 2)
        answer = ctx.elicit("Which colour?", FORM)
        root = ctx.list_roots()[0]["uri"]
        return f"{answer.content} {root} {ctx.ping_client() is not None}"

    @server.tool
    async def where(ctx: Context[Any]) -> str:
        try:
            return str(await ctx.alist_roots())
        except AskFailed as error:
            return f"failed {error.code}: {error}"

    @server.resource("text://plain")
    def plain() -> str:
        return "plain"

    return server


async def connect(server: MCPServer, revision: Revision) -> ConnectionState:
    connection = ConnectionState()
    hello = {"protocolVersion": revision.name, "capabilities": CAN_DO, "clientInfo": {}}
    opened = message("initialize", hello, revision=revision)
    await server.handle_raw(encode(opened), connection=connection)
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert await server.handle_raw(encode(ready), connection=connection) == ""
    return connection


def call(name: str, **meta: Any) -> bytes:
    params: dict[str, Any] = {"name": name, "arguments": {}}
    return encode(message("tools/call", {**params, "_meta": meta}, revision=V2025_11_25))


async def test_a_handler_asks_the_client_through_the_callers_function(server: MCPServer):
    connection = await connect(server, V2025_11_25)
    asked: list[tuple[str, JSONObject | None]] = []
    told: list[str] = []

    async def ask(method: str, params: JSONObject | None) -> JSONObject:
        asked.append((method, params))
        if method == "elicitation/create":
            return {"action": "accept", "content": {"colour": "red"}}
        return {"roots": [{"uri": "file:///a"}]} if method == "roots/list" else {}

    async def tell(text: str) -> None:
        told.append(text)

    answer = await server.handle_raw(
        call("paint", progressToken=1), connection=connection, sink=tell, server_request=ask
    )

    assert decode(answer)["result"]["content"][0]["text"] == "{'colour': 'red'} file:///a True"
    assert [method for method, _ in asked] == ["elicitation/create", "roots/list", "ping"]
    assert asked[0][1] is not None
    assert asked[0][1]["message"] == "Which colour?"
    assert decode(told[0])["method"] == "notifications/progress"


async def test_an_error_of_the_function_is_a_client_error(server: MCPServer):
    async def refuse(method: str, params: JSONObject | None) -> JSONObject:
        raise ProtocolError("Not now", code=-1)

    answer = await server.handle_raw(
        call("where"), connection=await connect(server, V2025_11_25), server_request=refuse
    )

    told = decode(answer)["result"]["content"][0]["text"]
    assert told == "failed -1: The client refused to answer: Not now"


async def test_a_function_that_does_not_return_is_cancelled():
    server = MCPServer("tests", ask_timeout_s=0.05)
    cancelled = asyncio.Event()

    @server.tool
    async def where(ctx: Context[Any]) -> str:
        return str(await ctx.alist_roots())

    async def hang(method: str, params: JSONObject | None) -> JSONObject:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return {}

    answer = await server.handle_raw(
        call("where"), connection=await connect(server, V2025_11_25), server_request=hang
    )

    assert decode(answer)["result"]["isError"] is True
    assert cancelled.is_set()


async def test_without_a_function_the_client_cannot_be_asked(server: MCPServer):
    connection = await connect(server, V2025_11_25)

    answer = await server.handle_raw(call("where"), connection=connection)

    assert "Use a newer client" in decode(answer)["result"]["content"][0]["text"]


@pytest.mark.parametrize("revision", [*HANDSHAKE, V2026_07_28])
async def test_capabilities_equal_those_sent_to_a_client(server: MCPServer, revision: Revision):
    client = WireClient(server, revision)
    if revision is V2026_07_28:
        told = await client.result("server/discover")
    else:
        hello = {"protocolVersion": revision.name, "capabilities": {}, "clientInfo": {}}
        told = await client.result("initialize", hello)

    assert server.capabilities(revision.name) == told["capabilities"]
    assert {"tools", "resources", "logging"} <= set(server.capabilities())


def test_the_capabilities_follow_the_registered_entries(server: MCPServer):
    assert "prompts" not in server.capabilities()

    server.prompt(name="p", description="d")(lambda: "")

    assert "prompts" in server.capabilities()
    with pytest.raises(ValueError, match="does not speak"):
        server.capabilities("1999-01-01")
