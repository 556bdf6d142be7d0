"""Run tasks: claim one, call its tool, renew its lease, and store its result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, cast

from msgspec import field

from django_mcp.extensions.tasks.core.ports import ports_of
from django_mcp.extensions.tasks.core.shapes import COMPLETED, EXTENSION, FAILED, RULES
from django_mcp.extensions.tasks.core.task import LEASE_S, Step, Task, new_id
from django_mcp.extensions.tasks.core.transitions import STOPPED, TaskSink, advance
from django_mcp.log import logger
from django_mcp.protocol.asks import Ask
from django_mcp.protocol.errors import FAULT, INTERNAL_ERROR, Refusal, invalid_params
from django_mcp.protocol.json import decode
from django_mcp.protocol.messages import Request
from django_mcp.protocol.records import Record
from django_mcp.protocol.revisions import find_revision
from django_mcp.registry.entries import ToolEntry
from django_mcp.server.exchange.call import FailureKind, RetryAnswers, Spawned
from django_mcp.server.exchange.caller import Caller, key_of
from django_mcp.server.exchange.channel import Channel
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.timers import wait_up_to
from django_mcp.server.handlers.tools import run_tool
from django_mcp.server.methods.added import call_wrapped
from django_mcp.server.operations import Outcome
from django_mcp.server.ports import StoreUnavailable
from django_mcp.server.services import ServedCall, ServerHub, Services

BEAT_S = 2.0
"""Period in which a run renews its lease and finds out whether it should stop."""

RENEW_WITHIN_S = 5.0
"""How long a transaction waits for its run to renew a lease that may have lapsed."""

NOTE_S = 1.0
"""Minimum time between two updates of a task's status message."""

HAND_BACK_S = 1.5
"""How long tasks may take to stop when their process is about to end."""

MAX_WRITES = 5
"""How often writing the end of a run is tried while the store is unavailable."""

_NOT_RENEWED = "Could not renew the lease of task %s (tool %s), nor store its progress: %s"

_GONE = invalid_params("The tool is not there any more")


class TaskRun(Record):
    """One run of a task's tool; see `Run`.

    Attributes:
        asks, state: the questions that the handler ended with, if it did, and its state.
        is_stopped: its result is not needed any more.
        is_handed_back: its process is about to end, so that another is to continue the task.
        renewed_s: when it last renewed its lease, by the monotonic clock.
    """

    server: Services
    id: str
    task: Task
    call: ServedCall
    asks: Mapping[str, Ask] | None = None
    state: Any = None
    message: str | None = None
    loop: asyncio.AbstractEventLoop | None = None
    is_stopped: bool = False
    is_handed_back: bool = False
    renewed_s: float = field(default_factory=time.monotonic)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        # The call is that of a task from now on, which sends messages and progress.
        call = self.call
        call.detached_run = self
        call.on_progress = self.note
        call.exchange.channel.sink = TaskSink(self.server.hub, self.task, call.exchange.connection)

    @property
    def key(self) -> str:
        """See `DetachedRun.key`."""
        return self.task.id

    def note(self, message: str) -> None:
        self.message = message
        self._news.set()

    def park(self, asks: Mapping[str, Ask], state: Any) -> None:
        self.asks, self.state = asks, state

    async def keep(self, answers: RetryAnswers) -> None:
        await advance(self.server, self.task.id, lambda each, _now_s: each.keep(self.id, answers))

    def stop(self) -> None:
        self.is_stopped = True
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self.call.cancel)

    def is_lost(self) -> bool:
        if self.loop is None or time.monotonic() - self.renewed_s < LEASE_S:
            return self.is_stopped
        # The process may have been paused, and its task given to another.
        asked = asyncio.run_coroutine_threadsafe(self._renew(), self.loop)
        try:
            return asked.result(RENEW_WITHIN_S) is None
        except Exception:  # noqa: BLE001 - the run goes on unless the store says that it has lost the task
            return False

    async def _renew(self) -> Task | None:
        """Renew the lease, and return the task; None: it has ended or has another run, so this is stopped."""
        began_s = time.monotonic()
        renewed = await advance(
            self.server, self.task.id, lambda each, now_s: each.renew(self.id, now_s, self.message)
        )
        if renewed is None:
            self.stop()
        else:
            self.renewed_s = began_s
        return renewed

    def join_hub(self) -> None:
        """Add the call to those of this process: with each beat, as the hub may have started anew."""
        self.server.join_hub().calls.add(self.call, self)

    async def beat(self) -> None:
        """Renew the lease of the run until it ends; stop the run when the task has ended."""
        is_reported = False
        while True:
            await wait_up_to(BEAT_S, self._news.wait())
            self._news.clear()
            self.join_hub()
            try:
                renewed = await self._renew()
            except StoreUnavailable as error:
                if not is_reported:
                    is_reported = True
                    logger.warning(_NOT_RENEWED, self.task.id[:8], self.task.tool, error.message)
                continue
            except Exception:
                logger.exception("Could not renew the lease of task %s", self.task.id[:8])
                continue
            if renewed is None:
                return
            await asyncio.sleep(NOTE_S)


