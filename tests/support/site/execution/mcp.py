"""Tools that await the ORM, and tools that hold a thread."""

from __future__ import annotations

import time

from django.contrib.auth.models import Group
from django.db.models import Func, TextField, Value

from django_mcp import tool


@tool(read_only=True)
async def groups() -> list[str]:
    return [group.name async for group in Group.objects.order_by("name")]


@tool(read_only=True)
async def slow_query(seconds: float) -> str:
    pause = Func(Value(seconds), function="pg_sleep", output_field=TextField())
    await Group.objects.annotate(paused=pause).afirst()
    return "done"


@tool
def hold(seconds: float) -> str:
    time.sleep(seconds)
    return "done"
