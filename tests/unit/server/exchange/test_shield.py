"""Blocks that the client cannot interrupt, and what still ends them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_mcp.protocol.json import encode
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.handlers.context import Context
from tests.support.server.plain import MCPServer
from tests.support.wire import V2025_11_25, message


class Calls:
    def __init__(self) -> None:
        self.server = MCPServer("tests")
        self.connection = ConnectionState(V2025_11_25)
        self.connection.is_initialized = True
        self.runs, self.may_go = asyncio.Event(), asyncio.Event()
        self.done: list[str] = []

    def start(self, name: str) -> asyncio.Task[str]:
        request = message("tools/call", {"name": name, "arguments": {}}, revision=V2025_11_25, id=7)
        return asyncio.create_task(
            self.server.handle_raw(encode(request), connection=self.connection)
        )

    async def cancel(self) -> None:
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        await self.server.handle_raw(encode(note), connection=self.connection)


@pytest.fixture
def calls() -> Calls:
    calls = Calls()

    async def work(ctx: Context[Any], what: str) -> None:
        calls.runs.set()
        await calls.may_go.wait()
        calls.done.append(what)

    @calls.server.tool
    async def nested(ctx: Context[Any]) -> str:
        async with ctx.shield():
            async with ctx.shield():
                await work(ctx, "inner")
            calls.done.append(f"outer {ctx.is_cancelled}")
        calls.done.append("behind")
        return "done"

    @calls.server.tool
    async def failing(ctx: Context[Any]) -> str:
        try:
            async with ctx.shield():
                await work(ctx, "inner")
                raise ValueError
        except ValueError:
            calls.done.append("behind")
        return "done"

    @calls.server.tool(timeout=0.01)
    async def slow(ctx: Context[Any]) -> str:
        async with ctx.shield():
            await asyncio.Event().wait()
        return "never"

    return calls


@pytest.mark.parametrize(
    ("name", "expected"), [("nested", ["inner", "outer True"]), ("failing", ["inner"])]
)
async def test_a_cancellation_is_delivered_after_the_outermost_shield(
    calls: Calls, name: str, expected: list[str]
):
    task = calls.start(name)
    await calls.runs.wait()
    await calls.cancel()
    await calls.cancel()
    calls.may_go.set()

    assert await task == ""
    assert calls.done == expected


async def test_an_uncancelled_shield_changes_nothing(calls: Calls):
    calls.may_go.set()

    assert "done" in await calls.start("nested")
    assert calls.done == ["inner", "outer False", "behind"]


async def test_the_deadline_applies_inside_a_shield(calls: Calls):
    assert "No result within 0.01 s" in await calls.start("slow")
