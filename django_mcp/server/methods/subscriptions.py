"""Subscriptions: to resources on a session, and to a stream of changes without one."""

from __future__ import annotations

from django_mcp.protocol.errors import ProtocolError, Refusal, invalid_params
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.protocol.meta import SUBSCRIPTION_ID
from django_mcp.server.delivery.open_streams import check_stream_limits, run_stream
from django_mcp.server.exchange.quotas import TOO_MANY_URIS, URI_LIMITS, check_uris
from django_mcp.server.exchange.session import Session
from django_mcp.server.extension import Listening, check_declared
from django_mcp.server.methods.added import may_use
from django_mcp.server.methods.resources import authorize_read
from django_mcp.server.request_checks import check_scopes
from django_mcp.server.services import ServedCall
from django_mcp.server.streams.process_messages import SubscriptionsChanged
from django_mcp.server.streams.stream import LISTS, Ending, PushStream, StreamKind

MAX_TOLD = 1024
"""Characters of a session's URIs that one message tells other processes."""

MAX_WANTED_BYTES = 16 * 1024
"""Bytes of the value of an extension's key of a listening stream, which may keep it while it is open."""


async def subscribe(call: ServedCall) -> bytes | Refusal:
    """Answer `resources/subscribe`; what cannot be read is refused as by `resources/read`.

    Source: 2025-11-25 server/resources "Subscriptions".
    """
    uri = call.params.get("uri")
    if type(uri) is not str:
        return invalid_params("uri must be a string")
    refusal = check_uris([uri]) or await authorize_read(call, uri)
    if refusal is not None:
        return refusal
    connection = call.connection
    if isinstance(connection, Session):
        refusal = await call.server.ports.sessions.subscribe(connection, uri)
        if refusal is not None:
            return refusal
        _tell(call, connection)
    elif connection.stream_id is not None:
        uris = {*(connection.subscriptions or ()), uri}
        refusal = check_uris(uris)
        if refusal is not None:
            return refusal
        call.server.hub.set_subscriptions(connection, uris)
    return call.server.encode_result({}, call.rules)


async def unsubscribe(call: ServedCall) -> bytes | Refusal:
    """Answer `resources/unsubscribe`; a URI that was never subscribed to is no error."""
    uri = call.params.get("uri")
    if type(uri) is not str:
        return invalid_params("uri must be a string")
    connection = call.connection
    if isinstance(connection, Session):
        await call.server.ports.sessions.unsubscribe(connection, uri)
        _tell(call, connection)
    elif connection.stream_id is not None:
        call.server.hub.set_subscriptions(connection, (connection.subscriptions or set()) - {uri})
    return call.server.encode_result({}, call.rules)


def _tell(call: ServedCall, session: Session) -> None:
    uris, version = sorted(session.subscriptions or ()), session.subscriptions_version
    told = uris if sum(map(len, uris)) <= MAX_TOLD else None
    message = SubscriptionsChanged(session=session.key, version=version, uris=told)
    # A client may do this at will, and each message has all URIs.
    call.server.hub.broadcast(message, newest_of=session.key)


async def listen(call: ServedCall) -> bytes | Refusal:
    """Answer `subscriptions/listen`: acknowledge, then send notifications until the stream ends.

    Kinds that the server does not have are not acknowledged. All URIs are. Updates are sent only for those
    that the principal may read at that time. The stream ends at once if the server has none of the kinds.
    Source: 2026-07-28 subscriptions/listen.
    """
    stream = await _make_stream(call)
    if isinstance(stream, Refusal):
        return stream
    server, request_id = call.server, call.message.id
    result = {"_meta": {SUBSCRIPTION_ID: request_id}}
    if not (stream.lists or stream.uris or _asks_extensions(call)):
        await stream.drain()
        stream.end(Ending.CLOSED)
        return server.encode_result(result, call.rules)
    quota_key, count, size = (
        call.exchange.caller.quota_key,
        len(stream.uris),
        sum(map(len, stream.uris)),
    )
    try:
        for key in stream.watches:
            stream.start_watch(key)
        # Thousands of streams may stay open for an hour.
        call.forget_params()
        reason = await run_stream(server, call.exchange, stream)
    finally:
        for key in stream.watches:
            stream.stop_watch(key)
        server.hub.uris.give_back(quota_key, size, count=count)
    if reason is Ending.CLIENT:
        return invalid_params("The client has gone")
    return server.encode_result(result, call.rules)


