"""The calls in flight in a process, counted for the admin by session and by caller."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from django_mcp.execution.threads import find_pool_states
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.texts import clean, name_and_version
from django_mcp.server.exchange.connection import Session
from django_mcp.server.exchange.exchange import key_of

if TYPE_CHECKING:
    from django_mcp.server.exchange.call import Call
    from django_mcp.server.services.services import ServerHub

MAX_NAMED = 200
"""Sessions and callers that are listed, those with most calls first."""

MAX_HELD = 5
HELD_AFTER_S = 5.0
"""Threads that are listed with what they run, and after how long. Our own limit."""

LISTEN = "subscriptions/listen"
"""It is in flight while its stream is open, and counted as a stream."""


def count_requests(hub: ServerHub) -> JSONObject | None:
    """Return the calls in flight in a process; None: there are none.

    The shape is `{"total": 3, "sessions": {key: 2}, "callers": [[server, principal key, primary
    key of the user, revision, client name, client version, 1]], "threads": [busy threads, all
    threads, calls that wait for one], "held": [[what occupies a thread for long, since when]]}`.
    """
    # A task goes on after its request was answered.
    running = [call for call in hub.calls if call.method != LISTEN and call.run is None]
    sessions = Counter(
        call.connection.key for call in running if isinstance(call.connection, Session)
    )
    threads, held = _read_threads()
    # A handler runs on after its call has timed out.
    if not running and not threads[0]:
        return None
    callers = Counter(map(_caller, running))
    return {
        "total": len(running),
        "sessions": dict(sessions.most_common(MAX_NAMED)),
        "callers": [[*who, count] for who, count in callers.most_common(MAX_NAMED)],
        "threads": threads,
        "held": held,
    }


def _read_threads() -> tuple[list[int], list[list[Any]]]:
    state = find_pool_states().get("SYNC_THREADS")
    if state is None:
        return [0, 0, 0], []
    now_s = time.time()
    held = [
        [what, int(now_s - seconds)]
        for what, seconds in state.running[:MAX_HELD]
        if seconds >= HELD_AFTER_S
    ]
    return [len(state.running), state.max_threads, state.waiting], held


def _caller(call: Call) -> tuple[str, ...]:
    principal = call.exchange.principal
    user = getattr(getattr(principal, "user", None), "pk", None)
    return (
        clean(call.options.name, 100),
        key_of(principal) or "",
        "" if user is None else str(user),
        call.revision,
        *name_and_version(call.client_info),
    )
