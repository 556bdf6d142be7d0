"""Tools that run until a test releases them."""

from __future__ import annotations

import asyncio

from django_mcp import Context, tool
from tests.support.site.sessions.marks import amarked, mark


@tool
async def export(ctx: Context, steps: int = 5) -> str:
    """Tell progress step by step."""
    for step in range(1, steps + 1):
        await ctx.aprogress(step, steps, message=f"step {step}")
        await asyncio.sleep(0.01)
    return f"{steps} steps"


@tool
async def hold(ctx: Context, name: str) -> str:
    """Say that it runs, and last until it may go."""
    mark(f"{name} runs")
    await amarked(f"{name} may go")
    return f"{name} is done"


@tool
async def close(ctx: Context, name: str) -> str:
    """Close its own stream, and go on with the work."""
    await ctx.aprogress(1, 2)
    await ctx.aclose_stream(retry_ms=50)
    mark(f"{name} runs")
    await amarked(f"{name} may go")
    return f"{name} is done"


@tool
async def ask_held(ctx: Context, name: str) -> str:
    """Ask, and after the answer last until it may go."""
    from tests.support.site.sessions.questions import Colour

    answer = await ctx.aelicit("Which colour?", Colour)
    mark(f"{name} runs")
    await amarked(f"{name} may go")
    return f"{name} {answer.data.name}"


@tool
async def canary(ctx: Context, secret: str, steps: int) -> str:
    """Say a secret in every way there is: progress, log, question, answer."""
    from tests.support.site.sessions.questions import Colour

    for step in range(1, steps):
        await ctx.aprogress(step, steps, message=secret)
    await ctx.ainfo(secret)
    answer = await ctx.aelicit(f"What of {secret}?", Colour)
    await ctx.aprogress(steps, steps, message=secret)
    return f"{secret} {answer.data.name}"
