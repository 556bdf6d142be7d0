"""`tasks/*`: read tasks, wait for them, respond to their questions, and cancel them.

Source: 2025-11-25 basic/utilities/tasks; the extension `io.modelcontextprotocol/tasks`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from django_mcp.extensions.tasks.core.ports import ports_of
from django_mcp.extensions.tasks.core.run import stop_run
from django_mcp.extensions.tasks.core.shapes import CANCELLED, RELATED_TASK
from django_mcp.extensions.tasks.core.start import (
    NOT_STARTED,
    NotStarted,
    find_own,
    hand_over,
    is_shown,
)
from django_mcp.extensions.tasks.core.task import Task, new_id
from django_mcp.extensions.tasks.core.transitions import (
    POLL_S,
    UNKNOWN_TASK,
    advance,
    rules_of,
    stream_of,
    to_detailed,
    to_wire,
)
from django_mcp.log import logger
from django_mcp.protocol.asks import Ask
from django_mcp.protocol.byte_ranges import decode_cursor, encode_cursor
from django_mcp.protocol.errors import METHOD_NOT_FOUND, REQUEST_CANCELLED, Refusal, invalid_params
from django_mcp.protocol.json import JSONObject, decode, encode
from django_mcp.server.asking.round_trips import check_responses
from django_mcp.server.delivery.open_streams import count_stream
from django_mcp.server.exchange.answers import send_ahead
from django_mcp.server.exchange.call import AskFailed, CannotAsk, StateTooLarge
from django_mcp.server.exchange.caller import key_of
from django_mcp.server.methods.discovery import INVALID_CURSOR
from django_mcp.server.services import ServedCall

POLL_ALONE_S = 0.5
"""The polling interval where no notification can arrive."""

MAX_PAGE = 100
"""Tasks on a page of `tasks/list`."""


async def get(call: ServedCall) -> bytes | Refusal:
    """Answer `tasks/get`."""
    task = await find_own(call)
    if isinstance(task, Refusal):
        return task
    wire = to_wire(task) if rules_of(task).by_client else to_detailed(task)
    return call.server.encode_result(wire, call.rules)


async def list_tasks(call: ServedCall) -> bytes | Refusal:
    """Answer `tasks/list`: the tasks of the principal. Anonymous callers have no list."""
    server = call.server
    owner = key_of(call.exchange.caller.principal)
    if owner is None:
        return Refusal(code=METHOD_NOT_FOUND, message="Authentication is required to list tasks")
    after = None
    cursor = call.params.get("cursor")
    if cursor is not None:
        text = decode_cursor(cursor, "tasks/list", server.ports.signer.unsign)
        if text is None:
            return INVALID_CURSOR
        created, _, task_id = text.partition(" ")
        after = (float(created), task_id)
    size = min(server.options.page_size or MAX_PAGE, MAX_PAGE)
    shown: list[Task] = []
    is_more = True
    while is_more and len(shown) <= size:
        task_page = await ports_of(server).store.list_of(server.name, owner, after, MAX_PAGE)
        shown += filter(partial(is_shown, call), task_page)
        is_more = len(task_page) == MAX_PAGE
        after = (task_page[-1].created_s, task_page[-1].id) if task_page else None
    page = shown[:size]
    wire: JSONObject = {"tasks": [to_wire(task) for task in page]}
    if len(shown) > size:
        place = f"{page[-1].created_s!r} {page[-1].id}"
        wire["nextCursor"] = encode_cursor("tasks/list", place, server.ports.signer.sign)
    return server.encode_result(wire, call.rules)


async def cancel(call: ServedCall) -> bytes | Refusal:
    """Answer `tasks/cancel`."""
    task = await find_own(call)
    if isinstance(task, Refusal):
        return task
    cancelled = await advance(call.server, task.id, lambda each, now_s: each.cancel(now_s))
    stop_run(call.server.hub, task.id)
    if not rules_of(task).by_client:
        return call.server.encode_result({}, call.rules)
    if cancelled is None:
        return invalid_params("The task has ended already")
    return call.server.encode_result(to_wire(cancelled), call.rules)


async def update(call: ServedCall) -> bytes | Refusal:
    """Answer `tasks/update`: accept input responses; those to no open question are ignored."""
    task = await find_own(call)
    if isinstance(task, Refusal):
        return task
    responses = call.params.get("inputResponses")
    if type(responses) is not dict:
        return invalid_params("inputResponses must be an object")
    asked = {key: value for key, value in responses.items() if key in task.due}
    malformed = check_responses(asked)
    if malformed is not None:
        return malformed
    try:
        await _answer(call, task, asked, {})
    except StateTooLarge as error:
        return invalid_params(str(error))
    except NotStarted:
        logger.exception("Could not resume task %s", task.id[:8])
        return NOT_STARTED
    return call.server.encode_result({}, call.rules)


async def _answer(
    call: ServedCall,
    task: Task,
    known: Mapping[str, Any],
    failed: Mapping[str, AskFailed],
) -> None:
    """Store answers in a task, and continue it if no question is left."""
    server = call.server
    run = new_id() if ports_of(server).runner.is_here else None
    await hand_over(
        server,
        task.id,
        lambda each, now_s: each.answer(known, failed, now_s, run),
        call.exchange,
        size=len(encode(known)),
    )


async def result(call: ServedCall) -> bytes | Refusal:
    """Answer `tasks/result`: wait for the end, and ask the client the task's questions meanwhile."""
    task = await find_own(call)
    if isinstance(task, Task) and not task.is_final:
        task = await _wait(call, task.id)
    if isinstance(task, Refusal):
        return task
    # The outcome is that of the call itself.
    if task.status == CANCELLED:
        return Refusal(code=REQUEST_CANCELLED, message="Cancelled")
    if task.result is None:
        error = task.error
        if error is None:
            return UNKNOWN_TASK
        return Refusal(code=error["code"], message=error["message"], data=error.get("data"))
    content: JSONObject = decode(task.result)
    content["_meta"] = {**content.get("_meta", {}), RELATED_TASK: {"taskId": task.id}}
    return call.server.encode_result(content, call.rules)


