"""Make tasks of calls, start their runs, find those of a caller, and settle those whose worker has ended."""

from __future__ import annotations

import asyncio
import re
from functools import partial

from django_mcp.extensions.tasks.core.ports import ports_of
from django_mcp.extensions.tasks.core.run import TaskRun, execute, finish_run, runs_of
from django_mcp.extensions.tasks.core.shapes import (
    EXTENSION,
    NEVER,
    REQUIRED,
    RULES,
    WORKING,
    read_ttl_ms,
    support_of,
)
from django_mcp.extensions.tasks.core.task import LEASE_S, Step, Task, new_id
from django_mcp.extensions.tasks.core.transitions import (
    STOPPED,
    UNKNOWN_TASK,
    advance,
    rules_of,
    to_wire,
)
from django_mcp.log import logger
from django_mcp.protocol import meta as keys
from django_mcp.protocol.errors import (
    METHOD_NOT_FOUND,
    Refusal,
    invalid_params,
    invalid_request,
    try_later,
)
from django_mcp.protocol.json import JSONObject, present
from django_mcp.registry.entries import ToolEntry
from django_mcp.server.exchange.caller import key_of
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.quotas import CountLimits
from django_mcp.server.exchange.session import Session
from django_mcp.server.extension import NextCall, check_declared
from django_mcp.server.ports import StoreUnavailable
from django_mcp.server.services import ServedCall, Services

NOT_STARTED = try_later("The task could not be started now: try again later", 2)


class NotStarted(Exception):
    """The runner of a server did not start a task, as when its queue is unavailable."""


_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The form of a task's id; see `new_id`."""


async def start_run(
    server: Services, task: Task, exchange: Exchange | None, otherwise: Step
) -> None:
    """Start a task with the runner of its server. If that fails, apply `otherwise` and raise `NotStarted`."""
    run = partial(execute, server, task.id, exchange, task.run)
    try:
        await ports_of(server).runner.start(task, exchange, run)
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
    server: Services,
    task_id: str,
    step: Step,
    exchange: Exchange | None,
    *,
    may_defer: bool = True,
    size: int = 0,
) -> Task | None:
    """Change a task by a step, unless it cannot take it, and start a run if it is working then.

    Raises `NotStarted` if the runner did not start it; it is as it was before, to be tried again.
    """
    before: Task | None = None

    def remember(task: Task, now_s: float) -> Task | None:
        nonlocal before
        before = task
        return step(task, now_s)

    changed = await advance(server, task_id, remember, may_defer=may_defer, size=size)
    if changed is not None and changed.status == WORKING:
        await start_run(server, changed, exchange, lambda _task, _now_s: before)
    return changed


async def find_own(call: ServedCall) -> Task | Refusal:
    """Return the task that a request names; that of another principal is unknown."""
    task_id = call.params.get("taskId")
    if type(task_id) is not str:
        return invalid_params("taskId must be a string")
    own_all = await find_own_all(call, [task_id])
    return own_all[0] if own_all else UNKNOWN_TASK


async def find_own_all(call: ServedCall, task_ids: list[str]) -> list[Task]:
    """Return the tasks that the principal may see, each once."""
    server = call.server
    # Other texts are not looked up: PostgreSQL refuses U+0000.
    wanted = [task_id for task_id in dict.fromkeys(task_ids) if _ID.fullmatch(task_id)]
    tasks_found = await ports_of(server).store.find(wanted) if wanted else {}
    own = [
        tasks_found[key] for key in wanted if key in tasks_found and _is_own(call, tasks_found[key])
    ]
    return [await settle(server, call.exchange, task) for task in own]


def _is_own(call: ServedCall, task: Task) -> bool:
    if task.server != call.server.name or not is_shown(call, task):
        return False
    if task.owner != key_of(call.exchange.caller.principal):
        return False
    if task.owner is not None or task.session is None:
        # An anonymous task outside of a session is protected by its id alone.
        return True
    return isinstance(call.connection, Session) and call.connection.key == task.session


def is_shown(call: ServedCall, task: Task) -> bool:
    """Return whether a task is of the call's revision and URL, and of a tool that the principal may see now.

    Since the task was started, the principal may have lost the permission, its key may have been
    restricted, and the tool may have been disabled.
    """
    if rules_of(task) is not RULES.get(call.rules.name):
        return False
    # The URL may name what the caller acts in, such as a tenant, and the task would go on in it.
    if task.call.get("url_kwargs", {}) != _find_url_kwargs(call):
        return False
    if task.call.get("tenant", "") != call.exchange.caller.tenant:
        return False
    registry, visible = call.server.registry, call.exchange.caller.visible
    tool = registry.tools.get(task.tool)
    if tool is not None:
        return visible.includes(tool)
    # Another release of the site may have a tool that this one does not have.
    return task.tool not in registry.registered["tools"] and visible.names_tool(task.tool)


