"""`tasks/*`: read tasks, wait for them, respond to their questions, and cancel them.

Source: 2025-11-25 basic/utilities/tasks; the extension `io.modelcontextprotocol/tasks`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from django_mcp.protocol import meta as keys
from django_mcp.protocol.asks import Ask
from django_mcp.protocol.errors import METHOD_NOT_FOUND, REQUEST_CANCELLED, Refusal, invalid_params
from django_mcp.protocol.json import JSONObject, decode
from django_mcp.protocol.parts import decode_cursor, encode_cursor
from django_mcp.protocol.tasks import CANCELLED
from django_mcp.server.asking.answers import find_malformed
from django_mcp.server.asking.back_channel import ask_client
from django_mcp.server.exchange.call import AskFailed, CannotAsk
from django_mcp.server.exchange.exchange import key_of
from django_mcp.server.exchange.task import Task, TooMuchKnown, new_id
from django_mcp.server.handlers.context import Context
from django_mcp.server.methods.discovery import INVALID_CURSOR
from django_mcp.server.tasks.run import stop_run
from django_mcp.server.tasks.start import NOT_STARTED, NotStarted, find_own, hand_over
from django_mcp.server.tasks.transitions import (
    POLL_S,
    UNKNOWN_TASK,
    advance,
    refuse_undeclared,
    rules_of,
    stream_of,
    to_detailed,
    to_wire,
)

logger = logging.getLogger("django_mcp")

POLL_ALONE_S = 0.5
"""The polling interval where no notification can arrive."""

MAX_PAGE = 100
"""Our own limit."""


async def get(ctx: Context) -> bytes | Refusal:
    """Answer `tasks/get`."""
    task = refuse_undeclared(ctx) or await find_own(ctx.server, ctx)
    if isinstance(task, Refusal):
        return task
    rules = rules_of(task)
    wire = to_wire(task) if rules.by_client else to_detailed(task)
    return ctx.server.encode_result(wire, ctx.rules)


async def list_tasks(ctx: Context) -> bytes | Refusal:
    """Answer `tasks/list`: the tasks of the principal. Anonymous callers have no list."""
    server, rules = ctx.server, ctx.rules.tasks
    owner = key_of(ctx.principal)
    if owner is None or rules is None:
        return Refusal(code=METHOD_NOT_FOUND, message="Authentication is required to list tasks")
    after = None
    if "cursor" in ctx.params:
        text = decode_cursor(ctx.params["cursor"], "tasks/list", server.sealer.unseal)
        if text is None:
            return INVALID_CURSOR
        created, _, task_id = text.partition(" ")
        after = (float(created), task_id)
    size = min(server.options.page_size or MAX_PAGE, MAX_PAGE)
    found = await server.tasks.list_of(server.name, owner, after, size + 1)
    page = found[:size]
    wire: JSONObject = {"tasks": [to_wire(task) for task in page if rules_of(task) is rules]}
    if len(found) > size:
        place = f"{page[-1].created_s!r} {page[-1].id}"
        wire["nextCursor"] = encode_cursor("tasks/list", place, server.sealer.seal)
    return server.encode_result(wire, ctx.rules)


async def cancel(ctx: Context) -> bytes | Refusal:
    """Answer `tasks/cancel`."""
    task = refuse_undeclared(ctx) or await find_own(ctx.server, ctx)
    if isinstance(task, Refusal):
        return task
    rules = rules_of(task)
    cancelled = await advance(ctx.server, task.id, lambda each, now_s: each.cancel(now_s))
    stop_run(ctx.server.hub, task.id)
    if not rules.by_client:
        return ctx.server.encode_result({}, ctx.rules)
    if cancelled is None:
        return invalid_params("The task has ended already")
    return ctx.server.encode_result(to_wire(cancelled), ctx.rules)


async def update(ctx: Context) -> bytes | Refusal:
    """Answer `tasks/update`: accept input responses; those to no open question are ignored."""
    task = refuse_undeclared(ctx) or await find_own(ctx.server, ctx)
    if isinstance(task, Refusal):
        return task
    responses = ctx.params.get("inputResponses")
    if type(responses) is not dict:
        return invalid_params("inputResponses must be an object")
    asked = {key: value for key, value in responses.items() if key in task.due}
    malformed = find_malformed(asked)
    if malformed is not None:
        return invalid_params(malformed)
    try:
        await _answer(ctx, task, asked, {})
    except TooMuchKnown as error:
        return invalid_params(str(error))
    except NotStarted:
        logger.exception("Could not go on with task %s", task.id[:8])
        return NOT_STARTED
    return ctx.server.encode_result({}, ctx.rules)


async def _answer(
    ctx: Context,
    task: Task,
    known: Mapping[str, Any],
    failed: Mapping[str, AskFailed],
) -> None:
    """Store answers in a task, and continue it if no question is left."""
    server = ctx.server
    run = new_id() if server.runner.is_here else None
    await hand_over(
        server, task.id, lambda each, now_s: each.answer(known, failed, now_s, run), ctx.exchange
    )


async def result(ctx: Context) -> bytes | Refusal:
    """Answer `tasks/result`: wait for the end, and ask the client the task's questions meanwhile."""
    server = ctx.server
    task = await find_own(server, ctx)
    if isinstance(task, Task) and not task.is_final:
        if ctx.exchange.is_buffered or not ctx.exchange.can_stream:
            while isinstance(task, Task) and not task.is_final:
                await asyncio.sleep(POLL_ALONE_S)
                task = await find_own(server, ctx)
        else:
            task = await _follow(ctx, task)
    return task if isinstance(task, Refusal) else _outcome(ctx, task)