async def _wait(call: ServedCall, task_id: str) -> Task | Refusal:
    """Return the task when it has ended. Over HTTP, the request counts as an open stream until then."""
    exchange = call.exchange
    wait = _follow if exchange.channel.can_stream and not exchange.channel.is_buffered else _poll
    if exchange.headers is None or exchange.channel.is_buffered:
        return await wait(call, task_id)
    with count_stream(call.server, exchange) as refusal:
        return refusal or await wait(call, task_id)


async def _poll(call: ServedCall, _task_id: str) -> Task | Refusal:
    while isinstance(task := await find_own(call), Task) and not task.is_final:  # noqa: ASYNC110
        await asyncio.sleep(POLL_ALONE_S)
    return task


async def _follow(call: ServedCall, task_id: str) -> Task | Refusal:
    """Return the task when it has ended; send its messages and questions to the client until then."""
    server = call.server
    server.join_hub()
    asking: dict[str, asyncio.Task[None]] = {}
    with server.hub.followers.follow(stream_of(task_id)) as follower:
        try:
            while isinstance(own := await find_own(call), Task):
                _ask_due(call, own, asking)
                if own.is_final:
                    break
                for message in await follower.wait(POLL_S):
                    sink = call.exchange.channel.sink
                    if sink is not None:
                        await send_ahead(call.exchange, message, call.options, sink.send)
        finally:
            for question in asking.values():
                question.cancel()
    return own


def _ask_due(call: ServedCall, task: Task, asking: dict[str, asyncio.Task[None]]) -> None:
    """Send the open questions that were not sent yet, and withdraw those that are not open."""
    for key in asking.keys() - task.due.keys():
        asking.pop(key).cancel()
    if call.has_back_channel:
        for key, wire in task.due.items():
            if key not in asking:
                asking[key] = asyncio.ensure_future(_ask(call, task, key, wire))


async def _ask(call: ServedCall, task: Task, key: str, wire: JSONObject) -> None:
    ask = Ask(method=wire["method"], params=wire.get("params"), capability=wire["capability"])
    related = {RELATED_TASK: {"taskId": task.id}}
    try:
        known, failed = await call.server.ports.handshakes.ask(call, {key: ask}, related)
        await _answer(call, task, known, failed)
    except (CannotAsk, StateTooLarge) as error:
        await _answer(call, task, {}, {key: AskFailed(str(error))})
