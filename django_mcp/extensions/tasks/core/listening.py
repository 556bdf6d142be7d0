"""Listen to tasks on a stream of `subscriptions/listen`."""

from __future__ import annotations

from functools import partial
from typing import Any

from django_mcp.extensions.tasks.core.start import find_own_all
from django_mcp.extensions.tasks.core.task import Task
from django_mcp.extensions.tasks.core.transitions import (
    POLL_S,
    stream_of,
    to_detailed,
)
from django_mcp.log import logger
from django_mcp.protocol.errors import Refusal, invalid_params
from django_mcp.server.extension import Listening
from django_mcp.server.services import ServedCall
from django_mcp.server.streams.stream import PushStream

MAX_TASKS = 100
"""Tasks that one stream can subscribe to."""


async def listen(call: ServedCall, task_ids: Any) -> Listening | Refusal:
    """Return what a listening stream does for the key `taskIds` of its filter."""
    if type(task_ids) is not list or not all(type(task_id) is str for task_id in task_ids):
        return invalid_params("taskIds must be strings")
    if len(task_ids) > MAX_TASKS:
        return invalid_params(f"At most {MAX_TASKS} tasks can be listened to")
    tasks = await find_own_all(call, task_ids)
    acknowledged = [task.id for task in tasks]
    return Listening(
        acknowledged=acknowledged, watch=partial(_watch, call, tasks) if tasks else None
    )


async def _watch(call: ServedCall, tasks: list[Task], stream: PushStream) -> None:
    """Send the tasks, and then each change, until all have ended."""
    seen: dict[str, float] = {}
    left = [task.id for task in tasks]
    with call.server.hub.followers.follow(*map(stream_of, left)) as follower:
        while left and stream.is_open:
            try:
                own_all = await find_own_all(call, left)
            except Exception as error:  # noqa: BLE001 - tried again after `POLL_S`
                logger.warning("Could not read the tasks of a stream: %r", error)
                own_all = []
            for task in own_all:
                if seen.get(task.id) != task.updated_s:
                    seen[task.id] = task.updated_s
                    # Several results may be larger together than the queue of the stream may be.
                    await stream.drain()
                    stream.offer(stream.encode("notifications/tasks", to_detailed(task)))
                if task.is_final:
                    left.remove(task.id)
            if left:
                await follower.wait(POLL_S)
