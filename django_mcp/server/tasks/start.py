"""Start the runs of tasks, find the tasks of a caller, and settle those whose worker has ended."""

from __future__ import annotations

import asyncio
import logging
import re
import weakref
from collections.abc import Callable
from functools import partial

from django_mcp.protocol.errors import Refusal, invalid_params, try_later
from django_mcp.protocol.tasks import NEVER, WORKING
from django_mcp.server.exchange.call import Call
from django_mcp.server.exchange.connection import Session
from django_mcp.server.exchange.exchange import Exchange, key_of
from django_mcp.server.exchange.task import Step, Task, new_id
from django_mcp.server.services.ports import StoreUnavailable
from django_mcp.server.services.services import ServerHub, Services
from django_mcp.server.tasks.run import execute
from django_mcp.server.tasks.transitions import STOPPED, UNKNOWN_TASK, advance, rules_of

logger = logging.getLogger("django_mcp")

NOT_STARTED = try_later("The task could not be started now: try again later", 2)


class NotStarted(Exception):
    """The runner of a server did not start a task, as when its queue is unavailable."""


_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The form of a task's id; see `new_id`."""


async def start_run(
    server: Services, task: Task, exchange: Exchange | None, otherwise: Step
) -> None:
    """Have the runner of a server run a task.

    Args:
        otherwise: the step of the task if the runner does not start it.

    Raises:
        NotStarted: the runner did not start it.
    """
    run = partial(execute, server, task.id, exchange, task.run)
    try:
        await server.runner.start(task, exchange, run)
    except BaseException as error:
        await advance(
            server,
            task.id,
            lambda each, now_s: otherwise(each, now_s) if each.version == task.version else None,
        )
        if isinstance(error, Exception):
            raise NotStarted from error
        raise


async def hand_over(
    server: Services, task_id: str, step: Step, exchange: Exchange | None
) -> Task | None:
    """Change a task by a step, and start a run if it is working then.

    Returns:
        The task after the step; None when it could not take it.

    Raises:
        NotStarted: the runner did not start it. The task is as it was before, to be tried again.
    """
    before: Task | None = None

    def remember(task: Task, now_s: float) -> Task | None:
        nonlocal before
        before = task
        return step(task, now_s)

    changed = await advance(server, task_id, remember)
    if changed is not None and changed.status == WORKING:
        await start_run(server, changed, exchange, lambda _task, _now_s: before)
    return changed


async def find_own(server: Services, call: Call) -> Task | Refusal:
    """Return the task that a request names; that of another principal is unknown."""
    task_id = call.params.get("taskId")
    if type(task_id) is not str:
        return invalid_params("taskId must be a string")
    found = await find_own_all(server, call, [task_id])
    return found[0] if found else UNKNOWN_TASK


async def find_own_all(server: Services, call: Call, task_ids: list[str]) -> list[Task]:
    """Return the tasks that the principal may see, each once."""
    # Other texts are not looked up: PostgreSQL refuses U+0000.
    wanted = [each for each in dict.fromkeys(task_ids) if _ID.fullmatch(each)]
    found = await server.tasks.find(wanted) if wanted else {}
    own = [found[key] for key in wanted if key in found and _is_own(server, call, found[key])]
    return [await settle(server, call.exchange, task) for task in own]


def _is_own(server: Services, call: Call, task: Task) -> bool:
    if task.server != server.name or rules_of(task) is not call.rules.tasks:
        return False
    if task.owner != key_of(call.exchange.principal):
        return False
    if task.owner is not None or task.session is None:
        # An anonymous task outside of a session is protected by its id alone.
        return True
    return isinstance(call.connection, Session) and call.connection.key == task.session


async def settle(server: Services, exchange: Exchange | None, task: Task) -> Task:
    """Return a task, after starting it again or ending it if its worker has ended."""
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
            # The next request for it tries again.
            logger.exception("Could not start task %s again", task.id[:8])
            return task
        if again is not None:
            logger.warning("Task %s (tool %s) was started again", task.id[:8], task.tool)
            return again

    def end(each: Task, now_s: float) -> Task | None:
        return each.fail(None, STOPPED, now_s) if each.is_orphaned(now_s) else None

    ended = await advance(server, task.id, end)
    if ended is not None:
        logger.warning("Task %s (tool %s) failed: its worker has ended", task.id[:8], task.tool)
        return ended
    return (await server.tasks.find((task.id,))).get(task.id, task)


SWEEP_EVERY_S = 10.0
"""How often each process searches for tasks whose lease has lapsed. Our own choice."""

SWEPT_AT_ONCE = 100


def make_sweep(server: Services) -> Callable[[ServerHub], None]:
    """Return a function for `Hub.on_tick` that settles the tasks of a server regularly."""
    reference = weakref.ref(server)
    next_s: float | None = None
    running: asyncio.Task[None] | None = None

    def sweep(hub: ServerHub) -> None:
        nonlocal next_s, running
        server, now_s = reference(), asyncio.get_running_loop().time()
        if next_s is None:
            # The first sweep of a process is not at once: other processes sweep too.
            next_s = now_s + SWEEP_EVERY_S
        if server is None or now_s < next_s or (running is not None and not running.done()):
            return
        next_s = now_s + SWEEP_EVERY_S
        if any(tool.task != NEVER for tool in server.registry.tools.values()):
            running = hub.spawn(_sweep_quietly(server))

    return sweep


async def _sweep_quietly(server: Services) -> None:
    try:
        await sweep_tasks(server)
    except StoreUnavailable:
        # The next sweep tries again.
        return
    except Exception:
        logger.exception("Could not settle the tasks of workers that have ended")


async def sweep_tasks(server: Services, *, may_begin: bool = True) -> int:
    """Start tasks again, or end them, whose worker has ended; return how many were settled.

    Tasks of a tenant start again only when a client of that tenant requests them.

    Args:
        server: where their tools are registered.
        may_begin: whether tasks may start again; else they are left for a worker.
    """
    settled = 0
    for task in await server.tasks.find_lapsed(server.name, SWEPT_AT_ONCE):
        tool = server.registry.tools.get(task.tool)
        may_run_again = tool is not None and tool.may_run_again
        if may_run_again and (not may_begin or task.call.get("is_of_tenant")):
            continue
        after = await settle(server, None, task)
        settled += after.version != task.version
    return settled
