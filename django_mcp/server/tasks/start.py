"""Start the runs of tasks, and look up the tasks of a caller."""

from __future__ import annotations

import logging
import re
from functools import partial
from typing import TYPE_CHECKING

from django_mcp.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, Refusal
from django_mcp.protocol.tasks import WORKING
from django_mcp.server.exchange.connection import Session
from django_mcp.server.exchange.task import Step, Task, new_id
from django_mcp.server.tasks.run import execute
from django_mcp.server.tasks.transitions import STOPPED, UNKNOWN_TASK, advance, rules_of

if TYPE_CHECKING:
    from django_mcp.server.exchange.call import Call
    from django_mcp.server.exchange.exchange import Exchange
    from django_mcp.server.services.services import Services

__all__ = [
    "NOT_STARTED",
    "NotStarted",
    "find_own",
    "find_own_all",
    "hand_over",
    "look_after",
    "start_run",
]

logger = logging.getLogger("django_mcp")

NOT_STARTED = Refusal(
    code=INTERNAL_ERROR,
    message="The task could not be started now: try again later",
    status=503,
    headers=((b"retry-after", b"2"),),
)


class NotStarted(Exception):
    """The runner of a server took no run of a task, as when its queue is away."""


_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What may be an id of ours; see `new_id`."""


async def start_run(server: Services, task: Task, exchange: Exchange | None) -> None:
    """Have the runner of a server run a task.

    Raises:
        NotStarted: the runner does not.
    """
    run = partial(execute, server, task.id, exchange, task.run)
    try:
        await server.runner.start(task, exchange, run)
    except Exception as error:
        raise NotStarted from error


async def hand_over(
    server: Services, task_id: str, step: Step, exchange: Exchange | None
) -> Task | None:
    """Have a task take a step and a run work on it after that; without a run it has not happened.

    Returns:
        The task after the step; None when it could not take it.

    Raises:
        NotStarted: the runner does not run it. The task is as it was before, to be tried again.
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
        await start_run(server, changed, exchange)
    except BaseException:
        await advance(
            server,
            task_id,
            lambda task, _now_s: before if task.version == changed.version else None,
        )
        raise
    return changed


async def find_own(server: Services, call: Call) -> Task | Refusal:
    """Return the task that a request names; a foreign one is as unknown as one that never was."""
    task_id = call.params.get("taskId")
    if type(task_id) is not str:
        return Refusal(code=INVALID_PARAMS, message="taskId must be a string")
    found = await find_own_all(server, call, [task_id])
    return found[0] if found else UNKNOWN_TASK


async def find_own_all(server: Services, call: Call, task_ids: list[str]) -> list[Task]:
    """Return those of the tasks that the principal may see, each once."""
    # What cannot be an id is not looked up: PostgreSQL takes no U+0000.
    wanted = [each for each in dict.fromkeys(task_ids) if _ID.fullmatch(each)]
    found = await server.tasks.find(wanted) if wanted else {}
    own = [found[key] for key in wanted if key in found and _is_own(server, call, found[key])]
    return [await look_after(server, call.exchange, task) for task in own]


def _is_own(server: Services, call: Call, task: Task) -> bool:
    if task.server != server.name or rules_of(task) is not call.rules.tasks:
        return False
    if task.owner != server.access.identify(call.exchange.principal):
        return False
    if task.owner is not None or task.session is None:
        # Of nobody in particular, and in no session: its id is what opens it.
        return True
    return isinstance(call.connection, Session) and call.connection.key == task.session


async def look_after(server: Services, exchange: Exchange | None, task: Task) -> Task:
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
            # The next look tries again; the task as it is can still be returned.
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
