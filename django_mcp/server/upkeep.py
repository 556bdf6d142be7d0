"""Look after open streams: which of them want to hear of something, are too old, or no longer alive."""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod

from django_mcp.protocol.levels import LOG_LEVELS
from django_mcp.protocol.messages import encode_request
from django_mcp.server.push import LISTS, Change, Ending, PushStream

if TYPE_CHECKING:
    from django_mcp.server.hub import Hub
    from django_mcp.server.server import MCPServer
    from django_mcp.server.sessions import Session

logger = logging.getLogger("django_mcp")

PING_PREFIX = "ping-"


def wants_level(server: MCPServer, level: str) -> Callable[[PushStream], bool]:
    """Return what tells whether a stream's client wants log messages of a level."""
    rank, usual = LOG_LEVELS[level], server.options.log_level

    def judge(stream: PushStream) -> bool:
        return rank >= LOG_LEVELS[stream.log_level or usual]

    return judge


def tell_lists(server: MCPServer, stream: PushStream, session: Session) -> None:
    """Have a session's first standing stream begin with the notices that the lists have changed."""
    if session.was_told_lists:
        return
    session.was_told_lists = True
    features = server.derived.features
    for name in LISTS:
        if name in features:
            stream.offer(stream.encode(*Change(server=server.name, list=name).notification()))


def while_there(method: WeakMethod[Any]) -> Callable[[Hub], Any]:
    """Return a function for `Hub.on_tick` that calls a method for as long as its object lives.

    A hub may outlive the stores that it looks after.
    """

    def on_tick(hub: Hub) -> Any:
        found = method()
        return found(hub) if found is not None else None

    return on_tick


def close_old_streams(hub: Hub) -> None:
    """Close streams that were open for long enough; their clients open others."""
    if hub.loop is None:
        return
    now = hub.loop.time()
    for stream in list(hub.streams.values()):
        if stream.closes_s == 0.0:
            server = hub.servers.get(stream.server_name)
            age_s = server.options.stream_max_age_s if server is not None else 3600.0
            # Those that came together do not all leave together.
            stream.closes_s = stream.opened_s + age_s * random.uniform(0.9, 1)  # noqa: S311
        if now >= stream.closes_s:
            stream.end(Ending.AGE)


def ping_streams(hub: Hub) -> None:
    """Ping the clients of standing streams, and give up those that are not there any more.

    A failure is a ping without an answer, or a queue that was not drained meanwhile.
    """
    if hub.loop is None:
        return
    now = hub.loop.time()
    for stream in list(hub.streams.values()):
        server = hub.servers.get(stream.server_name)
        every_s = server.options.ping_interval_s if server is not None else None
        if (
            server is None
            or every_s is None
            or stream.session is None
            or not stream.is_active
            or now - stream.pinged_s < every_s
        ):
            continue
        if stream.ping_id is not None or stream.queued_events:
            stream.ping_failures += 1
            if stream.ping_failures >= server.options.ping_failures:
                logger.warning("Closed stream %s: %s", stream.id, Ending.SILENT.value)
                stream.end(Ending.SILENT)
                continue
        stream.pinged_s = now
        stream.ping_id = f"{PING_PREFIX}{uuid.uuid4().hex}"
        stream.offer(encode_request(stream.ping_id, "ping"))


def take_pong(hub: Hub, session_key: str, ping_id: str) -> bool:
    """Take a client's answer to a ping, wherever its stream is; tell whether it is one."""
    if not ping_id.startswith(PING_PREFIX) or len(ping_id) != len(PING_PREFIX) + 32:
        return False
    streams = hub.streams_of(session_key)
    if not any(stream.take_pong(ping_id) for stream in streams):
        hub.tell("pong", session=session_key, id=ping_id)
    return True