def runs_of(hub: ServerHub) -> list[TaskRun]:
    """Return the runs of tasks in this process."""
    return [call.detached_run for call in hub.calls if isinstance(call.detached_run, TaskRun)]


def stop_run(hub: ServerHub, task_id: str) -> None:
    """Stop the run of a task if it is in this process."""
    for run in runs_of(hub):
        if run.task.id == task_id:
            run.stop()


async def hand_back_runs(hub: ServerHub) -> None:
    """Stop the runs of this process, which is about to end, and wait until that is written.

    A task that may run again is left for another worker; any other fails.
    """
    runs = [run for run in runs_of(hub) if not run.is_handed_back]
    for run in runs:
        run.is_handed_back = True
        run.stop()
    until_s = time.monotonic() + HAND_BACK_S
    while any(run.call.detached_run is run for run in runs):
        if time.monotonic() > until_s:
            logger.warning("Tasks did not stop in time; another worker finds them when they lapse")
            return
        await asyncio.sleep(0.02)


async def execute(
    server: Services, task_id: str, exchange: Exchange | None = None, run_id: str | None = None
) -> None:
    """Run a task until it ends or asks something; do nothing if another run has claimed it."""
    own_id = run_id or new_id()
    try:
        if run_id is None:
            task = await advance(server, task_id, lambda each, now_s: each.claim(own_id, now_s))
        else:
            task = (await ports_of(server).store.find((task_id,))).get(task_id)
        if task is None or task.run != own_id:
            return
        run = await _prepare(server, own_id, task, exchange)
        if isinstance(run, Refusal):
            refusal = run
            await _write(server, task, lambda each, now_s: each.fail(own_id, refusal, now_s))
            return
        finishing = finish_run(run, lambda: asyncio.ensure_future(_call_tool(run)))
        await server.operations.run_task(run.call, task.call.get("trace"), finishing)
    except Exception:
        logger.exception("Could not run task %s", task_id[:8])


def _call_tool(run: TaskRun) -> Coroutine[Any, Any, bytes | Refusal]:
    """Run the tool of a task, through the other extensions that wrap it."""
    call, arguments = run.call, run.task.call["arguments"]
    entry = cast("ToolEntry", call.entry)
    wrapping = call.derived.wrapping
    active = () if wrapping is None else wrapping.find(entry.name, call)
    others = [extension for extension in active if extension.identifier != EXTENSION]
    return call_wrapped(call, entry, arguments, others, partial(run_tool, call, entry, arguments))


