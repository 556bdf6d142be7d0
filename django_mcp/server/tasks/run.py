"""Run tasks: claim one, call its tool, keep the claim alive, and write down how it ended."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from django_mcp.protocol import meta as keys
from django_mcp.protocol.asks import Ask
from django_mcp.protocol.errors import FAULT, INTERNAL_ERROR, INVALID_PARAMS, Refusal
from django_mcp.protocol.json import JSONObject, decode
from django_mcp.protocol.messages import Request
from django_mcp.protocol.revisions import find_revision
from django_mcp.protocol.tasks import COMPLETED, FAILED
from django_mcp.server.exchange.call import FailureKind
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.rounds import Answers
from django_mcp.server.exchange.task import Step, Task, new_id
from django_mcp.server.handlers.tools import run_tool
from django_mcp.server.tasks.sink import TaskSink
from django_mcp.server.tasks.transitions import STOPPED, advance

if TYPE_CHECKING:
    from django_mcp.server.exchange.call import Spawned
    from django_mcp.server.handlers.context import Context
    from django_mcp.server.services.services import Services

__all__ = ["TaskRun", "execute", "hand_back_runs", "see_through", "take_ended"]

logger = logging.getLogger("django_mcp")

BEAT_S = 2.0
"""How often a run says that it goes on, and looks whether it still should."""

NOTE_S = 1.0
"""How often what a run says of itself is written down at most. Our own limit."""

HAND_BACK_S = 1.5
"""How long tasks may take to stop when their process is about to end. Our own choice."""

MAX_WRITES = 5
"""How often the end of a run is tried to be written down while the store does not answer."""

_GONE = Refusal(code=INVALID_PARAMS, message="The tool is not there any more")

_runs: dict[str, TaskRun] = {}
"""What runs in this process, by the id of the task."""


class TaskRun:
    """One run of a task's tool, as its context knows it.

    Attributes:
        id: names the run where the task is kept.
        is_detached: the call is a task by now; before, it may still be answered directly.
        is_stopped: nobody waits for its result.
        is_handed_back: its process is about to end, so that another is to go on.
        asks, state: what the handler left to be asked, once it did.
        message: what it says of itself.
        loop: where it runs, once it does.
    """

    def __init__(self, server: Services, run_id: str | None = None) -> None:
        self.server = server
        self.id = run_id or new_id()
        self.task: Task | None = None
        self.ctx: Context[Any] | None = None
        self.asks: Mapping[str, Ask] | None = None
        self.state: Any = None
        self.message: str | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.is_stopped = False
        self.is_handed_back = False
        self._news = asyncio.Event()

    @property
    def is_detached(self) -> bool:
        return self.task is not None

    def attach(self, task: Task, ctx: Context[Any]) -> None:
        """Attach this run to a task."""
        self.task = task
        self.ctx = ctx
        ctx.run = self
        ctx.exchange.sink = TaskSink(self.server.hub, task, self.note, ctx.exchange.connection)
        _runs[task.id] = self

    def note(self, message: str) -> None:
        """Have clients see how far the work is."""
        self.message = message
        self._news.set()

    def park(self, asks: Mapping[str, Ask], state: Any) -> None:
        """Leave questions to be asked after this round."""
        self.asks, self.state = asks, state

    async def keep(self, answers: Answers) -> None:
        """Write down what was done once, so that it holds whatever becomes of this process."""
        if self.task is not None:
            await advance(
                self.server, self.task.id, lambda each, _now_s: each.keep(self.id, answers)
            )

    def stop(self) -> None:
        """Have the handler stop: nobody waits for its result. From any thread."""
        self.is_stopped = True
        if self.ctx is not None and self.loop is not None:
            self.loop.call_soon_threadsafe(self.ctx.cancel)

    def join_hub(self) -> None:
        """Join the calls of this process, which end when their principal loses its rights.

        Said again with each beat: the event loop that the hub lived on may have ended.
        """
        if self.ctx is not None:
            self.server.join_hub().calls.add(self.ctx)

    async def beat(self) -> None:
        """Say again and again that the run goes on; stop it when it should not."""
        if self.task is None:
            return
        task_id = self.task.id
        while True:
            try:
                async with asyncio.timeout(BEAT_S):
                    await self._news.wait()
            except TimeoutError:
                pass
            self._news.clear()
            self.join_hub()
            try:
                renewed = await advance(self.server, task_id, self._renew)
            except Exception:
                logger.exception("Could not write down that a task goes on")
                continue
            if renewed is None:
                self.stop()
                return
            await asyncio.sleep(NOTE_S)

    def _renew(self, task: Task, now_s: float) -> Task | None:
        return task.renew(self.id, now_s, self.message)


async def hand_back_runs(_hub: Any = None) -> None:
    """Stop what runs in this process, which is about to end, and wait until that is written down.

    A task that may run again is left for another worker to begin at once; any other fails now.
    """
    runs = list(_runs.values())
    for run in runs:
        run.is_handed_back = True
        run.stop()
    until_s = time.monotonic() + HAND_BACK_S
    while any(_runs.get(run.task.id) is run for run in runs if run.task is not None):
        if time.monotonic() > until_s:
            logger.warning("Tasks did not stop in time; another worker finds them when they lapse")
            return
        await asyncio.sleep(0.02)


def take_ended(message: JSONObject) -> None:
    """Stop what runs here for a task that was ended at another process."""
    run = _runs.get(message["id"])
    if run is not None:
        run.stop()


def stop_run(task_id: str) -> None:
    """Stop what runs for a task in this process, if anything does."""
    take_ended({"id": task_id})


async def execute(
    server: Services, task_id: str, exchange: Exchange | None = None, run_id: str | None = None
) -> None:
    """Run a task until it ends or asks; do nothing when somebody else does.

    Args:
        server: where its tool is registered.
        task_id: names it.
        exchange: of the request that made it, if that was in this process.
        run_id: the run that has claimed it; None: nothing has.
    """
    run = TaskRun(server, run_id)
    try:
        if run_id is None:
            task = await advance(server, task_id, lambda each, now_s: each.claim(run.id, now_s))
        else:
            task = (await server.tasks.find((task_id,))).get(task_id)
        if task is None or task.run != run.id:
            return
        ctx = await _prepare(run, task, exchange)
        if isinstance(ctx, Refusal):
            refusal = ctx
            await _write(run, task, lambda each, now_s: each.fail(run.id, refusal, now_s))
            return
        call = run_tool(ctx, server.registry.tools[task.tool], task.call["arguments"])
        await see_through(run, asyncio.ensure_future(call))
    except Exception:
        logger.exception("Could not run task %s", task_id[:8])


async def _prepare(run: TaskRun, task: Task, given: Exchange | None) -> Context[Any] | Refusal:
    """Return the context that a task's tool is called with, or why it is not called."""
    server, call = run.server, task.call
    principal = (
        given.principal if given is not None else await server.access.revive(call["principal"])
    )
    if principal is None or server.access.identify(principal) != task.owner:
        return _GONE
    kept = given.connection if given is not None else None
    if task.session is not None and kept is None:
        kept = await server.sessions.get(task.session)
    revision = find_revision(task.revision)
    connection = kept
    if connection is None or connection.revision is not revision:
        connection = ConnectionState(
            revision,
            client_info=call["client_info"],
            client_capabilities=call["client_capabilities"],
            log_level=call["log_level"],
        )
    exchange = Exchange(
        principal=principal,
        address=given.address if given is not None else None,
        url_kwargs=call["url_kwargs"] if given is None else given.url_kwargs,
        connection=connection,
        can_stream=True,
    )
    # Who cannot be asked can still see how far the work is.
    exchange.is_buffered = not call["can_ask"]
    offer = await server.refresh_offer(exchange)
    entry = server.registry.tools.get(task.tool)
    if entry is None or not offer.includes(entry):
        return _GONE
    meta = dict(call["meta"])
    meta.setdefault(keys.PROGRESS_TOKEN, task.id)
    params = {"name": task.tool, "arguments": call["arguments"], "_meta": meta}
    message = Request(id=task.id, method="tools/call", params=params)
    ctx = cast("Context[Any]", server.make_call(exchange, message, connection))
    ctx.entry = entry
    ctx.answers = task.read_answers()
    run.attach(task, ctx)
    return ctx