async def settle(
    server: Services, exchange: Exchange | None, task: Task, *, may_extend: bool = True
) -> Task:
    """Return a task, after starting it again or ending it if its worker has ended.

    A run of this process has not ended, and any other gets its lease extended first if it `may_extend`.
    """
    if not task.is_orphaned(server.ports.clock()) or any(
        run.id == task.run for run in runs_of(server.hub)
    ):
        return task
    try:
        # Its worker can write no more than this one while the store is locked.
        extended = None
        if may_extend:
            extended = await advance(server, task.id, Task.extend, may_defer=False)
        return extended or await _replace_run(server, exchange, task)
    except StoreUnavailable:
        return task


async def _replace_run(server: Services, exchange: Exchange | None, task: Task) -> Task:
    """Start a task again, or end it: its worker has ended."""
    entry = server.registry.tools.get(task.tool)
    if entry is not None and entry.may_run_again:
        run = new_id() if ports_of(server).runner.is_here else None
        try:
            again = await hand_over(
                server,
                task.id,
                lambda each, now_s: each.take_over(run, now_s),
                exchange,
                may_defer=False,
            )
        except StoreUnavailable:
            raise
        except Exception:
            # The next request for it tries again.
            logger.exception("Could not start task %s again", task.id[:8])
            return task
        if again is not None:
            logger.warning("Task %s (tool %s) was started again", task.id[:8], task.tool)
            return again

    def end(each: Task, now_s: float) -> Task | None:
        return each.fail(None, STOPPED, now_s) if each.is_orphaned(now_s) else None

    ended = await advance(server, task.id, end, may_defer=False)
    if ended is not None:
        logger.warning("Task %s (tool %s) failed: its worker has ended", task.id[:8], task.tool)
        return ended
    return (await ports_of(server).store.find((task.id,))).get(task.id, task)


SWEEP_EVERY_S = 10.0
"""How often each process searches for tasks whose lease has lapsed."""

SWEPT_AT_ONCE = 100


