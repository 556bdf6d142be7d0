"""A sampling request goes out under an id that the site chooses, and can be cancelled by it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_mcp.protocol.asks import ask_sampling
from django_mcp.protocol.revisions import Revision
from django_mcp.server.exchange.call import AskFailed
from django_mcp.server.handlers.context import Context
from tests.support.server.plain import MCPServer
from tests.support.server.streams import StreamClient
from tests.support.wire import HANDSHAKE, V2025_11_25, V2026_07_28, WireClient


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("tests", ask_timeout_s=5)

    @server.tool
    async def write_as(ctx: Context[Any], name: str) -> str:
        try:
            answer = await ctx.asample("A poem", max_tokens=10, request_id=name)
        except AskFailed as error:
            return f"failed: {error}"
        return answer.text

    @server.tool
    def stop(ctx: Context[Any], name: str) -> bool:
        return ctx.cancel_request(name, "Changed our mind")

    return server


async def connect(server: MCPServer, revision: Revision) -> StreamClient:
    client = StreamClient(server, revision)
    await client.open({"sampling": {}})
    return client


def key_of(client: StreamClient) -> str:
    """Return the public key of a client's session."""
    session = client.server.engine.ports.sessions.peek(client.session_id or "")
    assert session is not None
    return session.key


WRITTEN = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "roses"}}


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_a_sampling_request_uses_the_chosen_id(server: MCPServer, revision: Revision) -> None:
    """Two sessions may use the same id."""
    one, other = await connect(server, revision), await connect(server, revision)
    calls = [each.call_tool("write_as", {"name": "poem/1"}) for each in (one, other)]
    asked = [await each.sink.message() for each in calls]
    await one.respond(asked[0], result=WRITTEN)
    await other.respond(asked[1], result={**WRITTEN, "content": {"type": "text", "text": "tulips"}})

    assert [(each["id"], each["method"]) for each in asked] == [
        ("poem/1", "sampling/createMessage")
    ] * 2
    texts = [(await each.answer())["result"]["content"][0]["text"] for each in calls]
    assert texts == ["roses", "tulips"]


@pytest.mark.parametrize(
    "by",
    [
        "another call",
        pytest.param("the site", marks=pytest.mark.http_only("a pipe has no public key")),
        pytest.param(
            "the site in a thread", marks=pytest.mark.http_only("a pipe has no public key")
        ),
    ],
)
async def test_a_sampling_request_can_be_cancelled_by_its_id(server: MCPServer, by: str) -> None:
    """Its client is notified, and a late answer is ignored."""
    client, other = await connect(server, V2025_11_25), await connect(server, V2025_11_25)
    call = client.call_tool("write_as", {"name": "poem"})
    asked = await call.sink.message()
    kept = other.call_tool("write_as", {"name": "poem"})
    asked_other = await kept.sink.message()
    key = key_of(client) if by != "another call" else ""
    reason = "Cancelled"
    if by == "another call":
        reason = "Changed our mind"
        params = {"name": "stop", "arguments": {"name": "poem"}}
        stopped = await client.result("tools/call", params)
        assert stopped["content"][0]["text"] == "true"
    elif by == "the site":
        assert await server.acancel_request(key, "poem")
        assert not await server.acancel_request(key, "never asked")
        assert not await server.acancel_request("unknown", "poem")
    else:
        assert await asyncio.to_thread(lambda: asyncio.run(server.acancel_request(key, "poem")))
    told = await call.sink.message()
    await client.respond(asked, result=WRITTEN)
    await other.respond(asked_other, result=WRITTEN)

    assert told["method"] == "notifications/cancelled"
    assert told["params"] == {"requestId": "poem", "reason": reason}
    failed = (await call.answer())["result"]["content"][0]["text"]
    assert failed == "failed: What the client was asked was cancelled before it answered"
    assert (await kept.answer())["result"]["content"][0]["text"] == "roses"
    assert not await server.acancel_request(key, "poem")


@pytest.mark.http_only("results ask on both, one is enough")
async def test_the_id_is_the_key_of_an_input_request(server: MCPServer) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": V2026_07_28.name,
        "io.modelcontextprotocol/clientCapabilities": {"sampling": {}},
    }
    params = {"name": "write_as", "arguments": {"name": "poem"}, "_meta": meta}
    result = await WireClient(server, V2026_07_28).result("tools/call", params)

    assert list(result["inputRequests"]) == ["poem"]


async def test_a_pending_request_id_cannot_be_reused(server: MCPServer) -> None:
    client = await connect(server, V2025_11_25)
    call = client.call_tool("write_as", {"name": "poem"})
    asked = await call.sink.message()
    again = client.begin("tools/call", {"name": "write_as", "arguments": {"name": "poem"}}, id=2)
    failed = (await again.answer())["result"]["content"][0]["text"]
    await client.respond(asked, result=WRITTEN)

    assert failed.startswith("failed: The client was asked under this id already")
    assert (await call.answer())["result"]["content"][0]["text"] == "roses"


@pytest.mark.parametrize("name", ["", "ask-1", "ping-1", "a b", "\n", "x" * 65, "\u00e4"])
def test_not_everything_can_be_the_id_of_a_request(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the id"):
        ask_sampling([], max_tokens=1, request_id=name)