async def see_through(run: TaskRun, call: Spawned[bytes | Refusal]) -> None:
    """Wait for the end of a run that is a task's, and write down what it was."""
    task, ctx = run.task, run.ctx
    if task is None or ctx is None:
        raise TypeError("the run of no task")
    server = run.server
    run.loop = asyncio.get_running_loop()
    ctx.task = call
    run.join_hub()
    server.hub.on("task", take_ended)
    if hand_back_runs not in server.hub.on_stop:
        server.hub.on_stop.append(hand_back_runs)
    beating = asyncio.ensure_future(run.beat())
    outcome: bytes | Refusal | None = None
    started = time.perf_counter()
    try:
        try:
            outcome = await asyncio.wrap_future(call)
        except asyncio.CancelledError:
            if not ctx.is_cancelled:
                raise
        except Exception:
            logger.exception("Could not run task %s", task.id[:8])
            outcome = FAULT
        await _write(run, task, _last_step(run, outcome))
    finally:
        beating.cancel()
        server.hub.calls.discard(ctx)
        _runs.pop(task.id, None)
        ctx.run = None
        ctx.is_finished = True
        observer = server.find_observer()
        if observer is not None and run.asks is None:
            observer.answered(ctx, outcome, time.perf_counter() - started)


def _last_step(run: TaskRun, outcome: bytes | Refusal | None) -> Step:
    ctx = run.ctx
    if run.is_handed_back and outcome is None:
        return _hand_back(run)
    if outcome is None or ctx is None or (run.is_stopped and not run.is_handed_back):
        # The task may have ended before, or another run may have it.
        return lambda each, now_s: each.give_up(run.id, now_s)
    if isinstance(outcome, Refusal):
        return lambda each, now_s: each.fail(run.id, outcome, now_s)
    asks = run.asks
    if asks is not None:
        answers = ctx.answers
        return lambda each, now_s: each.park(run.id, asks, run.state, answers, now_s)
    rules, failure = ctx.rules.tasks, ctx.failure
    is_by_client = rules is not None and rules.by_client
    if not is_by_client and failure is not None and failure.kind is FailureKind.FAULT:
        # Source: the extension: an error of the tool is a result, one of ours is none.
        fault = Refusal(code=INTERNAL_ERROR, message=failure.message)
        return lambda each, now_s: each.fail(run.id, fault, now_s)
    has_failed = is_by_client and decode(outcome).get("isError", False) is True
    status = FAILED if has_failed else COMPLETED
    return lambda each, now_s: each.complete(run.id, status, outcome, now_s)


def _hand_back(run: TaskRun) -> Step:
    tool = run.server.registry.tools.get(run.task.tool) if run.task is not None else None
    if tool is not None and tool.may_run_again:
        return lambda each, now_s: each.release(run.id, now_s)
    return lambda each, now_s: each.fail(run.id, STOPPED, now_s)


async def _write(run: TaskRun, task: Task, step: Step) -> None:
    """Have the task take the last step of a run, even if the store is away for a moment."""
    for tries in range(MAX_WRITES):
        try:
            await advance(run.server, task.id, step)
            return
        except Exception:
            if tries == MAX_WRITES - 1:
                raise
            logger.exception("Could not write down how task %s ended; trying again", task.id[:8])
            await asyncio.sleep(2**tries / 4)
