"""A tool that reports progress."""

from __future__ import annotations

import asyncio
import sys
import time

from django_mcp import Context, MCPServer

server = MCPServer("terminal")


@server.tool
def count(ctx: Context) -> str:
    """Count."""
    ctx.progress(1, 2, "half way")
    return "done"


@server.tool
def ask(ctx: Context) -> str:
    """Ask."""
    return ctx.elicit("Ready?", {"type": "object"}).action


@server.tool
def work() -> str:
    """Work for long."""
    print("Ready?", file=sys.stderr, flush=True)
    time.sleep(60)
    return "done"


@server.tool
async def wait() -> str:
    """Wait for long."""
    print("Ready?", file=sys.stderr, flush=True)
    await asyncio.sleep(60)
    return "done"
