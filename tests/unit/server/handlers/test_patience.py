"""Clients that do not read what a synchronous handler sends ahead of its response."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from django_mcp.protocol.json import decode, encode
from django_mcp.server.handlers import patience
from django_mcp.server.handlers.context import Context
from tests.support.server.plain import MCPServer
from tests.support.wire import META, V2026_07_28, message

SENT = 50


class Client:
    """Takes messages; once `reads` is cleared, taking one waits until it is set."""

    def __init__(self) -> None:
        self.messages: list[int] = []
        self.reads = asyncio.Event()
        self.has_read = asyncio.Event()

    async def take(self, text: str) -> None:
        await self.reads.wait()
        params = decode(text)["params"]
        self.messages.append(params["progress"] if "progress" in params else params["data"]["done"])
        self.has_read.set()


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PATIENCE_S", 0.05)


async def call(server: MCPServer, client: Client, **meta: str) -> str:
    """Call the tool, with further keys of MCP in `_meta`."""
    own = {META + name: value for name, value in meta.items()}
    params = {"name": "count", "arguments": {}, "_meta": {"progressToken": 1, **own}}
    request = encode(message("tools/call", params, revision=V2026_07_28))
    answer = await asyncio.wait_for(server.handle_raw(request, sink=client.take), 20)
    text: str = decode(answer)["result"]["content"][0]["text"]
    return text


@pytest.mark.usefixtures("_little_patience")
async def test_a_client_that_reads_nothing_does_not_keep_a_thread(client: Client):
    server = MCPServer("tests")

    @server.tool
    def count(ctx: Context[Any]) -> str:
        for done in range(SENT):
            ctx.progress(done)
        return "done"

    assert await call(server, client) == "done"
    assert client.messages == []

    client.reads.set()
    await asyncio.sleep(0)
    assert client.messages == [0]


async def test_a_client_that_reads_gets_every_message(client: Client):
    server = MCPServer("tests")

    @server.tool
    def count(ctx: Context[Any]) -> str:
        for done in range(SENT):
            ctx.progress(done)
        return "done"

    client.reads.set()

    assert await call(server, client) == "done"
    assert client.messages == list(range(SENT))


@pytest.mark.usefixtures("_little_patience")
async def test_messages_are_sent_again_when_a_client_reads_again(client: Client):
    server = MCPServer("tests")
    may_go_on = threading.Event()

    @server.tool
    def count(ctx: Context[Any]) -> str:
        ctx.progress(1)
        ctx.progress(2)
        client_reads.set()
        may_go_on.wait(20)
        for done in range(3, SENT):
            ctx.progress(done)
        return "done"

    client_reads = threading.Event()

    async def read() -> None:
        await asyncio.to_thread(client_reads.wait, 20)
        client.reads.set()
        await client.has_read.wait()
        # The thread hears of it a turn later.
        for _ in range(5):
            await asyncio.sleep(0)
        may_go_on.set()

    answer, _ = await asyncio.gather(call(server, client), read())

    assert answer == "done"
    assert client.messages == [1, *range(3, SENT)]


@pytest.mark.parametrize("what", ["progress", "log"])
async def test_messages_above_the_rate_do_not_wait_for_the_event_loop(client: Client, what: str):
    server = MCPServer("tests", progress_rate=1, log_rate=1)
    is_done = threading.Event()
    was_done_meanwhile: list[bool] = []

    @server.tool
    def count(ctx: Context[Any]) -> str:
        for done in range(20):
            if done == 1:
                loop.call_soon_threadsafe(lambda: was_done_meanwhile.append(is_done.wait(2)))
            if what == "progress":
                ctx.progress(done)
            else:
                ctx.info({"done": done})
        is_done.set()
        return "done"

    loop = asyncio.get_running_loop()
    client.reads.set()

    assert await call(server, client, logLevel="debug") == "done"
    assert was_done_meanwhile == [True]
    assert len(client.messages) == 1


async def test_an_event_loop_that_does_other_work_loses_no_message(client: Client):
    server = MCPServer("tests")
    is_blocked = threading.Event()

    @server.tool
    def count(ctx: Context[Any]) -> str:
        loop.call_soon_threadsafe(is_blocked.wait, 0.3)
        for done in range(SENT):
            ctx.progress(done)
        return "done"

    loop = asyncio.get_running_loop()
    client.reads.set()

    assert await call(server, client) == "done"
    assert client.messages == list(range(SENT))