def _take_uris(call: ServedCall, uris: set[str]) -> Refusal | None:
    """Count the URIs of a listening stream, or return why it cannot have so many."""
    count, size = len(uris), sum(map(len, uris))
    meter, share = call.server.hub.uris, call.options.anonymous_share
    scope = meter.take(URI_LIMITS, call.exchange.caller.quota_key, size, count=count, share=share)
    return None if scope is None else TOO_MANY_URIS[scope]


def _asks_extensions(call: ServedCall) -> bool:
    """Return whether a client asks for a key of an extension, which its principal may not be able to use yet."""
    return not call.derived.listen_keys.keys().isdisjoint(call.params["notifications"])


async def _make_stream(call: ServedCall) -> PushStream | Refusal:
    """Return the stream, with its acknowledgement queued."""
    server, exchange = call.server, call.exchange
    wanted = call.params.get("notifications")
    if type(wanted) is not dict:
        return invalid_params("notifications must be an object")
    uris = wanted.get("resourceSubscriptions", [])
    if type(uris) is not list or not all(type(uri) is str for uri in uris):
        return invalid_params("resourceSubscriptions must be URIs")
    sink = exchange.channel.sink
    refusal = check_uris(uris) or call.connection.limit_details()
    if refusal is not None or sink is None:
        return refusal or invalid_params("This needs an event stream")
    offered = server.features(exchange)
    lists = [name for name in LISTS if wanted.get(f"{name}ListChanged") is True and name in offered]
    if "resources" not in offered:
        uris = []
    added = await _listen_to_extensions(call, wanted)
    if isinstance(added, Refusal):
        return added
    honoured: JSONObject = {f"{name}ListChanged": True for name in lists}
    for key, listening in added.items():
        if listening.acknowledged is not None:
            honoured[key] = listening.acknowledged
    if uris:
        honoured["resourceSubscriptions"] = list(dict.fromkeys(uris))
    await server.join_hub().wait_for_bus()
    # No await between this and the opening of the stream, so that no limit is exceeded.
    refusal = check_stream_limits(server, exchange) or _take_uris(call, set(uris))
    if refusal is not None:
        return refusal
    stream = PushStream(
        kind=StreamKind.LISTEN,
        server_name=server.name,
        sink=sink,
        principal=call.exchange.caller.principal,
        lists=frozenset(lists),
        uris=set(uris),
        watches={key: listening.watch for key, listening in added.items()},
        subscription_id=call.message.id,
        client_info=call.connection.client_info,
        revision_name=call.rules.name,
    )
    # Queued before the stream can receive anything, so that it is the first message.
    stream.offer(
        stream.encode("notifications/subscriptions/acknowledged", {"notifications": honoured})
    )
    return stream


async def _listen_to_extensions(
    call: ServedCall, wanted: JSONObject
) -> dict[str, Listening] | Refusal:
    """Return what the extensions do for their keys of the filter."""
    listening_now: dict[str, Listening] = {}
    try:
        for key, extension in call.derived.listen_keys.items():
            if key in wanted:
                if not may_use(extension, call):
                    continue
                refusal = check_declared(extension, call) or check_scopes(call, extension)
                if refusal is not None:
                    return refusal
                if len(encode(wanted[key])) > MAX_WANTED_BYTES:
                    return invalid_params(f"{key} must be at most {MAX_WANTED_BYTES} bytes of JSON")
                listening = await extension.listen(call, key, wanted[key])
                if isinstance(listening, Refusal):
                    return listening
                listening_now[key] = listening
    except ProtocolError as error:
        return error.to_refusal()
    return listening_now
