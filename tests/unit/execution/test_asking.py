"""Asking unwinds a handler: earlier writes are rolled back, writes of `once` are kept."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from django.test import override_settings

from django_mcp import Context, MCPServer
from django_mcp.execution.threads import run_in_pool
from tests.support.databases import make_product, products
from tests.support.held import LIMIT_S
from tests.support.wire import V2026_07_28, WireClient

pytestmark = pytest.mark.usefixtures("databases")

CAN_BE_ASKED: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
FORM = {"type": "object", "properties": {"yes": {"type": "boolean"}}}


@pytest.fixture
def client() -> WireClient:
    server = MCPServer("asking", atomic=["first", "second"])

    @server.tool
    def order(ctx: Context) -> str:
        """Write, ask, write."""
        make_product("before")
        ctx.once("reserve", lambda: make_product("reserved").sku)
        answer = ctx.elicit("Sure?", FORM)
        make_product("after")
        return answer.action

    @server.tool
    def give_up(ctx: Context) -> str:
        """Write once, and fail."""
        ctx.once("reserve", lambda: make_product("reserved").sku)
        raise RuntimeError

    return WireClient(server, V2026_07_28)


def call(name: str = "order", **params: Any) -> dict[str, Any]:
    return {"name": name, "_meta": CAN_BE_ASKED, **params}


async def test_only_once_blocks_survive_a_question(client: WireClient):
    interim = await client.result("tools/call", call())

    assert interim["resultType"] == "input_required"
    assert await run_in_pool(products) == {"reserved"}

    answers = {"question-1": {"action": "accept", "content": {"yes": True}}}
    result = await client.result(
        "tools/call", call(requestState=interim["requestState"], inputResponses=answers)
    )

    assert result["content"][0]["text"] == "accept"
    assert await run_in_pool(products) == {"reserved", "before", "after"}


async def test_once_blocks_survive_a_failure(client: WireClient):
    assert (await client.result("tools/call", call("give_up")))["isError"] is True

    assert await run_in_pool(products) == {"reserved"}


async def test_once_is_rolled_back_if_the_call_timed_out_meanwhile():
    server = MCPServer("late", atomic=["first", "second"], call_timeout_s=0.5)
    may_end = threading.Event()

    def reserve() -> None:
        make_product("reserved")
        may_end.wait(LIMIT_S)

    @server.tool
    def order(ctx: Context) -> None:
        """Write once, and for too long."""
        ctx.once("reserve", reserve)

    @server.tool(timeout=LIMIT_S)
    def find() -> list[str]:
        """Run after what had the thread before."""
        return sorted(products())

    client = WireClient(server, V2026_07_28)
    with override_settings(DJANGO_MCP={"SYNC_THREADS": 1}):
        try:
            async with asyncio.timeout(LIMIT_S / 2):
                result = await client.call("order")
        finally:
            may_end.set()
        found = await client.call("find")

    assert result["content"][0]["text"] == "No result within 0.5 s"
    assert found["structuredContent"] == []


async def test_a_rotated_key_opens_earlier_states(client: WireClient):
    """Any worker, and a worker with a newer key, serves the retry."""
    with override_settings(SECRET_KEY="old"):
        interim = await client.result("tools/call", call())
    retry = call(
        requestState=interim["requestState"],
        inputResponses={"question-1": {"action": "decline"}},
    )

    with override_settings(SECRET_KEY="new"):
        assert (await client.error("tools/call", retry))[1]["code"] == -32602
    with override_settings(SECRET_KEY="new", SECRET_KEY_FALLBACKS=["old"]):
        assert "content" in await client.result("tools/call", retry)
