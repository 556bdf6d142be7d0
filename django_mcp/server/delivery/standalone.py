"""Standalone streams, which a client opens to receive changes, and the end of sessions."""

from __future__ import annotations

from django_mcp.protocol.errors import INVALID_REQUEST, Refusal, try_later
from django_mcp.protocol.headers import LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID
from django_mcp.protocol.messages import encode_error
from django_mcp.protocol.revisions import find_revision
from django_mcp.server.delivery.resumption import resume
from django_mcp.server.exchange.admission import refuse_version
from django_mcp.server.exchange.connection import Closing, Session
from django_mcp.server.exchange.exchange import Exchange, Reply, refuse
from django_mcp.server.exchange.quotas import is_anonymous_quota, share_of
from django_mcp.server.exchange.visibility import NONE_VISIBLE, VisibleEntries
from django_mcp.server.services.ports import StoreUnavailable
from django_mcp.server.services.services import Services
from django_mcp.server.services.session_lookup import NO_SESSION_ID, UNKNOWN_SESSION, find_session
from django_mcp.server.streams.stream import Ending, PushStream, StreamKind
from django_mcp.server.streams.upkeep import notify_lists, ping_later

RETRY_MS = 1000
"""When a client should reconnect after the server closed its stream. Our own choice."""

_COME_BACK = (Ending.AGE, Ending.SHUTDOWN, Ending.SLOW)


async def open_stream(server: Services, exchange: Exchange) -> Reply:
    """Open the standalone stream of a session, or resume the stream of a call.

    Returns when the stream has ended.

    Source: 2025-11-25 basic/transports "Listening for Messages from the Server".
    """
    try:
        return await _open_stream(server, exchange)
    except StoreUnavailable as error:
        return refuse(error.to_refusal())


async def _open_stream(server: Services, exchange: Exchange) -> Reply:
    session = await _join(server, exchange, needs_stream=True)
    if not isinstance(session, Session):
        return session
    last_id = exchange.headers.get(LAST_EVENT_ID) if exchange.headers is not None else None
    if last_id:
        reply = await resume(server, exchange, session, last_id)
        if reply is not None:
            return reply
    sink, revision = exchange.event_stream, session.revision
    if sink is None or revision is None:
        return not_allowed(server, exchange)
    stream = PushStream(
        kind=StreamKind.STANDALONE,
        server_name=server.name,
        sink=sink,
        principal=exchange.principal,
        uris=await server.sessions.read_subscriptions(session),
        session=session,
        client_info=session.client_info,
        revision_name=revision.name,
    )
    await server.join_hub().wait_for_bus()
    refusal = refuse_stream(server, exchange)
    if refusal is not None:
        return refuse(refusal, 503)
    # A client waits until the stream is open before it goes on.
    await sink.prime(f"{stream.id}-0" if revision.primes_streams else None)
    reason = await run_stream(server, exchange, stream)
    if reason in _COME_BACK and revision.primes_streams:
        await sink.hang_up(RETRY_MS)
    return Reply(200)


async def run_stream(server: Services, exchange: Exchange, stream: PushStream) -> Ending:
    """Keep a stream open until its end, and return why it ended."""
    exchange.cancels_on_disconnect = True
    stream.exchange = exchange
    stream.quota_key = exchange.quota_key
    stream.rights = _find_rights(server, exchange)
    hub = server.join_hub()
    hub.attach(stream)
    ping_later(hub, stream)
    session = stream.session
    if server.options.tell_lists_at_start and session is not None and not session.was_told_lists:
        session.was_told_lists = True
        notify_lists(server.derived.features, stream)
    server.connection_observer.stream_opened(stream)
    reason = Ending.CLIENT
    try:
        reason = await stream.run()
        return reason
    finally:
        server.hub.detach(stream)
        server.connection_observer.stream_closed(stream, reason.value)


def _find_rights(server: Services, exchange: Exchange) -> VisibleEntries | None:
    """Return what a principal can see, if that is known without a query."""
    if exchange.visible is not NONE_VISIBLE:
        return exchange.visible
    return server.access.find_visible(exchange, server.derived.requirements)


def refuse_stream(server: Services, exchange: Exchange) -> Refusal | None:
    """Return why no further stream can be opened; None if one can."""
    hub, options, quota_key = server.hub, server.options, exchange.quota_key
    share = share_of(options.max_streams, options.anonymous_share)
    if hub.quotas.count_of(quota_key) >= options.max_streams_per_principal:
        status = 429
        message = (
            "You have as many streams open as MAX_STREAMS_PER_PRINCIPAL allows: close one first"
        )
    elif (
        hub.is_closing
        or len(hub.streams) >= options.max_streams
        or (is_anonymous_quota(quota_key) and hub.quotas.anonymous_count >= share)
    ):
        status = 503
        message = "No further stream can be opened here now: try again later"
    else:
        return None
    return try_later(message, code=INVALID_REQUEST, status=status)


async def end_session(server: Services, exchange: Exchange) -> Reply:
    """End a session with its calls and streams.

    Source: 2025-11-25 basic/transports "Session Management".
    """
    try:
        session = await _join(server, exchange, needs_stream=False)
        if not isinstance(session, Session):
            return session
        was_open = await server.sessions.end([session.key], Closing.CLIENT)
    except StoreUnavailable as error:
        return refuse(error.to_refusal())
    if was_open:
        hub = server.hub if exchange.is_buffered else server.join_hub()
        hub.end_session(session.key)
        # After the response, the client may use the id at another process.
        await hub.flush()
    return Reply(204)


async def _join(server: Services, exchange: Exchange, *, needs_stream: bool) -> Session | Reply:
    headers = exchange.headers
    can_stream = exchange.can_stream and not exchange.is_buffered
    if headers is None or not server.keeps_sessions or (needs_stream and not can_stream):
        return not_allowed(server, exchange)
    revision = find_revision(headers.get(PROTOCOL_VERSION))
    if revision is not None and revision.is_stateless:
        return not_allowed(server, exchange)
    refusal = refuse_version(headers, server.revisions)
    token = headers.get(SESSION_ID)
    if refusal is None and token is None:
        refusal = NO_SESSION_ID
    if refusal is not None:
        return refuse(refusal)
    session = await find_session(server, exchange, token or "")
    if session is None:
        return refuse(UNKNOWN_SESSION)
    exchange.connection = session
    return session


def not_allowed(server: Services, exchange: Exchange) -> Reply:
    """Return the response to an HTTP method that is not supported here or in that revision."""
    refusal = Refusal(code=INVALID_REQUEST, message="Method not allowed: use POST")
    allowed = server.allowed_methods(exchange.headers, can_push=not exchange.is_buffered)
    return Reply(405, encode_error(None, refusal), ((b"allow", allowed),))
