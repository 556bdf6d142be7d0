"""What surrounds a handler in its thread: usable database connections, and none left dangling."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from weakref import WeakSet

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

__all__ = ["run_with_connections", "usable_connections"]

T = TypeVar("T")


def run_with_connections(function: Callable[[], T]) -> T:
    """Run `function` in this thread, and close connections that are broken or too old around it.

    Inside of another function that runs so, or of `usable_connections`, none is closed: that one may
    be in the middle of a query.
    """
    if getattr(_in_use, "is_set", False):
        return function()
    found = _find_connections()
    _tidy(found)
    _in_use.is_set = True
    try:
        return function()
    finally:
        _in_use.is_set = False
        _tidy(found)


_in_use = threading.local()
"""Of each thread: `is_set` while something runs in it whose connections must stay."""


@contextmanager
def usable_connections() -> Iterator[Callable[[], bool]]:
    """Tidy this thread's connections before and after a block that uses them.

    Yields what returns whether one of them has to be kept: a transaction is open in it, or the rows
    of a query are still being read. A transaction that is left open is rolled back.
    """
    found, cursors = _find_connections(), WeakSet[Any]()
    _tidy(found)
    entered = [each for each in found if not each.in_atomic_block]

    def note(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        # Django drops a cursor as soon as all that was asked for is read.
        cursors.add(context["cursor"])
        return execute(sql, params, many, context)

    for connection in found:
        connection.execute_wrappers.append(note)
    was_in_use, _in_use.is_set = getattr(_in_use, "is_set", False), True
    try:
        yield lambda: len(cursors) > 0 or any(each.in_atomic_block for each in entered)
    finally:
        _in_use.is_set = was_in_use
        for connection in found:
            connection.execute_wrappers.remove(note)
        for connection in entered:
            if connection.in_atomic_block:
                _drop(connection)
        _tidy(found)


def _drop(connection: BaseDatabaseWrapper) -> None:
    """Close a connection whose transaction nobody ended; the thread gets another one."""
    connection.close()
    del connections[connection.alias]


def _find_connections() -> Collection[BaseDatabaseWrapper]:
    # Asked for once, since finding them costs more than looking at them. Two aliases can be one
    # connection: a test's mirror of a replica.
    return {id(each): each for each in connections.all()}.values()


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
