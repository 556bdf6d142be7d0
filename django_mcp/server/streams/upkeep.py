"""Maintenance of open streams: missed changes, maximum age, and pings."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Container
from typing import Any

from django_mcp.log import logger
from django_mcp.protocol.messages import encode_request
from django_mcp.server.streams.hub import Hub
from django_mcp.server.streams.process_messages import Missed, Pong
from django_mcp.server.streams.stream import LISTS, Change, Ending, PushStream

PING_PREFIX = "ping-"

SLICE = 64
"""Resources that are announced before other work of the event loop has its turn."""


def notify_lists(features: Container[str], stream: PushStream) -> None:
    """Notify a client to read those of the server's lists again that its stream subscribed to."""
    for name in LISTS:
        if name in stream.lists and name in features:
            stream.notify(Change(server=stream.server_name, list=name))


def maintain_streams(hub: Hub[Any]) -> None:
    """Close old streams of a hub, and announce again what it may have missed from other processes."""
    hub.on_tick.append(close_old_streams)

    def missed(message: Missed) -> None:
        if message.server is None or message.server in hub.servers:
            hub.spawn(_announce_all(hub, message.server))
        hub.claim_sessions()

    hub.on(Missed, missed)


async def _announce_all(hub: Hub[Any], server_name: str | None) -> None:
    """Notify all streams to read again what they subscribed to; of a named server, only resources."""
    names = list(hub.servers.keys()) if server_name is None else [server_name]
    for name in names:
        for list_name in LISTS if server_name is None else ("resources",):
            hub.publish(Change(server=name, list=list_name))
    for number, (name, uri) in enumerate(hub.index.uris()):
        if name in names:
            hub.publish(Change(server=name, uri=uri))
        if number % SLICE == SLICE - 1:
            await asyncio.sleep(0)


def close_old_streams(hub: Hub[Any]) -> None:
    """Close streams that have reached their maximum age; their clients open others."""
    if hub.loop is None:
        return
    now = hub.loop.time()
    for stream in list(hub.streams.values()):
        if stream.closes_s == 0.0:
            server = hub.servers.get(stream.server_name)
            age_s = server.options.stream_max_age_s if server is not None else 3600.0
            # Streams that opened together are not all closed together.
            stream.closes_s = stream.opened_s + age_s * random.uniform(0.9, 1)  # noqa: S311
        if now >= stream.closes_s:
            stream.end(Ending.AGE)


def ping_later(hub: Hub[Any], stream: PushStream) -> None:
    """Ping the client of a session's stream regularly, if the server has an interval for that."""
    server = hub.servers.get(stream.server_name)
    every_s = server.options.ping_interval_s if server is not None else None
    if hub.loop is not None and every_s is not None and stream.session is not None:
        stream.pinged_s = max(stream.pinged_s + every_s, hub.loop.time())
        hub.loop.call_at(stream.pinged_s, _ping_on_time, hub, stream.id)


def _ping_on_time(hub: Hub[Any], stream_id: str) -> None:
    stream = hub.streams.get(stream_id)
    if stream is not None and stream.is_open:
        ping_stream(hub, stream)
        ping_later(hub, stream)


def ping_stream(hub: Hub[Any], stream: PushStream) -> None:
    """Ping the client of a stream, or close the stream after too many failures.

    A failure is a ping without an answer, or messages that are still queued at the next ping.
    """
    server = hub.servers.get(stream.server_name)
    if server is None or not stream.is_active:
        return
    if stream.ping_id is not None or stream.queued_events:
        stream.ping_failures += 1
        if stream.ping_failures >= server.options.ping_failures:
            logger.warning("Closed stream %s: %s", stream.id, Ending.SILENT.value)
            stream.end(Ending.SILENT)
            return
    stream.ping_id = f"{PING_PREFIX}{uuid.uuid4().hex}"
    stream.offer(encode_request(stream.ping_id, "ping"))


def take_pong(hub: Hub[Any], session_key: str, ping_id: str) -> bool:
    """Handle a client's response to a ping, wherever its stream is; return whether it is one."""
    if not ping_id.startswith(PING_PREFIX) or len(ping_id) != len(PING_PREFIX) + 32:
        return False
    hub.hand_over(Pong(session=session_key, id=ping_id))
    return True
