"""The deadline of a call and of a task's run: it covers all that the site's code does between two answers."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from django_mcp.server.handlers.context import Context
from tests.support.server.plain import MCPServer
from tests.support.server.tasks import LIMIT_S, Modern, make_server
from tests.support.wire import V2026_07_28, WireClient


@pytest.fixture
def may_end() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def server(may_end: threading.Event) -> MCPServer:
    server = MCPServer("tests", call_timeout_s=0.05, task_timeout_s=0.06)

    @server.tool(task="allowed")
    def hang(ctx: Context[Any]) -> str:
        ctx.once("hang", lambda: may_end.wait(LIMIT_S))
        return "late"

    @server.tool
    def repeat(ctx: Context[Any]) -> str:
        for number in itertools.count():
            ctx.once(str(number), lambda: None)
        return "never"

    return server


@pytest.mark.parametrize("name", ["hang", "repeat"])
async def test_once_runs_within_the_deadline_of_the_call(server: MCPServer, name: str):
    async with asyncio.timeout(LIMIT_S / 2):
        result = await WireClient(server, V2026_07_28).call(name)

    assert result["isError"] is True
    # It may go on to say that a thread was missing.
    assert result["content"][0]["text"].startswith("No result within 0.05 s")


@pytest.mark.http_only("a task is stored and run alike")
async def test_once_runs_within_the_deadline_of_a_task(server: MCPServer):
    client = Modern(server)

    async with asyncio.timeout(LIMIT_S / 2):
        task = await client.until(await client.create("hang"), "completed")

    assert task["result"]["content"][0]["text"] == "No result within 0.06 s"


@pytest.mark.http_only("a task is stored and run alike")
async def test_a_call_that_becomes_a_task_has_the_deadline_of_a_task():
    server, _ = make_server(call_timeout_s=0.05, task_timeout_s=0.06)
    client = Modern(server)

    task = await client.until(await client.create("grow"), "completed")

    assert task["result"]["content"][0]["text"] == "No result within 0.06 s"