async def _prepare(
    server: Services, run_id: str, task: Task, given: Exchange | None
) -> TaskRun | Refusal:
    """Return the run of a task, with the context that its tool is called with, or why it is not called."""
    stored = task.call
    principal = (
        given.caller.principal
        if given is not None
        else await server.ports.access.revive(stored["principal"])
    )
    if principal is None or key_of(principal) != task.owner:
        return _GONE
    connection = given.connection if given is not None else None
    if task.session is not None and connection is None:
        connection = await server.ports.sessions.get(task.session)
    revision = find_revision(task.revision)
    if connection is None or connection.revision is not revision:
        connection = ConnectionState(
            revision,
            client_info=stored["client_info"],
            client_capabilities=stored["client_capabilities"],
            log_level=stored["log_level"],
        )
    exchange = Exchange(
        connection=connection,
        caller=Caller(
            principal=principal,
            address=None if given is None else given.caller.address,
            url_kwargs=stored.get("url_kwargs", {}) if given is None else given.caller.url_kwargs,
            is_of_tenant=stored.get("is_of_tenant", False),
            tenant=stored.get("tenant", ""),
        ),
        # A client that cannot be asked can still receive progress.
        channel=Channel(can_stream=True, is_buffered=not stored["can_ask"]),
    )
    visible = await server.refresh_visible(exchange)
    entry = server.registry.tools.get(task.tool)
    if entry is None or not visible.includes(entry):
        return _GONE
    params = {
        **stored.get("params", {}),
        "name": task.tool,
        "arguments": stored["arguments"],
        "_meta": dict(stored["meta"]),
    }
    message = Request(id=task.id, method="tools/call", params=params)
    call: ServedCall = server.make_call(exchange, message, connection)
    call.entry = entry
    call.is_large = stored.get("is_large", False)
    call.answers = task.read_answers()
    call.is_recorded = server.ports.find_observer() is not None
    return TaskRun(server, run_id, task, call)


async def finish_run(run: TaskRun, begin: Callable[[], Spawned[bytes | Refusal]]) -> Outcome:
    """Wait for the end of the call of a task, write its result or what it asks, and return it.

    Args:
        begin: begins the call, or returns the one that runs already.
    """
    server, task, call = run.server, run.task, run.call
    running = begin()
    run.loop = asyncio.get_running_loop()
    if call.deadline is not None and cast("ToolEntry", call.entry).timeout_s is None:
        # A call that became a task began with the deadline of a call.
        call.deadline.postpone(call.options.task_timeout_s)
    call.cancellable = running
    run.join_hub()
    beating = asyncio.ensure_future(run.beat())
    outcome: Outcome = None
    started = time.perf_counter()
    call.started_s = call.started_s or started
    try:
        try:
            outcome = await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            if not call.is_cancelled:
                raise
        except Exception:
            logger.exception("Could not run task %s", task.id[:8])
            outcome = FAULT
        size = len(outcome) if isinstance(outcome, bytes) else 0
        call.has_asked = run.asks is not None
        await _write(server, task, _last_step(run, call, outcome), size)
        return outcome
    finally:
        beating.cancel()
        server.hub.calls.discard(call, run)
        call.detached_run = None
        call.is_finished = True
        observer = server.ports.find_observer()
        if observer is not None and run.asks is None:
            observer(call, outcome, time.perf_counter() - started)


def _last_step(run: TaskRun, call: ServedCall, outcome: bytes | Refusal | None) -> Step:
    """Return the step of a task at the end of a run; without an outcome it was cancelled."""
    if run.is_handed_back and outcome is None:
        if cast("ToolEntry", call.entry).may_run_again:
            return lambda each, now_s: each.release(run.id, now_s)
        outcome = STOPPED
    if outcome is None or (run.is_stopped and not run.is_handed_back):
        # The task may have ended before, or another run may have it.
        return lambda each, now_s: each.give_up(run.id, now_s)
    asks, is_by_client = run.asks, RULES[call.rules.name].by_client
    if isinstance(outcome, bytes) and asks is not None:
        return lambda each, now_s: each.park(
            run.id, asks, run.state, call.answers, now_s, run.message
        )
    failure = call.failure
    if failure is not None and failure.kind is FailureKind.FAULT and not is_by_client:
        # Source: the extension: an error of the tool is a result, an internal error is not.
        outcome = Refusal(code=INTERNAL_ERROR, message=failure.message)
    if isinstance(outcome, Refusal):
        refusal = outcome
        return lambda each, now_s: each.fail(run.id, refusal, now_s)
    result, has_failed = outcome, is_by_client and decode(outcome).get("isError", False) is True
    status = FAILED if has_failed else COMPLETED
    return lambda each, now_s: each.complete(run.id, status, result, now_s, run.message)


async def _write(server: Services, task: Task, step: Step, size: int = 0) -> None:
    """Have the task take the last step of a run, even if the store is unavailable for a moment."""
    for tries in range(MAX_WRITES):
        try:
            await advance(server, task.id, step, size=size)
            return
        except Exception:
            if tries == MAX_WRITES - 1:
                raise
            logger.exception("Could not write the end of task %s; trying again", task.id[:8])
            await asyncio.sleep(2**tries / 4)
