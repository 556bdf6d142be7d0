"""Standalone streams: what a client opens to receive changes, with a GET or with a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mcp.protocol.errors import INVALID_REQUEST, Refusal
from django_mcp.protocol.headers import LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID
from django_mcp.protocol.messages import encode_error
from django_mcp.protocol.revisions import find_revision
from django_mcp.server.delivery.resumption import resume
from django_mcp.server.exchange.admission import refuse_version
from django_mcp.server.exchange.connection import Closing, Session
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.server.exchange.quotas import is_anonymous_quota, quota_key_of, share_of
from django_mcp.server.exchange.visibility import NOTHING, Offer
from django_mcp.server.services.ports import StoreUnavailable
from django_mcp.server.services.session_lookup import (
    NO_SESSION_ID,
    NO_STORE,
    UNKNOWN_SESSION,
    allowed_methods,
    find_session,
)
from django_mcp.server.streams.stream import Ending, PushStream, StreamKind
from django_mcp.server.streams.upkeep import ping_later, tell_lists

if TYPE_CHECKING:
    from django_mcp.server.services.services import Services


RETRY_MS = 1000
"""When a client should come back to a stream that we closed. Our own limit."""

_COME_BACK = (Ending.AGE, Ending.SHUTDOWN, Ending.SLOW)


async def open_stream(server: Services, exchange: Exchange) -> Reply:
    """Open the standalone stream of a session, or resume one that broke off.

    Returns when the stream is over.

    Source: 2025-11-25 basic/transports "Listening for Messages from the Server".
    """
    try:
        return await _open_stream(server, exchange)
    except StoreUnavailable:
        return _no_store()


async def _open_stream(server: Services, exchange: Exchange) -> Reply:
    session = await _join(server, exchange, needs_stream=True)
    if not isinstance(session, Session):
        return session
    last_id = exchange.headers.get(LAST_EVENT_ID) if exchange.headers is not None else None
    if last_id:
        reply = await resume(server, exchange, session, last_id)
        if reply is not None:
            return reply
    sink, revision = exchange.sink, session.revision
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
    await server.join_hub().bus.ready()
    refusal = refuse_stream(server, exchange)
    if refusal is not None:
        return Reply(refusal.status or 503, encode_error(None, refusal), refusal.headers)
    # What is sent first opens the stream: a client waits for that before it goes on.
    await sink.prime(f"{stream.id}-0" if revision.primes_streams else None)
    reason = await run_stream(server, exchange, stream)
    if reason in _COME_BACK and revision.primes_streams:
        await sink.hang_up(RETRY_MS)
    return Reply(200)


async def run_stream(server: Services, exchange: Exchange, stream: PushStream) -> Ending:
    """Keep a stream open until its end, and return why it ended."""
    exchange.cancels_on_disconnect = True
    stream.exchange = exchange
    stream.quota_key = _quota_key_of(exchange)
    stream.rights = _find_rights(server, exchange)
    hub = server.join_hub()
    hub.attach(stream)
    ping_later(hub, stream)
    if server.options.tell_lists_at_start and stream.session is not None:
        tell_lists(server.derived.features, stream, stream.session)
    server.connection_observer.stream_opened(stream)
    reason = Ending.CLIENT
    try:
        reason = await stream.run()
        return reason
    finally:
        server.hub.detach(stream)
        server.connection_observer.stream_closed(stream, reason.value)


def _find_rights(server: Services, exchange: Exchange) -> Offer | None:
    """Return what there is for a principal, if that is known without a query."""
    if exchange.offer is not NOTHING:
        return exchange.offer
    return server.access.find_offer(exchange, server.derived.requirements)


def refuse_stream(server: Services, exchange: Exchange) -> Refusal | None:
    """Return why no further stream can be opened; None when one can."""
    hub, options = server.hub, server.options
    quota_key = _quota_key_of(exchange)
    if hub.quotas.of(quota_key) >= options.max_streams_per_principal:
        return _refuse_stream(
            "You have as many streams open as MAX_STREAMS_PER_PRINCIPAL allows: close one first",
            429,
        )
    share = share_of(options.max_streams, options.anonymous_share)
    if (
        hub.is_closing
        or len(hub.streams) >= options.max_streams
        or (is_anonymous_quota(quota_key) and hub.quotas.anonymous >= share)
    ):
        return _refuse_stream("No further stream can be opened here now: try again later", 503)
    return None


def _quota_key_of(exchange: Exchange) -> str:
    return quota_key_of(getattr(exchange.principal, "key", None), exchange.address)


def _refuse_stream(message: str, status: int) -> Refusal:
    return Refusal(
        code=INVALID_REQUEST,
        message=message,
        status=status,
        headers=((b"retry-after", b"10"),),
    )


async def end_session(server: Services, exchange: Exchange) -> Reply:
    """End a session, and with it what runs and streams for it.

    Source: 2025-11-25 basic/transports "Session Management".
    """
    try:
        session = await _join(server, exchange, needs_stream=False)
        if not isinstance(session, Session):
            return session
        was_open = await server.sessions.end(session.key, Closing.CLIENT)
    except StoreUnavailable:
        return _no_store()
    if was_open:
        hub = server.hub if exchange.is_buffered else server.join_hub()
        hub.end_session(session.key)
        # The client may use the id at another process as soon as it has our answer.
        await hub.flush()
    return Reply(204)


def _no_store() -> Reply:
    return Reply(503, encode_error(None, NO_STORE), NO_STORE.headers)


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
        return Reply(refusal.status or 400, encode_error(None, refusal))
    session = await find_session(server, exchange, token or "")
    if session is None:
        return Reply(404, encode_error(None, UNKNOWN_SESSION))
    exchange.connection = session
    return session


def not_allowed(server: Services, exchange: Exchange) -> Reply:
    """Return the answer to a verb that a server does not have, here or at that revision."""
    refusal = Refusal(code=INVALID_REQUEST, message="Method not allowed: use POST")
    allowed = allowed_methods(server, exchange.headers, can_push=not exchange.is_buffered)
    return Reply(405, encode_error(None, refusal), ((b"allow", allowed),))
