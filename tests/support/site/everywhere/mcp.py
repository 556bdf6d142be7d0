"""Tools that run until a test releases them or access is lost, and a guarded resource."""

from __future__ import annotations

import asyncio
import time

from django_mcp import Context, resource, tool
from tests.support.site.sessions.marks import amarked, folder, mark

SEE = "auth.view_group"


@tool(permission=SEE, task="allowed")
def wait_in_thread(ctx: Context, name: str) -> str:
    mark(f"{name} runs")
    while not (folder() / f"{name} may go").exists():
        if ctx.is_cancelled:
            mark(f"{name} was interrupted")
            break
        time.sleep(0.01)
    return f"{name} is done"


@tool(permission=SEE)
async def wait(ctx: Context, name: str) -> str:
    mark(f"{name} runs")
    try:
        await amarked(f"{name} may go")
    except asyncio.CancelledError:
        mark(f"{name} was interrupted")
        raise
    return f"{name} is done"


@tool
def open_to_all() -> str:
    return "seen"


@resource("file://{name}", permission=SEE)
def file(name: str) -> str:
    return name
