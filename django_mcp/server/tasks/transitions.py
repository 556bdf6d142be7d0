"""Change tasks in their store, notify those who wait, and encode tasks."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from django_mcp.protocol.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_CLIENT_CAPABILITY,
    Refusal,
)
from django_mcp.protocol.json import JSONObject, decode
from django_mcp.protocol.messages import encode_notification
from django_mcp.protocol.revisions import find_revision
from django_mcp.protocol.tasks import COMPLETED, FAILED, INPUT_REQUIRED, TaskRules, task_to_wire
from django_mcp.server.exchange.task import Step, Task
from django_mcp.server.streams.stream import Change

if TYPE_CHECKING:
    from django_mcp.server.exchange.call import Call
    from django_mcp.server.services.services import Services

__all__ = [
    "POLL_S",
    "STOPPED",
    "UNKNOWN_TASK",
    "advance",
    "encode_about",
    "refuse_undeclared",
    "rules_of",
    "stream_of",
    "to_detailed",
    "to_wire",
]

logger = logging.getLogger("django_mcp")

POLL_S = 2.0
"""How often a task is looked at while somebody waits for it, whatever word comes of it."""

MAX_TRIES = 50


UNKNOWN_TASK = Refusal(code=INVALID_PARAMS, message="Unknown task")
STOPPED = Refusal(code=INTERNAL_ERROR, message="The worker that ran this has stopped")


async def advance(server: Services, task_id: str, step: Step) -> Task | None:
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


def _tell(server: Services, task: Task, *, has_moved: bool) -> None:
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


def to_detailed(task: Task, rules: TaskRules) -> JSONObject:
    """Return a task with what its status brings: its result, its error, or what it asks."""
    wire = to_wire(task, rules)
    if task.status == INPUT_REQUIRED:
        wire["inputRequests"] = {
            key: {name: ask[name] for name in ("method", "params") if name in ask}
            for key, ask in task.due.items()
        }
    elif task.status == COMPLETED and task.result is not None:
        wire["result"] = decode(task.result)
    elif task.status == FAILED:
        wire["error"] = task.error
    return wire


def refuse_undeclared(call: Call) -> Refusal | None:
    """Return what a client is told that did not declare to know tasks; None when it did."""
    rules = call.rules.tasks
    extension = rules.extension if rules is not None else None
    if extension is None or extension in call.client_extensions:
        return None
    return Refusal(
        code=MISSING_CLIENT_CAPABILITY,
        message="This needs a client that knows tasks",
        data={"requiredCapabilities": {"extensions": {extension: {}}}},
    )


def encode_about(task_id: str, method: str, params: JSONObject, related_key: str) -> bytes:
    """Return a notification that says which task it belongs to."""
    meta = {**params.get("_meta", {}), related_key: {"taskId": task_id}}
    return encode_notification(method, {**params, "_meta": meta})
