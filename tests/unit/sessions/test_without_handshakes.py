"""A server that offers only stateless revisions uses nothing of what the others need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from django_mcp.protocol.errors import ToolError
from django_mcp.protocol.headers import Headers
from django_mcp.protocol.json import encode
from django_mcp.server.exchange.channel import Channel
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.handlers.context import Context
from tests.support.ports import use_ports
from tests.support.server.plain import MCPServer
from tests.support.wire import (
    HANDSHAKE,
    V2026_07_28,
    RecordingSink,
    WireClient,
    headers_for,
    message,
)


@dataclass
class Name:
    name: str


class Unused:
    """A port `Handshakes` that fails whatever is used of it, and does not join a hub."""

    def join(self, hub: Any) -> None:
        pass


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("tests", revisions=[V2026_07_28.name])
    use_ports(server, handshakes=Unused())

    @server.tool
    async def greet(ctx: Context[Any]) -> str:
        await ctx.aprogress(1)
        await ctx.ainfo("greeting")
        await ctx.aclose_stream()
        assert await ctx.aping_client() is None
        assert not await ctx.acancel_request("ask-1")
        given = await ctx.aelicit("Your name?", Name)
        return f"Hello {given.data.name}"

    @server.tool
    def fail() -> str:
        raise ToolError("no")

    @server.resource("counter://a")
    def counter() -> str:
        return "1"

    return server


async def test_calls_questions_and_lists_are_served(server: MCPServer) -> None:
    client = WireClient(server, V2026_07_28)
    listed = await client.result("tools/list")
    read = await client.result("resources/read", {"uri": "counter://a"})
    failed = await client.result("tools/call", {"name": "fail", "arguments": {}})
    params = {
        "name": "greet",
        "arguments": {},
        "_meta": {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}},
    }
    asked = await client.result("tools/call", params)
    (key,) = asked["inputRequests"]
    answers = {key: {"action": "accept", "content": {"name": "Ann"}}}
    again = {**params, "inputResponses": answers, "requestState": asked["requestState"]}
    greeted = await client.result("tools/call", again)

    assert [each["name"] for each in listed["tools"]] == ["greet", "fail"]
    assert read["contents"][0]["text"] == "1"
    assert failed["isError"]
    assert greeted["content"][0]["text"] == "Hello Ann"


@pytest.mark.parametrize("revision", HANDSHAKE, ids=lambda each: str(each.name))
async def test_a_handshake_is_refused(server: MCPServer, revision: Any) -> None:
    params = {"protocolVersion": revision.name, "capabilities": {}, "clientInfo": {"name": "old"}}
    request = message("initialize", params, revision=revision)
    reply = await WireClient(server, revision).post(encode(request), headers_for(request, revision))

    assert reply.status == 400
    assert reply.headers == ()


async def test_get_and_delete_are_refused(server: MCPServer) -> None:
    for entry in (server.engine.open_stream, server.engine.end_session):
        sink = RecordingSink()
        exchange = Exchange(
            headers=Headers([(b"mcp-session-id", b"x" * 43)]),
            channel=Channel(can_stream=True, sink=sink, event_stream=sink),
        )
        reply = await entry(exchange)

        assert reply.status == 405
        assert dict(reply.headers)[b"allow"] == b"POST, OPTIONS"
