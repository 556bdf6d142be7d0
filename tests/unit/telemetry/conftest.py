"""A server whose operations are exported."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_mcp import Context, MCPServer, ToolError
from tests.support.telemetry import install_sdk, new_name


@pytest.fixture
def native(settings: Any) -> Any:
    """Have servers export, and return the settings."""
    install_sdk()
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "TELEMETRY": "native"}
    return settings


@pytest.fixture
def server(native: Any) -> MCPServer:
    """A server with a tool for each way in which a call ends."""
    return make_server()


def make_server(**options: Any) -> MCPServer:
    server = MCPServer(new_name(), **{"public": True, **options})

    @server.tool(read_only=True)
    async def find_orders(query: str = "") -> str:
        return f"orders {query}"

    @server.tool
    async def refuse() -> str:
        raise ToolError("not today")

    @server.tool
    async def break_down() -> str:
        raise RuntimeError("secret")

    @server.tool(timeout=0.01)
    async def sleep() -> str:
        await asyncio.Event().wait()
        return ""

    @server.tool(permission="shop.view_order")
    async def hidden() -> str:
        return ""

    @server.tool
    async def ask(ctx: Context) -> str:
        await ctx.aelicit("Name?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return ""

    @server.prompt
    def apology(order: str, tone: str = "warm") -> str:
        return f"{order} {tone}"

    @server.resource("order://{number}", name="order")
    def order(number: str) -> str:
        return number

    return server
