"""A real server of every revision, for what a driver and the core promise together."""

import asyncio
from collections import defaultdict

from django_mcp import Context
from django_mcp.servers import MCPServer

real = MCPServer("real", call_timeout_s=30, public=True)
events: dict[str, asyncio.Event] = defaultdict(asyncio.Event)


@real.tool
async def echo(text: str) -> str:
    return text


@real.tool
def echo_in_thread(text: str) -> str:
    return text


@real.tool
async def count(ctx: Context, to: int) -> str:
    for number in range(to):
        await ctx.aprogress(number + 1, to)
    return "done"


@real.tool
def count_in_thread(ctx: Context, to: int) -> str:
    for number in range(to):
        ctx.progress(number + 1, to)
    return "done"


@real.tool
async def hold(name: str) -> str:
    """Say that it runs, wait to be let go, and say how it ended."""
    events[f"{name} runs"].set()
    try:
        await events[f"{name} may go"].wait()
    except asyncio.CancelledError:
        events[f"{name} was cancelled"].set()
        raise
    events[f"{name} is done"].set()
    return "done"


@real.tool
async def mark(event: str) -> str:
    events[event].set()
    return "marked"


@real.tool
async def await_event(event: str) -> str:
    await asyncio.wait_for(events[event].wait(), 5)
    return "there"
