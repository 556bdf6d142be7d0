"""Unanswered questions leave nothing behind."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from django_mcp.server.handlers.context import Context
from tests.support.server.plain import MCPServer
from tests.support.server.streams import StreamClient
from tests.support.server.tasks import until
from tests.support.wire import META, V2025_11_25, V2026_07_28, WireClient

FORMS: dict[str, Any] = {"elicitation": {"form": {}}}
MANY = 1000


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("tests", ask_timeout_s=0.2)

    @server.tool
    async def ask(ctx: Context[Any]) -> str:
        await ctx.aprogress(1)
        return str((await ctx.aelicit("Sure?", {"type": "object"})).action)

    return server


def objects() -> int:
    gc.collect()
    return len(gc.get_objects())


@pytest.mark.http_only("a pipe has tasks and objects of its own, which are counted here")
async def test_a_thousand_input_required_results_leak_no_objects(server: MCPServer):
    client = WireClient(server, V2026_07_28, streams=False)
    meta = {META + "clientCapabilities": FORMS}
    for _ in range(20):
        await client.call("ask", _meta=meta)
    before, tasks = objects(), len(asyncio.all_tasks())

    for _ in range(MANY):
        await client.call("ask", _meta=meta)
        # Unneeded timers are removed with the next iteration of the loop.
        await asyncio.sleep(0)

    assert objects() - before < MANY / 10
    assert len(asyncio.all_tasks()) <= tasks


@pytest.mark.http_only("whoever leaves a pipe takes it along")
async def test_questions_on_disconnected_streams_time_out(server: MCPServer):
    client = StreamClient(server, V2025_11_25)
    await client.open(FORMS)
    calls = [client.begin("tools/call", {"name": "ask"}, id=number) for number in range(100)]
    for call in calls:
        assert (await call.sink.message())["method"] == "elicitation/create"
        call.leave()
    (session,) = server.engine.hub.sessions.values()
    for call in calls:
        assert (await call.answer())["result"]["isError"] is True

    assert (session.asked, server.engine.hub.calls.of(session)) == ({}, [])

    async def is_quiet() -> bool:
        # The hub's own.
        return len(asyncio.all_tasks()) <= 2

    await until(is_quiet)


async def test_an_input_required_result_is_the_last_message_of_its_stream(server: MCPServer):
    client = StreamClient(server, V2026_07_28)
    meta = {META + "clientCapabilities": FORMS, "progressToken": "p"}
    call = client.call_tool("ask", _meta=meta)

    assert (await call.answer())["result"]["resultType"] == "input_required"
    assert (await call.sink.message())["method"] == "notifications/progress"
    assert call.sink.items.empty()
