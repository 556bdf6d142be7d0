"""Subscriptions: to single resources on a session, and to a stream of changes without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mcp.protocol.errors import INVALID_PARAMS, Refusal
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.protocol.messages import RequestId
from django_mcp.protocol.meta import SUBSCRIPTION_ID
from django_mcp.server.delivery.standalone import refuse_stream, run_stream
from django_mcp.server.exchange.connection import Session, limit_kept_details
from django_mcp.server.exchange.quotas import quota_key_of
from django_mcp.server.exchange.subscription_limits import TOO_MANY_URIS, check_uris
from django_mcp.server.methods.resources import refuse_reading
from django_mcp.server.streams.stream import LISTS, Ending, PushStream, StreamKind
from django_mcp.server.tasks.listen import choose_tasks, watch

if TYPE_CHECKING:
    from django_mcp.server.exchange.task import Task
    from django_mcp.server.handlers.context import Context

MAX_ID_BYTES = 1024
"""Size of the request id of a listening stream. Our own limit."""


async def subscribe(ctx: Context[Any]) -> bytes | Refusal:
    """Answer `resources/subscribe`; what could not be read is refused in the words of `read`.

    Source: 2025-11-25 server/resources "Subscriptions".
    """
    uri = ctx.params.get("uri")
    if type(uri) is not str:
        return Refusal(code=INVALID_PARAMS, message="uri must be a string")
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


async def unsubscribe(ctx: Context[Any]) -> bytes | Refusal:
    """Answer `resources/unsubscribe`; what was never subscribed to is no error."""
    uri = ctx.params.get("uri")
    if type(uri) is not str:
        return Refusal(code=INVALID_PARAMS, message="uri must be a string")
    connection = ctx.connection
    if isinstance(connection, Session):
        await ctx.server.sessions.unsubscribe(connection, uri)
        _tell(ctx, connection)
    elif connection.stream_id is not None:
        _set_subscriptions(ctx, (connection.subscriptions or set()) - {uri})
    return ctx.server.encode_result({}, ctx.rules)


def _set_subscriptions(ctx: Context[Any], uris: set[str]) -> None:
    """Set the subscriptions of a connection that has one stream, which may be opening again now."""
    connection, hub = ctx.connection, ctx.server.hub
    connection.subscriptions = uris
    stream = hub.streams.get(connection.stream_id or "")
    if stream is not None:
        hub.set_uris(stream, uris)


def _tell(ctx: Context[Any], session: Session) -> None:
    uris = sorted(session.subscriptions or ())
    ctx.server.hub.tell("session", key=session.key, event="subscriptions", uris=uris)


def _check_id(request_id: RequestId) -> Refusal | None:
    # Every message of the stream carries it.
    if len(encode(request_id)) <= MAX_ID_BYTES:
        return None
    message = f"The id of this request may have at most {MAX_ID_BYTES} bytes"
    return Refusal(code=INVALID_PARAMS, message=message)


async def listen(ctx: Context[Any]) -> bytes | Refusal:
    """Answer `subscriptions/listen`: acknowledge, then send what was asked for until the end.

    Of a kind that the server has not, nothing is honoured. A URI is, whether or not there is
    something that the principal may read: a principal that may not receives no updates.

    Source: 2026-07-28 subscriptions/listen.
    """
    made = await _make_stream(ctx)
    if isinstance(made, Refusal):
        return made
    stream, tasks = made
    server, request_id = ctx.server, ctx.request_id
    meter, quota_key, (count, size) = server.hub.uris, _quota_key(ctx), _measure(stream.uris)
    try:
        # It may stay open for an hour, and there may be thousands.
        ctx.forget_params()
        if tasks:
            reason = await watch(ctx, stream, tasks, run_stream(server, ctx.exchange, stream))
        else:
            reason = await run_stream(server, ctx.exchange, stream)
    finally:
        meter.give_back(quota_key, size, count=count)
    if reason is Ending.CLIENT:
        return Refusal(code=INVALID_PARAMS, message="The client has gone")
    return server.encode_result({"_meta": {SUBSCRIPTION_ID: request_id}}, ctx.rules)


def _quota_key(ctx: Context[Any]) -> str:
    return quota_key_of(getattr(ctx.principal, "key", None), ctx.exchange.address)


def _measure(uris: set[str]) -> tuple[int, int]:
    return len(uris), sum(map(len, uris))


def _take_uris(ctx: Context[Any], uris: set[str]) -> Refusal | None:
    """Count the URIs of a listening stream; return why it cannot have so many, and count none then."""
    count, size = _measure(uris)
    share = ctx.options.anonymous_share
    meter = ctx.server.hub.uris
    scope = meter.take(_quota_key(ctx), size, count=count, anonymous_share=share)
    return None if scope is None or not count else TOO_MANY_URIS[scope]


async def _make_stream(ctx: Context[Any]) -> tuple[PushStream, list[Task]] | Refusal:
    """Return the stream that a request asks for, its acknowledgement queued, and the tasks in it."""
    server, exchange = ctx.server, ctx.exchange
    wanted = ctx.params.get("notifications")
    if type(wanted) is not dict:
        return Refusal(code=INVALID_PARAMS, message="notifications must be an object")
    uris = wanted.get("resourceSubscriptions", [])
    if type(uris) is not list or not all(type(uri) is str for uri in uris):
        return Refusal(code=INVALID_PARAMS, message="resourceSubscriptions must be URIs")
    sink = exchange.sink
    refusal = check_uris(uris) or _check_id(ctx.request_id) or limit_kept_details(ctx.connection)
    if refusal is not None or sink is None:
        return refusal or Refusal(code=INVALID_PARAMS, message="This needs an event stream")
    # Of what there is none of, nothing can change.
    offered = server.features(exchange)
    lists = [name for name in LISTS if wanted.get(f"{name}ListChanged") is True and name in offered]
    if "resources" not in offered:
        uris = []
    tasks = await choose_tasks(ctx, wanted)
    if isinstance(tasks, Refusal):
        return tasks
    honoured: JSONObject = {f"{name}ListChanged": True for name in lists}
    if "taskIds" in wanted:
        honoured["taskIds"] = [task.id for task in tasks]
    if uris:
        honoured["resourceSubscriptions"] = list(dict.fromkeys(uris))
    await server.join_hub().bus.ready()
    # Nothing waits between this and the opening of the stream, so that no limit is exceeded.
    refusal = refuse_stream(server, exchange) or _take_uris(ctx, set(uris))
    if refusal is not None:
        return refusal
    stream = PushStream(
        kind=StreamKind.LISTEN,
        server_name=server.name,
        sink=sink,
        principal=ctx.principal,
        lists=lists,
        uris=set(uris),
        subscription_id=ctx.request_id,
        client_info=ctx.client_info,
        revision_name=ctx.revision,
    )
    # Queued before the stream can receive anything, so that it comes first.
    stream.offer(
        stream.encode("notifications/subscriptions/acknowledged", {"notifications": honoured})
    )
    return stream, tasks
