"""Streams that receive changes, of callers with a session and without: open within limits, until their end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django_mcp.protocol.errors import INVALID_REQUEST, Refusal, try_later
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.pending import PendingBytes
from django_mcp.server.exchange.quotas import Limits, QuotaScope
from django_mcp.server.exchange.visibility import NONE_VISIBLE
from django_mcp.server.services import Services
from django_mcp.server.streams.stream import Ending, PushStream
from django_mcp.server.streams.upkeep import notify_lists, ping_later


async def run_stream(server: Services, exchange: Exchange, stream: PushStream) -> Ending:
    """Keep a stream open until its end, and return why it ended."""
    exchange.channel.cancels_on_disconnect = True
    stream.exchange = exchange
    stream.quota_key = exchange.caller.quota_key
    stream.pending = PendingBytes(stream.quota_key, server.options)
    stream.rights = exchange.caller.visible
    if stream.rights is NONE_VISIBLE:
        # Only if that is known without a query.
        stream.rights = server.find_visible(exchange, server.derived.requirements)
    hub = server.join_hub()
    hub.attach(stream)
    ping_later(hub, stream)
    session = stream.session
    if server.options.tell_lists_at_start and session is not None and not session.was_told_lists:
        session.was_told_lists = True
        notify_lists(server.derived.features, stream)
    reason = Ending.CLIENT
    try:
        server.ports.connection_observer.stream_opened(stream)
        reason = await stream.run()
        return reason
    finally:
        server.hub.detach(stream)
        server.ports.connection_observer.stream_closed(stream, reason.value)


def check_stream_limits(server: Services, exchange: Exchange) -> Refusal | None:
    """Return the refusal of one more stream, or None."""
    hub, options = server.hub, server.options
    limits = Limits(own_count=options.max_streams_per_principal, count=options.max_streams)
    scope = hub.quotas.find_reached(
        limits, exchange.caller.quota_key, 0, share=options.anonymous_share
    )
    if scope is QuotaScope.OWN:
        message = (
            "You have as many streams open as MAX_STREAMS_PER_PRINCIPAL allows: close one first"
        )
    elif scope is not None or hub.is_closing:
        scope, message = QuotaScope.ALL, "No further stream can be opened here now: try again later"
    else:
        return None
    return try_later(message, code=INVALID_REQUEST, status=scope.value)


@contextmanager
def count_stream(server: Services, exchange: Exchange) -> Iterator[Refusal | None]:
    """Count a request as an open stream while the block runs, unless a limit is reached; yield the refusal then."""
    meter, key = server.join_hub().quotas, exchange.caller.quota_key
    refusal = check_stream_limits(server, exchange)
    count = 1 if refusal is None else 0
    meter.add(key, 0, count=count)
    try:
        yield refusal
    finally:
        meter.give_back(key, 0, count=count)
