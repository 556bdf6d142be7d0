"""Change tasks where they are kept, tell those who wait, and find the tasks of who asks."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django_mcp.protocol.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_CLIENT_CAPABILITY,
    Refusal,
)
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.messages import encode_notification
from django_mcp.protocol.revisions import find_revision
from django_mcp.protocol.tasks import WORKING, TaskRules, task_to_wire
from django_mcp.server.exchange.task import Step, Task, new_id
from django_mcp.server.services.session_lookup import Session
from django_mcp.server.streams.stream import Change

if TYPE_CHECKING:
    from django_mcp.server.exchange.exchange import Exchange
    from django_mcp.server.handlers.context import Context
    from django_mcp.server.server import MCPServer

__all__ = [
    "STOPPED",
    "UNKNOWN_TASK",
    "advance",
    "find_own",
    "find_own_all",
    "hand_over",
    "look_after",
    "refuse_undeclared",
    "rules_of",
    "stream_of",
    "to_wire",
]

logger = logging.getLogger("django_mcp")

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What may be an id of ours; see `new_id`."""

MAX_TRIES = 50


UNKNOWN_TASK = Refusal(code=INVALID_PARAMS, message="Unknown task")
STOPPED = Refusal(code=INTERNAL_ERROR, message="The worker that ran this has stopped")


async def advance(server: MCPServer, task_id: str, step: Step) -> Task | None:
    """Have a task take a step, and return it as it is then; None when it could not.

    Somebody else may change it at the same time: then the step is tried on what they left.
    """
    for _ in range(MAX_TRIES):
        task = (await server.tasks.find((task_id,))).get(task_id)
        changed = None if task is None else step(task, server.clock())
        if task is None or changed is None:
            return None
        changed = replace(changed, version=task.version + 1)
        if await server.tasks.replace(changed):
            if changed.updated_s != task.updated_s or changed.status != task.status:
                _tell(server, changed, has_moved=changed.status != task.status)
            return changed
    logger.error("Gave up changing task %s", task_id[:8])
    return None


async def hand_over(
    server: MCPServer, task_id: str, step: Step, exchange: Exchange | None
) -> Task | None:
    """Have a task take a step and a run work on it after that; without a run it has not happened.

    Returns:
        The task after the step; None when it could not take it.

    Raises:
        Exception: what the runner raised. The task is as it was before, to be tried again.
    """
    before: Task | None = None

    def remember(task: Task, now_s: float) -> Task | None:
        nonlocal before
        before = task
        return step(task, now_s)

    changed = await advance(server, task_id, remember)
    if changed is None or changed.status != WORKING:
        return changed
    try:
        await server.runner.start(server, changed, exchange)
    except BaseException:
        await advance(
            server,
            task_id,
            lambda task, _now_s: before if task.version == changed.version else None,
        )
        raise
    return changed


def _tell(server: MCPServer, task: Task, *, has_moved: bool) -> None:
    server.hub.followers.wake(stream_of(task.id), everywhere=True)
    rules = rules_of(task)
    if has_moved and task.is_final:
        server.hub.tell("task", id=task.id)
    if has_moved and rules.by_client and task.session is not None:
        notice = Change(
            server=task.server,
            method="notifications/tasks/status",
            params=to_wire(task, rules),
            session=task.session,
        )
        server.hub.announce(notice)


def stream_of(task_id: str) -> str:
    """Return what followers of a task follow."""
    return f"task-{task_id}"


def rules_of(task: Task) -> TaskRules:
    """Return how the revision of a task has tasks."""
    revision = find_revision(task.revision)
    if revision is None or revision.tasks is None:
        raise ValueError(f"no tasks at {task.revision}")
    return revision.tasks


def to_wire(task: Task, rules: TaskRules) -> JSONObject:
    """Return a task without its outcome."""
    return task_to_wire(
        rules,
        task_id=task.id,
        status=task.status,
        message=task.status_message,
        created_s=task.created_s,
        updated_s=task.updated_s,
        ttl_ms=task.ttl_ms,
        poll_ms=task.poll_ms,
    )


def refuse_undeclared(ctx: Context[Any]) -> Refusal | None:
    """Return what a client is told that did not declare to know tasks; None when it did."""
    rules = ctx.rules.tasks
    extension = rules.extension if rules is not None else None
    if extension is None or extension in ctx.client_extensions:
        return None
    return Refusal(
        code=MISSING_CLIENT_CAPABILITY,
        message="This needs a client that knows tasks",
        data={"requiredCapabilities": {"extensions": {extension: {}}}},
    )


async def find_own(ctx: Context[Any]) -> Task | Refusal:
    """Return the task that a request names; a foreign one is as unknown as one that never was."""
    task_id = ctx.params.get("taskId")
    if type(task_id) is not str:
        return Refusal(code=INVALID_PARAMS, message="taskId must be a string")
    found = await find_own_all(ctx, [task_id])
    return found[0] if found else UNKNOWN_TASK


async def find_own_all(ctx: Context[Any], task_ids: list[str]) -> list[Task]:
    """Return those of the tasks that are there for who asks, each once."""
    # What cannot be an id is not looked up: PostgreSQL takes no U+0000.
    wanted = [each for each in dict.fromkeys(task_ids) if _ID.fullmatch(each)]
    found = await ctx.server.tasks.find(wanted) if wanted else {}
    own = [found[key] for key in wanted if key in found and _is_own(ctx, found[key])]
    return [await look_after(ctx.server, ctx.exchange, task) for task in own]


def _is_own(ctx: Context[Any], task: Task) -> bool:
    if task.server != ctx.server.name or rules_of(task) is not ctx.rules.tasks:
        return False
    if task.owner != ctx.server.access.identify(ctx.principal):
        return False
    if task.owner is not None or task.session is None:
        # Of nobody in particular, and in no session: its id is what opens it.
        return True
    return isinstance(ctx.connection, Session) and ctx.connection.key == task.session


async def look_after(server: MCPServer, exchange: Exchange | None, task: Task) -> Task:
    """Return a task, begun again or ended where the process that ran it has gone."""
    if not task.is_orphaned(server.clock()):
        return task
    entry = server.registry.tools.get(task.tool)
    if entry is not None and entry.may_run_again:
        run = new_id() if server.runner.is_here else None
        try:
            again = await hand_over(
                server, task.id, lambda each, now_s: each.take_over(run, now_s), exchange
            )
        except Exception:
            # Whoever looks next tries again; what it is can be told all the same.
            logger.exception("Could not begin task %s again", task.id[:8])
            return task
        if again is not None:
            logger.warning("Task %s (tool %s) is begun again", task.id[:8], task.tool)
            return again

    def end(each: Task, now_s: float) -> Task | None:
        return each.fail(None, STOPPED, now_s) if each.is_orphaned(now_s) else None

    ended = await advance(server, task.id, end)
    if ended is not None:
        logger.warning("Task %s (tool %s) failed: its worker has gone", task.id[:8], task.tool)
        return ended
    return (await server.tasks.find((task.id,))).get(task.id, task)


def encode_about(task_id: str, method: str, params: JSONObject, related_key: str) -> bytes:
    """Return a notification that says which task it belongs to."""
    meta = {**params.get("_meta", {}), related_key: {"taskId": task_id}}
    return encode_notification(method, {**params, "_meta": meta})
