"""Send updates of tasks on a listening stream."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from django_mcp.protocol.errors import Refusal, invalid_params
from django_mcp.protocol.json import JSONObject
from django_mcp.server.exchange.task import Task
from django_mcp.server.handlers.context import Context
from django_mcp.server.streams.stream import Ending, PushStream
from django_mcp.server.tasks.start import find_own_all
from django_mcp.server.tasks.transitions import (
    POLL_S,
    refuse_undeclared,
    rules_of,
    stream_of,
    to_detailed,
)

logger = logging.getLogger("django_mcp")

MAX_TASKS = 100
"""Tasks that one stream can subscribe to. Our own limit."""


async def choose_tasks(ctx: Context[Any], wanted: JSONObject) -> list[Task] | Refusal:
    """Return the tasks of a filter that the principal may see, or the refusal of the filter."""
    if "taskIds" not in wanted:
        return []
    refusal = refuse_undeclared(ctx)
    if refusal is not None:
        return refusal
    task_ids = wanted["taskIds"]
    if type(task_ids) is not list or not all(type(each) is str for each in task_ids):
        return invalid_params("taskIds must be strings")
    if len(task_ids) > MAX_TASKS:
        return invalid_params(f"At most {MAX_TASKS} tasks can be listened to")
    if "tasks" not in ctx.server.features(ctx.exchange):
        return []
    return await find_own_all(ctx.server, ctx, task_ids)


async def watch(
    ctx: Context[Any], stream: PushStream, tasks: list[Task], run: Coroutine[Any, Any, Ending]
) -> Ending:
    """Run a stream that also receives task updates, and return why it ended."""
    watching = asyncio.ensure_future(_watch(ctx, stream, tasks))
    try:
        return await run
    finally:
        watching.cancel()


async def _watch(ctx: Context[Any], stream: PushStream, tasks: list[Task]) -> None:
    """Send the tasks, and then each change, until all have ended."""
    seen: dict[str, float] = {}
    left = [task.id for task in tasks]
    with ctx.server.hub.followers.follow(*map(stream_of, left)) as follower:
        while left and stream.is_open:
            for task in await _look(ctx, left):
                if seen.get(task.id) != task.updated_s:
                    seen[task.id] = task.updated_s
                    # Several results may be larger together than the queue of the stream may be.
                    await stream.drain()
                    detailed = to_detailed(task, rules_of(task))
                    stream.offer(stream.encode("notifications/tasks", detailed))
                if task.is_final:
                    left.remove(task.id)
            if left:
                await follower.wait(POLL_S)


async def _look(ctx: Context[Any], task_ids: list[str]) -> list[Task]:
    try:
        return await find_own_all(ctx.server, ctx, task_ids)
    except Exception as error:  # noqa: BLE001 - tried again after `POLL_S`
        logger.warning("Could not read the tasks of a stream: %r", error)
        return []
