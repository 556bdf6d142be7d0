"""Usable database connections and a transaction for a function in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar
from weakref import WeakSet

from django.core import mail
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_mcp.execution.write_lock import begin_waiting, find_lock
from django_mcp.log import logger

T = TypeVar("T")

OWN_AGE_S = 60
"""How long a connection outside of a pool stays open in a thread for the package's own queries."""


def run_with_connections(
    function: Callable[[], T],
    goes_on: Callable[[], bool] | None = None,
    *,
    is_own_write: bool = False,
) -> T:
    """Run `function` in this thread; connections that are broken or too old are closed before and after.

    A nested call closes none, since the outer function may be in the middle of a query. A statement
    waits for SQLite's write lock while `goes_on()`; see `WriteLock`. Without it, see `wait_while`.
    In an own write of the package, each transaction takes the lock as it begins, whatever the site's
    `transaction_mode`: one that reads first would fail at once if another one writes.
    """
    if getattr(_in_use, "is_set", False):
        return function()
    known_connections = _find_connections()
    _tidy(known_connections)
    _in_use.is_set = True
    try:
        goes_on = goes_on or getattr(_patience, "goes_on", None)
        locks = begin_waiting(known_connections, goes_on, is_own=is_own_write)
        try:
            return function()
        finally:
            for lock in locks:
                lock.end()
    finally:
        _in_use.is_set = False
        _tidy(known_connections)


_in_use = threading.local()
"""For each thread: `is_set` while a function runs in it whose connections must stay open."""


_patience = threading.local()
"""For each thread: `goes_on`, if it has called `wait_while`."""


def wait_while(goes_on: Callable[[], bool]) -> None:
    """Have the statements of this thread wait for SQLite's write lock while `goes_on()`: see `WriteLock`."""
    _patience.goes_on = goes_on


@contextmanager
def usable_connections(
    goes_on: Callable[[], bool] | None = None,
) -> Iterator[Callable[[], bool]]:
    """Close this thread's unusable connections before and after a block.

    A statement waits for SQLite's write lock while `goes_on()`; see `WriteLock`. Yields a function that
    returns whether one of them must stay open: it has an open transaction, or the rows of a query are
    still being read. A transaction that is left open is rolled back.
    """
    known_connections, cursors = _find_connections(), WeakSet[Any]()
    _tidy(known_connections)
    entered = [connection for connection in known_connections if not connection.in_atomic_block]

    def note(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        # Django drops a cursor as soon as all of its rows are read.
        cursors.add(context["cursor"])
        return execute(sql, params, many, context)

    for connection in known_connections:
        connection.execute_wrappers.append(note)
    was_in_use, _in_use.is_set = getattr(_in_use, "is_set", False), True
    try:
        locks = begin_waiting(known_connections, goes_on)
        try:
            yield (
                lambda: (
                    len(cursors) > 0 or any(connection.in_atomic_block for connection in entered)
                )
            )
        finally:
            for lock in locks:
                lock.end()
    finally:
        _in_use.is_set = was_in_use
        for connection in known_connections:
            connection.execute_wrappers.remove(note)
        for connection in entered:
            if connection.in_atomic_block:
                # Its transaction has no end. The thread gets another connection.
                connection.close()
                del connections[connection.alias]
        _tidy(known_connections)


def _find_connections() -> Collection[BaseDatabaseWrapper]:
    if getattr(_avoids_pools, "is_set", False):
        for connection in connections.all():
            if _has_pool(connection):
                connections[connection.alias] = _make_unpooled(connection)
    used = connections.all()
    # Two aliases can have one connection: a test's mirror of a replica.
    return used if len(used) == 1 else {id(connection): connection for connection in used}.values()


_avoids_pools = threading.local()
"""For each thread: `is_set` if its connections are outside of the pools of its databases."""


def avoid_pools() -> None:
    """Have this thread connect to databases by itself, past their pools (`OPTIONS["pool"]`).

    For threads of the package's own queries: slow handlers may hold all connections of a pool, and
    sessions, tasks and leases must go on.
    """
    _avoids_pools.is_set = True


def _has_pool(connection: BaseDatabaseWrapper) -> bool:
    return bool(connection.settings_dict["OPTIONS"].get("pool"))


def _make_unpooled(connection: BaseDatabaseWrapper) -> BaseDatabaseWrapper:
    database = connection.settings_dict
    age_s = 0 if _is_test_run() else OWN_AGE_S
    options = {key: value for key, value in database["OPTIONS"].items() if key != "pool"}
    return type(connection)(
        {**database, "OPTIONS": options, "CONN_MAX_AGE": age_s}, connection.alias
    )


def _is_test_run() -> bool:
    """Return whether Django's test runner or pytest-django runs: it makes an outbox.

    A connection of a thread has to be closed then, because a test database can only be dropped without
    connections to it.
    """
    return hasattr(mail, "outbox")


class _Closer:
    """Closes a connection at the end of its thread, without the garbage collector."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __del__(self) -> None:
        raw = self._connection.connection
        if raw is not None:
            raw.close()


_at_end_of_thread = threading.local()


def _tidy(found: Iterable[BaseDatabaseWrapper]) -> None:
    """Close this thread's connections that are broken or too old (`CONN_MAX_AGE`).

    Django does this around its own requests only. A connection inside of a transaction is in use by a
    test case or a calling handler.
    """
    for connection in found:
        if connection.connection is None or connection.in_atomic_block:
            continue
        if connection.vendor == "sqlite" and connection.is_in_memory_db():  # type: ignore[attr-defined]
            # The database ends with its last connection, so Django never closes it.
            closers = vars(_at_end_of_thread)
            if connection.alias not in closers:
                closers[connection.alias] = _Closer(connection)
            continue
        if _is_test_run():
            connection.close_at = 0  # as with a `CONN_MAX_AGE` of 0
        connection.close_if_unusable_or_obsolete()


def is_shared_database(alias: str | None) -> bool:
    """Return whether there is a database that other processes can use as well."""
    connection: Any = connections[alias or DEFAULT_DB_ALIAS]
    if connection.vendor == "sqlite":
        return not connection.is_in_memory_db()
    # Django's placeholder on a site without a database.
    return bool(connection.vendor != "unknown")


class HandlerAbandoned(Exception):
    """The call was cancelled before the handler returned, so its transaction was rolled back."""


def run_atomically(
    function: Callable[[], T], is_abandoned: Callable[[], bool], aliases: Sequence[str]
) -> T:
    """Run `function` in a transaction, which is committed if it returns and is not abandoned by then.

    On SQLite it begins with the first query, which waits for the write lock. Inside of another
    transaction, such as a test case's, it runs in a savepoint. When one of the databases cannot
    commit, those before it in `aliases` roll back.
    """
    alias, others = aliases[0], aliases[1:]
    # The attributes of a connection's transaction are not in its type.
    connection: Any = connections[alias]
    lock = find_lock(connection)
    # A tool that waits for something else must not hold SQLite's lock before it needs the database.
    with nullcontext() if lock is None else lock.deferring(), transaction.atomic(alias):
        earlier_cause = connection.rollback_exc
        if others:
            result = run_atomically(function, is_abandoned, others)
        else:
            result = function()
            if is_abandoned():
                raise HandlerAbandoned
        if connection.needs_rollback and connection.rollback_exc is not earlier_cause:
            logger.warning(
                "What a handler wrote to the database %r is rolled back, although it returned: "
                "it caught a database error outside of an atomic() block of its own",
                connection.alias,
                exc_info=connection.rollback_exc,
            )
    return result
