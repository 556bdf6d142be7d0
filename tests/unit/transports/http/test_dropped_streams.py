"""Streams that clients drop leave nothing behind: no stream, no task."""

import asyncio
import json
from typing import Any

import pytest

from django_mcp.transports.http.consumer import MCPConsumer
from tests.support.http.harness import GONE, Conversation, http_scope, part, until
from tests.support.server.plain import MCPServer

REVISION = "2026-07-28"
STREAMS = 50
META = {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("dropped", mode="both")

    @server.resource("thing://one")
    def one() -> str:
        return "one"

    return server


def listen(app: Any, number: int) -> Conversation:
    params = {"notifications": {"resourceSubscriptions": ["thing://one"]}, "_meta": META}
    message = {
        "jsonrpc": "2.0",
        "id": number,
        "method": "subscriptions/listen",
        "params": params,
    }
    headers = {"mcp-protocol-version": REVISION, "mcp-method": "subscriptions/listen"}
    return Conversation(app, http_scope(headers=headers), part(json.dumps(message).encode()))


async def test_dropped_streams_leave_nothing_behind(server: MCPServer) -> None:
    app = MCPConsumer.as_asgi(server=server)
    warm = listen(app, 0)
    await warm.until_sent(2)
    warm.put(GONE)
    await warm.end()
    await until(lambda: not server.engine.hub.streams)
    tasks = len(asyncio.all_tasks())

    for _ in range(3):
        talks = [listen(app, number) for number in range(STREAMS)]
        await asyncio.gather(*(talk.until_sent(2) for talk in talks))
        assert len(server.engine.hub.streams) == STREAMS
        for talk in talks:
            talk.put(GONE)
        await asyncio.gather(*(talk.end() for talk in talks))

        await until(lambda: len(asyncio.all_tasks()) <= tasks)
        assert not server.engine.hub.streams


async def test_a_change_reaches_the_remaining_streams(server: MCPServer) -> None:
    app = MCPConsumer.as_asgi(server=server)
    talks = [listen(app, number) for number in range(STREAMS)]
    await asyncio.gather(*(talk.until_sent(2) for talk in talks))
    gone, stayed = talks[::2], talks[1::2]
    for talk in gone:
        talk.put(GONE)
    await asyncio.gather(*(talk.end() for talk in gone))

    told = await server.anotify_resource_updated("thing://one")
    await asyncio.gather(*(talk.until_sent(3) for talk in stayed))

    assert told == len(stayed)
    for talk in stayed:
        talk.put(GONE)
    await asyncio.gather(*(talk.end() for talk in stayed))