class Sweeper:
    """Settles the tasks of a server regularly, whose worker may have ended."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next_s = 0.0
        self._running: asyncio.Task[None] | None = None

    def tick(self, server: Services) -> None:
        """Start a sweep if it is time."""
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        if self._loop is not loop:
            # The first sweep of a process is not at once: other processes sweep too.
            self._loop, self._next_s = loop, now_s + SWEEP_EVERY_S
        if now_s < self._next_s or (self._running is not None and not self._running.done()):
            return
        self._next_s = now_s + SWEEP_EVERY_S
        if any(support_of(tool) != NEVER for tool in server.registry.tools.values()):
            self._running = server.hub.spawn(_sweep_quietly(server))


async def _sweep_quietly(server: Services) -> None:
    try:
        await sweep_tasks(server)
    except StoreUnavailable:
        # The next sweep tries again.
        return
    except Exception:
        logger.exception("Could not settle the tasks of workers that have ended")


async def sweep_tasks(server: Services, *, may_begin: bool = True, may_extend: bool = True) -> int:
    """Start tasks again, or end them, whose worker has ended; return how many were settled.

    Unless they `may_begin` again here, they are left for a worker. Tasks of a tenant start again only
    when a client of that tenant requests them. With `may_extend`, they first get the time to renew
    their lease.
    """
    settled = 0
    for task in await ports_of(server).store.find_lapsed(server.name, SWEPT_AT_ONCE):
        tool = server.registry.tools.get(task.tool)
        may_run_again = tool is not None and tool.may_run_again
        if may_run_again and (not may_begin or task.call.get("is_of_tenant")):
            continue
        after = await settle(server, None, task, may_extend=may_extend)
        settled += after.is_final or after.run != task.run
    return settled


async def call_with_tasks(
    call: ServedCall,
    entry: ToolEntry,
    arguments: JSONObject,
    run: NextCall,
) -> bytes | Refusal:
    """Run a call that may become a task; return its result, or the task."""
    rules, support = RULES.get(call.rules.name), support_of(entry)
    ttl_ms: int | None = None
    is_by_client = rules is not None and rules.by_client
    undeclared = None if rules is None else check_declared(call.server.extensions[EXTENSION], call)
    if is_by_client:
        is_task = "task" in call.params
    else:
        is_task = rules is not None and undeclared is None and support != NEVER
    if not is_task:
        if support != REQUIRED:
            return await run()
        message = f"Tool {entry.name} can only run as a task"
        return undeclared or Refusal(code=METHOD_NOT_FOUND, message=message)
    if is_by_client:
        if support == NEVER:
            message = f"Tool {entry.name} cannot run as a task"
            return Refusal(code=METHOD_NOT_FOUND, message=message)
        wanted = read_ttl_ms(call.params["task"])
        if isinstance(wanted, str):
            return invalid_params(wanted)
        ttl_ms = wanted
    refusal = call.connection.limit_details()
    if refusal is not None:
        return refusal
    if support == "auto" and not is_by_client:
        return await _run_for_a_while(call, entry, arguments, run)
    return await _make(call, entry, arguments, ttl_ms)


async def _make(
    call: ServedCall, entry: ToolEntry, arguments: JSONObject, ttl_ms: int | None
) -> bytes | Refusal:
    server = call.server
    run_id = new_id() if ports_of(server).runner.is_here else None
    task = await _insert(call, entry, arguments, ttl_ms, run_id)
    if task is None:
        return invalid_request("Too many tasks are running: wait for one to end, or cancel it")
    try:
        # If it is not started it fails, since no client knows its id to end it.
        await start_run(
            server, task, call.exchange, lambda each, now_s: each.fail(None, NOT_STARTED, now_s)
        )
    except NotStarted:
        logger.exception("Could not start a task of tool %s", entry.name)
        return NOT_STARTED
    call.is_answered_early = True
    return _encode(call, task)


async def _insert(
    call: ServedCall,
    entry: ToolEntry,
    arguments: JSONObject,
    ttl_ms: int | None,
    run_id: str | None,
) -> Task | None:
    """Store a call as a task and return it; None: there are too many."""
    server, options = call.server, call.options
    now_s, owner = server.ports.clock(), key_of(call.exchange.caller.principal)
    most_ms = int(options.task_ttl_s * 1000)
    task = Task(
        id=new_id(),
        server=server.name,
        owner=owner,
        quota_key=call.exchange.caller.quota_key,
        session=call.connection.key if isinstance(call.connection, Session) else None,
        revision=call.rules.name,
        tool=entry.name,
        call={
            "arguments": arguments,
            "params": _find_params(call),
            "is_large": call.is_large,
            # The client is kept apart, within its limits.
            "meta": {
                key: value
                for key, value in call.meta.items()
                if key not in (keys.CLIENT_INFO, keys.CLIENT_CAPABILITIES)
            },
            "client_info": call.connection.client_info,
            "client_capabilities": call.connection.client_capabilities,
            "log_level": call.connection.log_level,
            "can_ask": call.has_back_channel,
            "is_of_tenant": call.exchange.caller.is_of_tenant,
            "tenant": call.exchange.caller.tenant,
            "url_kwargs": _find_url_kwargs(call),
            "principal": server.ports.access.describe(call.exchange.caller.principal),
            **present(trace=server.operations.carry()),
        },
        created_s=now_s,
        updated_s=now_s,
        ttl_ms=most_ms if ttl_ms is None else min(ttl_ms, most_ms),
        poll_ms=int(options.task_poll_s * 1000),
        run=run_id,
        lease_s=None if run_id is None else now_s + LEASE_S,
    )
    limits = CountLimits.of(
        options.max_tasks, options.max_tasks_per_principal, options.anonymous_share
    )
    return task if await ports_of(server).store.insert(task, limits) else None


def _find_url_kwargs(call: ServedCall) -> dict[str, str]:
    """Return what the pattern of the URL captured, as tasks have it."""
    return {key: str(value) for key, value in call.exchange.caller.url_kwargs.items()}


def _find_params(call: ServedCall) -> JSONObject:
    """Return the params of a call that are for other extensions, which wrap the run of its task."""
    wrapping = call.derived.wrapping
    names = () if wrapping is None else wrapping.by_param.keys() - {"task"}
    return {name: call.params[name] for name in names if name in call.params}


def _encode(call: ServedCall, task: Task) -> bytes:
    wire = to_wire(task)
    if rules_of(task).by_client:
        return call.server.encode_result({"task": wire}, call.rules)
    return call.server.encode_interim({"resultType": "task", **wire}, call.rules)


async def _run_for_a_while(
    call: ServedCall,
    entry: ToolEntry,
    arguments: JSONObject,
    run: NextCall,
) -> bytes | Refusal:
    """Return the result if the call does not take long, else a task that goes on."""
    server, exchange = call.server, call.exchange
    progress: list[str] = []
    call.on_progress = progress.append
    # They would interrupt the asyncio task of the request.
    exchange.channel.timers = None
    running = ports_of(server).runner.spawn(run(), exchange)
    waiting = asyncio.wrap_future(running)
    try:
        await asyncio.wait((waiting,), timeout=call.options.task_after_s)
        if running.done():
            return running.result()
        run_id = new_id()
        task = await _insert(call, entry, arguments, None, run_id)
        if task is None:
            return await waiting
    except BaseException:
        running.cancel()
        raise
    if running.done():
        await advance(server, task.id, lambda each, now_s: each.cancel(now_s))
        return running.result()
    exchange.channel.cancels_on_disconnect = False
    call.is_answered_early = True
    task_run = TaskRun(server, run_id, task, call)
    if progress:
        task_run.note(progress[-1])
    finishing = finish_run(task_run, lambda: running)
    followed = server.operations.run_task(call, task.call.get("trace"), finishing)
    ports_of(server).runner.spawn(followed, exchange)
    return _encode(call, task)
