"""What a process reports of the calls that run for long, and how operators cancel one of them.

A report looks at the calls in flight when it is made, so that calls which end sooner cost nothing.
"""

from __future__ import annotations

import heapq
import time
import uuid
from collections.abc import Collection
from operator import attrgetter
from typing import Any

from django_mcp.execution.threads import find_held
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.sanitize import clean, clean_if_text, name_and_version
from django_mcp.server.exchange.call import Call
from django_mcp.server.exchange.caller import key_of
from django_mcp.server.exchange.digests import digest_of
from django_mcp.server.exchange.session import Session
from django_mcp.server.services import ServerHub

LONG_S = 1.0
"""How long a call has run before it is reported."""

MAX_LONG = 100
"""Calls that are reported, the longest first; the others are counted."""

LISTEN = "subscriptions/listen"
"""It is in flight while its stream is open, and counted as a stream."""

_WALL_S = time.time() - time.perf_counter()
"""What makes a time of `time.perf_counter` seconds since the epoch, the same in each report."""


def report_calls(hub: ServerHub) -> tuple[list[JSONObject], int]:
    """Return the calls of a process that run for long, as JSON, and how many there are without the runs of tasks.

    The runs of tasks are among them, and handlers that hold a thread after their call has ended.
    """
    held = find_held()
    running = {call: None for call in hub.calls if call.method != LISTEN}
    left = {call: None for _, call in held if call is not None and call not in running}
    before_s = time.perf_counter() - LONG_S
    long = [call for call in (*running, *left) if 0.0 < call.started_s < before_s]
    exchanges = {exchange for exchange, _ in held}
    shown = heapq.nsmallest(MAX_LONG, long, key=attrgetter("started_s"))
    return [
        {
            **_describe(call),
            "state": _state_of(call, is_left=call in left),
            "has_thread": call.exchange in exchanges,
        }
        for call in shown
    ], sum(call.detached_run is None for call in long)


def _state_of(call: Call, *, is_left: bool) -> str:
    if is_left:
        return "left"
    if call.is_suspended:
        return "waiting"
    return "queued" if call.exchange.channel.waits_for_thread else "running"


def _describe(call: Call) -> JSONObject:
    if not call.public_id:
        call.public_id = uuid.uuid4().hex
    principal, connection = call.exchange.caller.principal, call.connection
    user = getattr(getattr(principal, "user", None), "pk", None)
    client_name, client_version = name_and_version(connection.client_info)
    return {
        "id": call.public_id,
        "method": clean(call.method, 100),
        "name": clean(getattr(call.entry, "name", ""), 200),
        "server": clean(call.options.name, 100),
        "user": "" if user is None else str(user),
        "principal": clean_if_text(key_of(principal), 128),
        "client": f"{client_name} {client_version}".strip(),
        "revision": call.rules.name,
        "session": connection.key if isinstance(connection, Session) else "",
        "task": "" if call.detached_run is None else digest_of(call.detached_run.key),
        "since": round(_WALL_S + call.started_s),
    }


def cancel_calls(hub: ServerHub, ids: Collection[Any]) -> None:
    """Cancel the calls that operators named, as far as they run in this process. On the event loop.

    Tasks are cancelled in their own table.
    """
    for call in hub.calls:
        if call.public_id and call.public_id in ids and call.detached_run is None:
            call.cancel()
