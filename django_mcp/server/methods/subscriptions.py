"""Subscriptions: to resources on a session, and to a stream of changes and tasks without one."""

from __future__ import annotations

import asyncio
import logging

from django_mcp.protocol.errors import Refusal, invalid_params
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.protocol.meta import SUBSCRIPTION_ID
from django_mcp.server.delivery.client_streams import refuse_stream, run_stream
from django_mcp.server.exchange.connection import Session, limit_kept_details
from django_mcp.server.exchange.quotas import TOO_MANY_URIS, check_uris
from django_mcp.server.exchange.task import Task
from django_mcp.server.handlers.context import Context
from django_mcp.server.methods.resources import refuse_reading
from django_mcp.server.streams.stream import LISTS, Ending, PushStream, StreamKind
from django_mcp.server.tasks.start import find_own_all
from django_mcp.server.tasks.transitions import (
    POLL_S,
    refuse_undeclared,
    stream_of,
    to_detailed,
)

logger = logging.getLogger("django_mcp")

MAX_ID_BYTES = 1024
"""Size of the request id of a listening stream, which each of its messages carries. Our own limit."""


async def subscribe(ctx: Context) -> bytes | Refusal:
    """Answer `resources/subscribe`; what cannot be read is refused as by `resources/read`.

    Source: 2025-11-25 server/resources "Subscriptions".
    """
    uri = ctx.params.get("uri")
    if type(uri) is not str:
        return invalid_params("uri must be a string")
    refusal = check_uris([uri]) or await refuse_reading(ctx, uri)
    if refusal is not None:
        return refusal
    connection = ctx.connection
    if isinstance(connection, Session):
        refusal = await ctx.server.sessions.subscribe(connection, uri)
        if refusal is not None:
            return refusal
        _tell(ctx, connection)
    elif connection.stream_id is not None:
        uris = {*(connection.subscriptions or ()), uri}
        refusal = check_uris(uris)
        if refusal is not None:
            return refusal
        _set_subscriptions(ctx, uris)
    return ctx.server.encode_result({}, ctx.rules)


async def unsubscribe(ctx: Context) -> bytes | Refusal:
    """Answer `resources/unsubscribe`; a URI that was never subscribed to is no error."""
    uri = ctx.params.get("uri")
    if type(uri) is not str:
        return invalid_params("uri must be a string")
    connection = ctx.connection
    if isinstance(connection, Session):
        await ctx.server.sessions.unsubscribe(connection, uri)
        _tell(ctx, connection)
    elif connection.stream_id is not None:
        _set_subscriptions(ctx, (connection.subscriptions or set()) - {uri})
    return ctx.server.encode_result({}, ctx.rules)


def _set_subscriptions(ctx: Context, uris: set[str]) -> None:
    connection, hub = ctx.connection, ctx.server.hub
    connection.subscriptions = uris
    stream = hub.streams.get(connection.stream_id or "")
    if stream is not None:
        hub.set_uris(stream, uris)


def _tell(ctx: Context, session: Session) -> None:
    uris = sorted(session.subscriptions or ())
    ctx.server.hub.broadcast(
        "session",
        key=session.key,
        event="subscriptions",
        uris=uris,
        as_of=session.subscribed_as_of_s,
    )


async def listen(ctx: Context) -> bytes | Refusal:
    """Answer `subscriptions/listen`: acknowledge, then send notifications until the stream ends.

    Kinds that the server does not have are not acknowledged. URIs are, whether or not the principal
    may read them, but without that no updates are sent. Source: 2026-07-28 subscriptions/listen.
    """
    made = await _make_stream(ctx)
    if isinstance(made, Refusal):
        return made
    stream, tasks = made
    server, request_id = ctx.server, ctx.request_id
    quota_key, count, size = ctx.exchange.quota_key, len(stream.uris), sum(map(len, stream.uris))
    watching = asyncio.ensure_future(_watch(ctx, stream, tasks)) if tasks else None
    try:
        # Thousands of streams may stay open for an hour.
        ctx.forget_params()
        reason = await run_stream(server, ctx.exchange, stream)
    finally:
        if watching is not None:
            watching.cancel()
        server.hub.uris.give_back(quota_key, size, count=count)
    if reason is Ending.CLIENT:
        return invalid_params("The client has gone")
    return server.encode_result({"_meta": {SUBSCRIPTION_ID: request_id}}, ctx.rules)


