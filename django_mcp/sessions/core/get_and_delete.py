"""The requests of a session that are not messages: GET opens its standalone stream, and DELETE ends it."""

from __future__ import annotations

from django_mcp.protocol.headers import LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID
from django_mcp.protocol.revisions import find_revision
from django_mcp.server.delivery.open_streams import count_stream, run_stream
from django_mcp.server.exchange.admission import check_version
from django_mcp.server.exchange.exchange import Exchange, Reply, refusal_reply
from django_mcp.server.exchange.session import Closing, Session
from django_mcp.server.ports import StoreUnavailable
from django_mcp.server.request_checks import NO_SESSION_ID, UNKNOWN_SESSION, find_session
from django_mcp.server.services import Services
from django_mcp.server.streams.stream import Ending, PushStream, StreamKind
from django_mcp.sessions.core.resumable_streams import resume

RETRY_MS = 1000
"""When a client should reconnect after the server closed its stream."""


async def open_stream(server: Services, exchange: Exchange) -> Reply:
    """Open the standalone stream of a session, or resume that of a call; return when it has ended.

    Source: 2025-11-25 basic/transports "Listening for Messages from the Server".
    """
    exchange.channel.cancels_on_disconnect = True
    try:
        session = await _find_session_of(server, exchange, needs_stream=True)
        if not isinstance(session, Session):
            return session
        last_id = exchange.headers.get(LAST_EVENT_ID) if exchange.headers is not None else None
        if last_id:
            with count_stream(server, exchange) as refusal:
                if refusal is not None:
                    return refusal_reply(refusal, 503)
                reply = await resume(server, exchange, session, last_id)
            if reply is not None:
                return reply
        uris = await server.ports.sessions.read_subscriptions(session)
    except StoreUnavailable as error:
        return refusal_reply(error.to_refusal())
    sink, revision = exchange.channel.event_stream, session.revision
    if sink is None or revision is None:
        return server.refuse_method(exchange)
    stream = PushStream(
        kind=StreamKind.STANDALONE,
        server_name=server.name,
        sink=sink,
        principal=exchange.caller.principal,
        uris=uris,
        session=session,
        client_info=session.client_info,
        revision_name=revision.name,
    )
    await server.join_hub().wait_for_bus()
    with count_stream(server, exchange) as refusal:
        if refusal is not None:
            return refusal_reply(refusal, 503)
        # A client waits until the stream is open before it goes on.
        await sink.prime(f"{stream.id}-0" if revision.primes_streams else None)
    reason = await run_stream(server, exchange, stream)
    comes_back = reason in (Ending.AGE, Ending.SHUTDOWN, Ending.SLOW)
    if comes_back and revision.primes_streams:
        await sink.hang_up(RETRY_MS)
    return Reply(200)


async def end_session(server: Services, exchange: Exchange) -> Reply:
    """End a session with its calls and streams.

    Source: 2025-11-25 basic/transports "Session Management".
    """
    try:
        session = await _find_session_of(server, exchange, needs_stream=False)
        if not isinstance(session, Session):
            return session
        was_open = await server.ports.sessions.end([session.key], Closing.CLIENT)
    except StoreUnavailable as error:
        return refusal_reply(error.to_refusal())
    if was_open:
        hub = server.hub if exchange.channel.is_buffered else server.join_hub()
        hub.end_session(session.key)
        # After the response, the client may use the id at another process.
        await hub.flush()
    return Reply(204)


async def _find_session_of(
    server: Services, exchange: Exchange, *, needs_stream: bool
) -> Session | Reply:
    headers = exchange.headers
    can_stream = exchange.channel.can_stream and not exchange.channel.is_buffered
    if headers is None or not server.keeps_sessions or (needs_stream and not can_stream):
        return server.refuse_method(exchange)
    revision = find_revision(headers.get(PROTOCOL_VERSION))
    if revision is not None and revision.is_stateless:
        return server.refuse_method(exchange)
    refusal = check_version(headers, server.revisions)
    token = headers.get(SESSION_ID)
    if refusal is None and token is None:
        refusal = NO_SESSION_ID
    if refusal is not None:
        return refusal_reply(refusal)
    session = await find_session(server, exchange, token or "")
    if session is None:
        return refusal_reply(UNKNOWN_SESSION)
    exchange.connection = session
    return session
