"""Decide whether a call becomes a task, and make it one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from django_mcp.protocol import meta as keys
from django_mcp.protocol.errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Refusal,
)
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.tasks import NEVER, REQUIRED, TaskRules, read_ttl_ms
from django_mcp.registry.entries import ToolEntry
from django_mcp.server.exchange.connection import Session, limit_kept_details
from django_mcp.server.exchange.quotas import quota_key_of, share_of
from django_mcp.server.exchange.task import LEASE_S, Task, new_id
from django_mcp.server.services.task_ports import TaskLimits
from django_mcp.server.tasks.run import TaskRun, see_through
from django_mcp.server.tasks.start import NOT_STARTED, start_run
from django_mcp.server.tasks.transitions import advance, refuse_undeclared, to_wire

if TYPE_CHECKING:
    from django_mcp.server.handlers.context import Context

__all__ = ["call_with_tasks"]

logger = logging.getLogger("django_mcp")

_AUTO = "auto"

_KEPT_APART = frozenset({keys.CLIENT_INFO, keys.CLIENT_CAPABILITIES})
"""Fields of `_meta` that a task has elsewhere, within their limits."""

_TOO_MANY = Refusal(
    code=INVALID_REQUEST, message="Too many tasks are running: wait for one to end, or cancel it"
)


async def call_with_tasks(
    ctx: Context[Any],
    entry: ToolEntry,
    arguments: JSONObject,
    run: Callable[[], Coroutine[Any, Any, bytes | Refusal]],
) -> bytes | Refusal:
    """Answer a call that may become a task.

    Args:
        ctx: the request.
        entry: the tool.
        arguments: checked against its schema.
        run: calls it directly.
    """
    rules = ctx.rules.tasks
    if rules is None:
        return await run() if entry.task != REQUIRED else _needs_task(entry)
    if rules.by_client:
        return await _by_client(ctx, entry, arguments, rules, run)
    undeclared = refuse_undeclared(ctx)
    if undeclared is not None or entry.task == NEVER:
        return undeclared if undeclared is not None and entry.task == REQUIRED else await run()
    if entry.task == _AUTO:
        return await _run_for_a_while(ctx, entry, arguments, rules, run)
    return await _make(ctx, entry, arguments, rules, None)


async def _by_client(
    ctx: Context[Any],
    entry: ToolEntry,
    arguments: JSONObject,
    rules: TaskRules,
    run: Callable[[], Coroutine[Any, Any, bytes | Refusal]],
) -> bytes | Refusal:
    has_tasks = "tasks" in ctx.server.features(ctx.exchange)
    if "task" not in ctx.params or not has_tasks:
        return await run() if entry.task != REQUIRED else _needs_task(entry)
    if entry.task == NEVER:
        return Refusal(code=METHOD_NOT_FOUND, message=f"Tool {entry.name} cannot run as a task")
    ttl_ms = read_ttl_ms(ctx.params["task"])
    if isinstance(ttl_ms, str):
        return Refusal(code=INVALID_PARAMS, message=ttl_ms)
    return await _make(ctx, entry, arguments, rules, ttl_ms)


def _needs_task(entry: ToolEntry) -> Refusal:
    return Refusal(code=METHOD_NOT_FOUND, message=f"Tool {entry.name} can only run as a task")


async def _make(
    ctx: Context[Any],
    entry: ToolEntry,
    arguments: JSONObject,
    rules: TaskRules,
    ttl_ms: int | None,
) -> bytes | Refusal:
    """Keep a task, have it run, and answer with it."""
    server = ctx.server
    refusal = limit_kept_details(ctx.connection)
    if refusal is not None:
        return refusal
    run_id = new_id() if server.runner.is_here else None
    task = _describe(ctx, entry, arguments, ttl_ms, run_id)
    if not await _insert(ctx, task):
        return _TOO_MANY
    try:
        await start_run(server, task, ctx.exchange)
    except BaseException as error:
        # Nobody knows its id, so nobody else could end it.
        await advance(
            server,
            task.id,
            lambda each, now_s: (
                each.fail(None, NOT_STARTED, now_s) if each.version == task.version else None
            ),
        )
        if not isinstance(error, Exception):
            raise
        logger.exception("Could not start a task of tool %s", entry.name)
        return NOT_STARTED
    ctx.is_task = True
    return _encode(ctx, task, rules)


async def _insert(ctx: Context[Any], task: Task) -> bool:
    options = ctx.options
    limits = TaskLimits(
        total=options.max_tasks,
        anonymous=share_of(options.max_tasks, options.anonymous_share),
        each=options.max_tasks_per_principal,
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
    now_s, owner = server.clock(), server.access.identify(ctx.principal)
    most_ms = int(options.task_ttl_s * 1000)
    return Task(
        id=new_id(),
        server=server.name,
        owner=owner,
        quota_key=quota_key_of(owner, ctx.exchange.address),
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


def _encode(ctx: Context[Any], task: Task, rules: TaskRules) -> bytes:
    wire = to_wire(task, rules)
    if rules.by_client:
        return ctx.server.encode_result({"task": wire}, ctx.rules)
    return ctx.server.encode_interim({"resultType": "task", **wire}, ctx.rules)


async def _run_for_a_while(
    ctx: Context[Any],
    entry: ToolEntry,
    arguments: JSONObject,
    rules: TaskRules,
    run: Callable[[], Coroutine[Any, Any, bytes | Refusal]],
) -> bytes | Refusal:
    """Answer directly if that does not take long, else with a task that goes on."""
    server, exchange = ctx.server, ctx.exchange
    refusal = limit_kept_details(ctx.connection)
    if refusal is not None:
        return refusal
    # They would interrupt the task of the request.
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
    server.runner.spawn(see_through(task_run, call), exchange)
    return _encode(ctx, task, rules)
