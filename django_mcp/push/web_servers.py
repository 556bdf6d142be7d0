"""What ASGI servers do not tell the application: that they are about to end this process.

When uvicorn has served `--limit-max-requests`, or hypercorn has another reason than a signal, it accepts no
connection any more and waits for those that are open. The application is told of it when they have ended, so an
open stream would keep a process that serves nobody.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

DEPTH = 20
"""How many coroutines that await each other are looked through for a server."""


def find_ending() -> Callable[[], bool] | None:
    """Return a function that returns whether the server of the running event loop is about to end.

    None: it is not known how that server could be asked. The coroutines that servers run in are the one
    place that leads to them.
    """
    for module, name, is_ending in _SERVERS:
        kind: Any = getattr(sys.modules.get(module), name, None)
        for value in _values_of_tasks(module) if kind is not None else ():
            if isinstance(value, kind):
                return partial(is_ending, value)
    return None


def _values_of_tasks(module: str) -> Iterator[Any]:
    """Yield the arguments and variables of the coroutines on the event loop that are of the module's package.

    Before Python 3.13 a frame keeps what its `f_locals` once returned, so those of others are not read: it
    would keep whatever they delete.
    """
    package = module.partition(".")[0]
    for task in asyncio.all_tasks():
        awaited: Any = task.get_coro()
        for _ in range(DEPTH):
            frame = getattr(awaited, "cr_frame", None)
            if frame is None:
                break
            if frame.f_globals.get("__name__", "").partition(".")[0] == package:
                yield from frame.f_locals.values()
            awaited = awaited.cr_await


def _is_uvicorn_ending(server: Any) -> bool:
    # With the limit of requests, it closes its sockets and sets nothing.
    sockets = getattr(server, "servers", ())
    return bool(server.should_exit) or not all(listener.is_serving() for listener in sockets)


def _is_hypercorn_ending(context: Any) -> bool:
    return bool(context.terminated.is_set())


_SERVERS: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    ("uvicorn.server", "Server", _is_uvicorn_ending),
    ("hypercorn.asyncio.worker_context", "WorkerContext", _is_hypercorn_ending),
)
"""Modules and classes of servers, and how their objects are asked."""
