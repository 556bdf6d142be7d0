"""A session is the same at all tenants, but what a call at one of them asks and sends is unknown at others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_mcp import MCPServer as SiteServer
from django_mcp.protocol.revisions import Revision
from django_mcp.server.handlers.context import Context
from tests.support.server.plain import MCPServer
from tests.support.server.streams import StreamClient
from tests.support.wire import V2025_06_18, V2025_11_25

FORM = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
YES = {"action": "accept", "content": {"sure": True}}


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("tests", ask_timeout_s=5)

    @server.tool
    async def pay(ctx: Context[Any]) -> str:
        return (await ctx.aelicit("Sure?", FORM)).action

    return server


async def connect(server: MCPServer, revision: Revision) -> StreamClient:
    client = StreamClient(server, revision)
    client.tenant = "one"
    await client.open({"elicitation": {"form": {}}})
    return client


@pytest.mark.parametrize("revision", [V2025_06_18, V2025_11_25])
async def test_an_answer_counts_at_the_tenant_of_its_question(
    server: MCPServer, revision: Revision
):
    client = await connect(server, revision)
    call = client.call_tool("pay")
    question = await call.sink.message()

    client.tenant = "two"
    await client.respond(question, result=YES)
    client.tenant = "one"
    await client.respond(question, result={**YES, "action": "decline"})

    answer = await call.answer()
    assert answer["result"]["content"][0]["text"] == "decline"


async def test_a_stream_is_resumed_at_the_tenant_of_its_call(server: MCPServer):
    client = await connect(server, V2025_11_25)
    call = client.call_tool("pay")
    event_id, question = await call.sink.next()
    while question is None:
        event_id, question = await call.sink.next()
    assert event_id is not None
    first, number, request_id = event_id.split("-", 2)
    seen = f"{first}-{int(number) - 1}-{request_id}"

    client.tenant = "two"
    refused = await client.listen(seen).reply()
    without_request = client.listen(f"{first}-{int(number) - 1}")
    client.tenant = "one"
    resumed = client.listen(seen)

    assert refused.status == 400
    assert b"Unknown Last-Event-ID" in (refused.body or b"")
    assert await resumed.sink.message() == question
    await client.respond(question, result=YES)
    assert (await resumed.answer())["result"]["content"][0]["text"] == "accept"
    # It has become the stream of the session, to which nothing of the call was sent.
    assert not without_request.task.done()
    sent = [
        without_request.sink.items.get_nowait() for _ in range(without_request.sink.items.qsize())
    ]
    assert [each for _, each in sent if each is not None] == []
    without_request.leave()
    await asyncio.wait([without_request.task])


async def test_an_answer_that_another_worker_gets_counts_at_the_tenant_of_its_question():
    def make_worker() -> SiteServer:
        worker = SiteServer("tenants", public=True, ask_timeout_s=20)

        @worker.tool
        async def pay(ctx: Context[Any]) -> str:
            return (await ctx.aelicit("Sure?", FORM)).action

        return worker

    workers = [make_worker() for _ in range(2)]
    here = StreamClient(workers[0], V2025_11_25)
    here.tenant = "one"
    await here.open({"elicitation": {"form": {}}})
    there = StreamClient(workers[1], V2025_11_25)
    there.session_id = here.session_id
    call = here.call_tool("pay")
    question = await call.sink.message()

    there.tenant = "two"
    await there.respond(question, result=YES)
    there.tenant = "one"
    while not call.task.done():
        # The store keeps one answer at a time, until the worker that asked has looked at it.
        await there.respond(question, result={**YES, "action": "decline"})
        await asyncio.wait([call.task], timeout=0.05)

    assert (await call.answer())["result"]["content"][0]["text"] == "decline"
