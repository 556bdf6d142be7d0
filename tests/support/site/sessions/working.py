"""Tools that become tasks, and run until a test releases them."""

from __future__ import annotations

import asyncio
import os
import time

from django.db import connection, transaction

from django_mcp import Context, tool
from tests.support.site.sessions.marks import amarked, folder, mark
from tests.support.site.sessions.questions import Colour


@tool(task="allowed")
async def job(ctx: Context, name: str) -> str:
    """Work until it may go; cannot be done twice."""
    mark(f"{name} runs")
    try:
        await amarked(f"{name} may go")
    except asyncio.CancelledError:
        mark(f"{name} was interrupted")
        raise
    return f"{name} is done"


@tool(task="allowed")
def slow_job(ctx: Context, name: str) -> str:
    """Work in a thread until it may go, or nobody waits any more."""
    mark(f"{name} runs")
    while not (folder() / f"{name} may go").exists():
        if ctx.is_cancelled:
            mark(f"{name} was interrupted")
            break
        time.sleep(0.01)
    return f"{name} is done"


@tool(task="allowed", idempotent=True)
async def job_again(ctx: Context, name: str) -> str:
    """Work until it may go; can be done twice."""
    mark(f"{name} runs in {os.getpid()}")
    mark(f"{name} runs")
    await amarked(f"{name} may go")
    return str(os.getpid())


@tool(task="allowed")
def ask_job(ctx: Context, name: str) -> str:
    """Ask, and tell in which processes the rounds were."""
    first = ctx.once("first", os.getpid)
    answer = ctx.elicit("Which colour?", Colour)
    return f"{first} {os.getpid()} {answer.data.name}"


@tool(task="allowed")
def write_slowly(ctx: Context, name: str) -> str:
    """Hold a connection with a transaction until it may go; then what was written stays."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO written (name) VALUES (%s)", [name])
        mark(f"{name} runs")
        while not (folder() / f"{name} may go").exists():
            time.sleep(0.01)
    return f"{name} is done"
