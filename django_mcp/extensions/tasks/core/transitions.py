"""Change tasks in their store, notify clients of them, and encode tasks."""

from __future__ import annotations

from django_mcp.extensions.tasks.core.ports import ports_of
from django_mcp.extensions.tasks.core.shapes import (
    COMPLETED,
    EXTENSION,
    FAILED,
    INPUT_REQUIRED,
    RELATED_TASK,
    RULES,
    TaskRules,
    to_moment,
)
from django_mcp.extensions.tasks.core.task import Step, Task
from django_mcp.protocol.errors import (
    INTERNAL_ERROR,
    Refusal,
    invalid_params,
)
from django_mcp.protocol.json import JSONObject, decode
from django_mcp.protocol.messages import encode_notification
from django_mcp.protocol.records import Record
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.session import Session
from django_mcp.server.services import ServerHub, Services
from django_mcp.server.streams.stream import Change

POLL_S = 2.0
"""How often a task is read from its store while a client waits for it, even if no message came."""

UNKNOWN_TASK = invalid_params("Unknown task")
STOPPED = Refusal(code=INTERNAL_ERROR, message="The worker that ran this has stopped")


async def advance(
    server: Services, task_id: str, step: Step, *, may_defer: bool = True, size: int = 0
) -> Task | None:
    """Change a task by a step, and return it as it is then; None when it could not take the step.

    See `TaskStore.change`.
    """
    task_changed = await ports_of(server).store.change(
        task_id, step, server.ports.clock, may_defer=may_defer, size=size
    )
    if task_changed is None:
        return None
    task, changed = task_changed
    if changed.updated_s != task.updated_s or changed.status != task.status:
        _tell(server, changed, has_moved=changed.status != task.status)
    return changed


def _tell(server: Services, task: Task, *, has_moved: bool) -> None:
    server.hub.followers.wake(stream_of(task.id), everywhere=True)
    if has_moved and task.is_final:
        server.tell(EXTENSION, {"ended": task.id})
    if has_moved and rules_of(task).by_client and task.session is not None:
        _announce(server.hub, task, "notifications/tasks/status", to_wire(task))


def _announce(hub: ServerHub, task: Task, method: str, params: JSONObject) -> None:
    hub.announce(Change(server=task.server, method=method, params=params, session=task.session))


def stream_of(task_id: str) -> str:
    """Return the id of the stream of a task's changes, for followers."""
    return f"task-{task_id}"


def rules_of(task: Task) -> TaskRules:
    """Return how the revision of a task has tasks."""
    return RULES[task.revision]


def to_wire(task: Task) -> JSONObject:
    """Return a task without its outcome, in the form of a revision."""
    rules = rules_of(task)
    wire: JSONObject = {"taskId": task.id, "status": task.status}
    if task.status_message:
        wire["statusMessage"] = task.status_message
    wire["createdAt"] = to_moment(task.created_s)
    wire["lastUpdatedAt"] = to_moment(task.updated_s)
    wire[rules.ttl_key] = task.ttl_ms
    wire[rules.poll_key] = task.poll_ms
    return wire


def to_detailed(task: Task) -> JSONObject:
    """Return a task with its result, its error or its questions, depending on its status."""
    wire = to_wire(task)
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


class TaskSink(Record):
    """A `Sink` that sends each message of a task on one of the streams that its client has open.

    That is the stream of a request that waits for the result, if there is one. Where tasks are an
    extension, a client gets no messages of them.
    """

    _hub: ServerHub
    _task: Task
    _connection: ConnectionState | None

    async def send(self, message: bytes) -> None:
        hub, task, connection = self._hub, self._task, self._connection
        if not rules_of(task).by_client:
            return
        wire = decode(message)
        method, params = wire["method"], wire["params"]
        meta = {**params.get("_meta", {}), RELATED_TASK: {"taskId": task.id}}
        params = {**params, "_meta": meta}
        if hub.followers.has(stream_of(task.id)):
            hub.followers.show(stream_of(task.id), encode_notification(method, params))
        elif task.session is not None:
            _announce(hub, task, method, params)
        elif connection is not None and not isinstance(connection, Session):
            stream = hub.streams.get(connection.stream_id or "")
            if stream is not None:
                stream.offer(encode_notification(method, params))
