"""Decide whether a call becomes a task, and make it one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from django_mcp.protocol import meta as keys
from django_mcp.protocol.errors import INVALID_REQUEST, METHOD_NOT_FOUND, Refusal, invalid_params
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.tasks import NEVER, REQUIRED, read_ttl_ms
from django_mcp.registry.entries import ToolEntry
from django_mcp.server.exchange.connection import Session, limit_kept_details
from django_mcp.server.exchange.exchange import key_of
from django_mcp.server.exchange.quotas import CountLimits
from django_mcp.server.exchange.task import LEASE_S, Task, new_id
from django_mcp.server.handlers.context import Context
from django_mcp.server.tasks.run import TaskRun, finish_run
from django_mcp.server.tasks.start import NOT_STARTED, NotStarted, start_run
from django_mcp.server.tasks.transitions import advance, refuse_undeclared, rules_of, to_wire

logger = logging.getLogger("django_mcp")

_AUTO = "auto"

_KEPT_APART = frozenset({keys.CLIENT_INFO, keys.CLIENT_CAPABILITIES})
"""Fields of `_meta` that a task has in other attributes, within their limits."""

_TOO_MANY = Refusal(
    code=INVALID_REQUEST, message="Too many tasks are running: wait for one to end, or cancel it"
)


async def call_with_tasks(
    ctx: Context[Any],
    entry: ToolEntry,
    arguments: JSONObject,
    run: Callable[[], Coroutine[Any, Any, bytes | Refusal]],
) -> bytes | Refusal:
    """Run a call that may become a task; return its result, or the task."""
    rules = ctx.rules.tasks
    ttl_ms: int | None = None
    is_by_client = rules is not None and rules.by_client
    undeclared = refuse_undeclared(ctx)
    if is_by_client:
        is_task = "task" in ctx.params and "tasks" in ctx.server.features(ctx.exchange)
    else:
        is_task = rules is not None and undeclared is None and entry.task != NEVER
    if not is_task:
        return await run() if entry.task != REQUIRED else undeclared or _needs_task(entry)
    if is_by_client:
        if entry.task == NEVER:
            message = f"Tool {entry.name} cannot run as a task"
            return Refusal(code=METHOD_NOT_FOUND, message=message)
        wanted = read_ttl_ms(ctx.params["task"])
        if isinstance(wanted, str):
            return invalid_params(wanted)
        ttl_ms = wanted
    refusal = limit_kept_details(ctx.connection)
    if refusal is not None:
        return refusal
    if entry.task == _AUTO and not is_by_client:
        return await _run_for_a_while(ctx, entry, arguments, run)
    return await _make(ctx, entry, arguments, ttl_ms)


def _needs_task(entry: ToolEntry) -> Refusal:
    return Refusal(code=METHOD_NOT_FOUND, message=f"Tool {entry.name} can only run as a task")


async def _make(
    ctx: Context[Any], entry: ToolEntry, arguments: JSONObject, ttl_ms: int | None
) -> bytes | Refusal:
    """Store a task, start it, and return it."""
    server = ctx.server
    run_id = new_id() if server.runner.is_here else None
    task = _describe(ctx, entry, arguments, ttl_ms, run_id)
    if not await _insert(ctx, task):
        return _TOO_MANY
    try:
        # If it is not started it fails, since no client knows its id to end it.
        await start_run(
            server, task, ctx.exchange, lambda each, now_s: each.fail(None, NOT_STARTED, now_s)
        )
    except NotStarted:
        logger.exception("Could not start a task of tool %s", entry.name)
        return NOT_STARTED
    ctx.is_task = True
    return _encode(ctx, task)


async def _insert(ctx: Context[Any], task: Task) -> bool:
    options = ctx.options
    limits = CountLimits.of(
        options.max_tasks, options.max_tasks_per_principal, options.anonymous_share
    )
    return await ctx.server.tasks.insert(task, limits)


def _describe(
    ctx: Context[Any],
    entry: ToolEntry,
    arguments: JSONObject,
    ttl_ms: int | None,
    run_id: str | None,
) -> Task:
    server, options = ctx.server, ctx.options
    now_s, owner = server.clock(), key_of(ctx.principal)
    most_ms = int(options.task_ttl_s * 1000)
    return Task(
        id=new_id(),
        server=server.name,
        owner=owner,
        quota_key=ctx.exchange.quota_key,
        session=ctx.connection.key if isinstance(ctx.connection, Session) else None,
        revision=ctx.rules.name,
        tool=entry.name,
        call={
            "arguments": arguments,
            "meta": {key: value for key, value in ctx.meta.items() if key not in _KEPT_APART},
            "client_info": ctx.client_info,
            "client_capabilities": ctx.client_capabilities,
            "log_level": ctx.connection.log_level,
            "can_ask": ctx.has_back_channel,
            "is_of_tenant": ctx.exchange.is_of_tenant,
            "url_kwargs": {key: str(value) for key, value in ctx.url_kwargs.items()},
            "principal": server.access.describe(ctx.principal),
        },
        created_s=now_s,
        updated_s=now_s,
        ttl_ms=most_ms if ttl_ms is None else min(ttl_ms, most_ms),
        poll_ms=int(options.task_poll_s * 1000),
        run=run_id,
        lease_s=None if run_id is None else now_s + LEASE_S,
    )


def _encode(ctx: Context[Any], task: Task) -> bytes:
    rules = rules_of(task)
    wire = to_wire(task, rules)
    if rules.by_client:
        return ctx.server.encode_result({"task": wire}, ctx.rules)
    return ctx.server.encode_interim({"resultType": "task", **wire}, ctx.rules)


async def _run_for_a_while(
    ctx: Context[Any],
    entry: ToolEntry,
    arguments: JSONObject,
    run: Callable[[], Coroutine[Any, Any, bytes | Refusal]],
) -> bytes | Refusal:
    """Return the result if the call does not take long, else a task that goes on."""
    server, exchange = ctx.server, ctx.exchange
    ctx.notes_progress = True
    # They would interrupt the asyncio task of the request.
    exchange.timers = None
    call = server.runner.spawn(run(), exchange)
    waiting = asyncio.wrap_future(call)
    try:
        await asyncio.wait((waiting,), timeout=ctx.options.task_after_s)
        if call.done():
            return call.result()
        task_run = TaskRun(server)
        task = _describe(ctx, entry, arguments, None, task_run.id)
        if not await _insert(ctx, task):
            return await waiting
    except BaseException:
        call.cancel()
        raise
    if call.done():
        await advance(server, task.id, lambda each, now_s: each.cancel(now_s))
        return call.result()
    exchange.cancels_on_disconnect = False
    ctx.is_task = True
    task_run.attach(task, ctx)
    server.runner.spawn(finish_run(task_run, call), exchange)
    return _encode(ctx, task)
