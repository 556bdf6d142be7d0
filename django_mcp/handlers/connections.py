"""What surrounds a handler in its thread: usable database connections, and none left dangling."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_mcp.handlers.transactions import run_atomically

__all__ = ["run_with_connections"]

T = TypeVar("T")


def run_with_connections(function: Callable[[], T], is_abandoned: Callable[[], bool]) -> T:
    """Run `function` in this thread, in a transaction if it writes, and tidy up around it.

    Args and errors are those of `run_atomically`.
    """
    # Asked for once, since finding them costs more than looking at them. Two aliases can be one
    # connection: a test's mirror of a replica.
    found = {id(each): each for each in connections.all()}.values()
    _tidy(found)
    try:
        return run_atomically(function, is_abandoned, found)
    finally:
        _tidy(found)


class _Closer:
    """Close a connection when its thread is over, and not leave that to the garbage collector."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __del__(self) -> None:
        raw = self._connection.connection
        if raw is not None:
            raw.close()


_at_end_of_thread = threading.local()


def _tidy(found: Iterable[BaseDatabaseWrapper]) -> None:
    """Close those of this thread's connections that are broken or too old (`CONN_MAX_AGE`).

    Django does so around each request of its own; nobody does it for other threads. One inside of
    a transaction belongs to someone who is not done: a test case, or a calling handler.
    """
    for connection in found:
        if connection.connection is None or connection.in_atomic_block:
            continue
        if connection.vendor == "sqlite" and connection.is_in_memory_db():  # type: ignore[attr-defined]
            # It is gone with its last connection, so Django never closes those.
            closers = vars(_at_end_of_thread)
            if connection.alias not in closers:
                closers[connection.alias] = _Closer(connection)
            continue
        connection.close_if_unusable_or_obsolete()
