"""A real server of every revision, for tests of a driver and the core together."""

import asyncio
import threading
import time
from collections import defaultdict

from django.db import connections

from django_mcp import Context
from django_mcp.servers import MCPServer

real = MCPServer("real", call_timeout_s=30, public=True)
brisk = MCPServer("brisk", keepalive_s=0.1, public=True)
flood = MCPServer("flood", log_rate=0, public=True)
events: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
marks: dict[str, threading.Event] = defaultdict(threading.Event)


@real.tool
async def echo(text: str) -> str:
    return text


@real.tool
def echo_in_thread(text: str) -> str:
    return text


@brisk.tool
@real.tool
async def count_and_ask(ctx: Context) -> str:
    await ctx.aprogress(1)
    return (await ctx.aelicit("Go on?", {"type": "object"})).action


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


@real.tool
async def hold_shielded(ctx: Context, name: str) -> str:
    """Hold on to the end of the shielded part, and not beyond."""
    async with ctx.shield():
        events[f"{name} runs"].set()
        await events[f"{name} may go"].wait()
        events[f"{name} is done"].set()
    events[f"{name} went on"].set()
    return "done"


@real.tool
async def marked(name: str) -> list[str]:
    """Tell which events of a call are set."""
    return sorted(each for each in events if each.startswith(name) and events[each].is_set())


@real.tool(atomic="shared")
def write_and_wait(ctx: Context, name: str) -> str:
    """Write, and go on until nobody waits."""
    with connections["shared"].cursor() as cursor:
        cursor.execute("INSERT INTO note VALUES (%s)", [name])
        marks[f"{name} runs"].set()
        until = time.monotonic() + 10
        while not ctx.is_cancelled and time.monotonic() < until:
            time.sleep(0.001)
        cursor.execute("INSERT INTO note VALUES (%s)", [name])
    marks[f"{name} saw it" if ctx.is_cancelled else f"{name} gave up"].set()
    return "written"


@real.tool
def await_mark(mark: str) -> bool:
    return marks[mark].wait(5)


@real.tool
def make_notes() -> None:
    with connections["shared"].cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS note (name)")


@real.tool
def count_notes(name: str) -> int:
    """Count once nobody else is writing."""
    with connections["shared"].cursor() as cursor:
        cursor.execute("DELETE FROM note WHERE name = 'nobody'")
        cursor.execute("SELECT COUNT(*) FROM note WHERE name = %s", [name])
        return int(cursor.fetchone()[0])


flooded: dict[str, int] = defaultdict(int)


@flood.tool
async def pour(ctx: Context, name: str, count: int, size: int) -> str:
    """Send many large messages ahead of the answer, as fast as the client takes them."""
    for number in range(count):
        await ctx.ainfo("x" * size)
        flooded[name] = number + 1
    return "poured"


@flood.tool
async def poured(name: str) -> int:
    """Tell how many messages of a call have been sent."""
    return flooded[name]