async def _follow(ctx: Context, task: Task) -> Task | Refusal:
    """Return the task when it has ended; send its messages and questions to the client until then."""
    server = ctx.server
    server.join_hub()
    asking = _Asking(ctx)
    found: Task | Refusal = task
    with server.hub.followers.follow(stream_of(task.id)) as follower:
        try:
            while isinstance(found := await find_own(server, ctx), Task):
                asking.update(found)
                if found.is_final:
                    break
                for message in await follower.wait(POLL_S):
                    if ctx.exchange.sink is not None:
                        await ctx.exchange.sink.send(message)
        finally:
            asking.stop()
    return found


class _Asking:
    """The questions of a task that are sent on the stream of `tasks/result`."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._asking: dict[str, asyncio.Task[None]] = {}

    def update(self, task: Task) -> None:
        """Send the open questions that were not sent yet, and withdraw those that are not open."""
        for key, running in list(self._asking.items()):
            if key not in task.due:
                running.cancel()
                del self._asking[key]
        if not self._ctx.has_back_channel:
            return
        for key, wire in task.due.items():
            if key not in self._asking:
                self._asking[key] = asyncio.ensure_future(self._ask(task, key, wire))

    async def _ask(self, task: Task, key: str, wire: JSONObject) -> None:
        ask = Ask(method=wire["method"], params=wire.get("params"), capability=wire["capability"])
        related = {keys.RELATED_TASK: {"taskId": task.id}}
        try:
            answer = (await ask_client(self._ctx.server, self._ctx, {key: ask}, related))[key]
        except CannotAsk as error:
            answer = AskFailed(str(error))
        if not isinstance(answer, AskFailed):
            try:
                await _answer(self._ctx, task, {key: answer}, {})
                return
            except TooMuchKnown as error:
                answer = AskFailed(str(error))
        await _answer(self._ctx, task, {}, {key: answer})

    def stop(self) -> None:
        for running in self._asking.values():
            running.cancel()


def _outcome(ctx: Context, task: Task) -> bytes | Refusal:
    """Return the outcome of the call itself."""
    if task.status == CANCELLED:
        return Refusal(code=REQUEST_CANCELLED, message="Cancelled")
    if task.result is None:
        error = task.error
        if error is None:
            return UNKNOWN_TASK
        return Refusal(code=error["code"], message=error["message"], data=error.get("data"))
    found: JSONObject = decode(task.result)
    found["_meta"] = {**found.get("_meta", {}), keys.RELATED_TASK: {"taskId": task.id}}
    return ctx.server.encode_result(found, ctx.rules)