def _take_uris(ctx: Context, uris: set[str]) -> Refusal | None:
    """Count the URIs of a listening stream, or return why it cannot have so many."""
    count, size = len(uris), sum(map(len, uris))
    share = ctx.options.anonymous_share
    meter = ctx.server.hub.uris
    scope = meter.take(ctx.exchange.quota_key, size, count=count, anonymous_share=share)
    return None if scope is None or not count else TOO_MANY_URIS[scope]


async def _make_stream(ctx: Context) -> tuple[PushStream, list[Task]] | Refusal:
    """Return the stream, with its acknowledgement queued, and its tasks."""
    server, exchange = ctx.server, ctx.exchange
    wanted = ctx.params.get("notifications")
    if type(wanted) is not dict:
        return invalid_params("notifications must be an object")
    uris = wanted.get("resourceSubscriptions", [])
    if type(uris) is not list or not all(type(uri) is str for uri in uris):
        return invalid_params("resourceSubscriptions must be URIs")
    sink = exchange.sink
    refusal = check_uris(uris) or limit_kept_details(ctx.connection)
    if len(encode(ctx.request_id)) > MAX_ID_BYTES:
        refusal = invalid_params(f"The id of this request may have at most {MAX_ID_BYTES} bytes")
    if refusal is not None or sink is None:
        return refusal or invalid_params("This needs an event stream")
    offered = server.features(exchange)
    lists = [name for name in LISTS if wanted.get(f"{name}ListChanged") is True and name in offered]
    if "resources" not in offered:
        uris = []
    tasks = await _choose_tasks(ctx, wanted)
    if isinstance(tasks, Refusal):
        return tasks
    honoured: JSONObject = {f"{name}ListChanged": True for name in lists}
    if "taskIds" in wanted:
        honoured["taskIds"] = [task.id for task in tasks]
    if uris:
        honoured["resourceSubscriptions"] = list(dict.fromkeys(uris))
    await server.join_hub().wait_for_bus()
    # No await between this and the opening of the stream, so that no limit is exceeded.
    refusal = refuse_stream(server, exchange) or _take_uris(ctx, set(uris))
    if refusal is not None:
        return refusal
    stream = PushStream(
        kind=StreamKind.LISTEN,
        server_name=server.name,
        sink=sink,
        principal=ctx.principal,
        lists=frozenset(lists),
        uris=set(uris),
        subscription_id=ctx.request_id,
        client_info=ctx.client_info,
        revision_name=ctx.revision,
    )
    # Queued before the stream can receive anything, so that it is the first message.
    stream.offer(
        stream.encode("notifications/subscriptions/acknowledged", {"notifications": honoured})
    )
    return stream, tasks


MAX_TASKS = 100
"""Tasks that one stream can subscribe to. Our own limit."""


async def _choose_tasks(ctx: Context, wanted: JSONObject) -> list[Task] | Refusal:
    if "taskIds" not in wanted:
        return []
    refusal = refuse_undeclared(ctx)
    if refusal is not None:
        return refusal
    task_ids = wanted["taskIds"]
    if type(task_ids) is not list or not all(type(each) is str for each in task_ids):
        return invalid_params("taskIds must be strings")
    if len(task_ids) > MAX_TASKS:
        return invalid_params(f"At most {MAX_TASKS} tasks can be listened to")
    if "tasks" not in ctx.server.features(ctx.exchange):
        return []
    return await find_own_all(ctx.server, ctx, task_ids)


async def _watch(ctx: Context, stream: PushStream, tasks: list[Task]) -> None:
    """Send the tasks, and then each change, until all have ended."""
    seen: dict[str, float] = {}
    left = [task.id for task in tasks]
    with ctx.server.hub.followers.follow(*map(stream_of, left)) as follower:
        while left and stream.is_open:
            try:
                found = await find_own_all(ctx.server, ctx, left)
            except Exception as error:  # noqa: BLE001 - tried again after `POLL_S`
                logger.warning("Could not read the tasks of a stream: %r", error)
                found = []
            for task in found:
                if seen.get(task.id) != task.updated_s:
                    seen[task.id] = task.updated_s
                    # Several results may be larger together than the queue of the stream may be.
                    await stream.drain()
                    stream.offer(stream.encode("notifications/tasks", to_detailed(task)))
                if task.is_final:
                    left.remove(task.id)
            if left:
                await follower.wait(POLL_S)
