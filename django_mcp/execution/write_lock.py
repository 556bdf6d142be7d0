"""SQLite's write lock, which one connection of all processes has at a time: who waits for it, and how long.

A `WriteLock` is an execute wrapper of a connection. Django executes the statement that begins a
transaction like any other, so the wrapper sees it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakSet

from django.db import Error, OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper

from django_mcp.execution.outages import is_locked

TRY_MS = 50
"""How long SQLite itself waits at a time. Meanwhile it holds a mutex of the connection, for which the
garbage collector would wait in any thread if it finds a cursor of this connection."""

PAUSE_S = 0.05
"""Pause of a handler between two tries. The package's own writes are short, and try again sooner, so that
they come first."""

OWN_PAUSE_S = 0.005

_BEGIN = "BEGIN IMMEDIATE"


def has_write_lock(connection: BaseDatabaseWrapper) -> bool:
    """Return whether a connection leads to a SQLite file. One in memory has locks that nobody waits for."""
    return connection.vendor == "sqlite" and not connection.is_in_memory_db()  # type: ignore[attr-defined]


class WriteLock:
    """Has one connection wait for the write lock, between `begin` and `end`."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self._connection: Any = connection
        self._goes_on: Callable[[], bool] | None = None
        self._is_own = False
        self._timeout_s = 5.0
        self._raw: Any = None
        self._is_brief = self._is_used = False
        self._is_deferring = self._is_due = False
        self._cursors = WeakSet[Any]()

    def begin(self, goes_on: Callable[[], bool] | None, *, is_own: bool) -> None:
        """Wait while `goes_on()`, or as long as the `timeout` of the connection.

        Args:
            is_own: it is for writes of the package: each transaction takes the lock as it begins, and
                they try more often.
        """
        self._goes_on, self._is_own = goes_on, is_own
        self._connection.execute_wrappers.append(self)

    @contextmanager
    def deferring(self) -> Iterator[None]:
        """Begin the next transaction with its first statement, and have it take the lock then.

        A read takes it too: two calls that read a row and then change it must not overlap.
        """
        self._is_deferring = not self._connection.in_atomic_block
        try:
            yield
        finally:
            self._is_deferring = self._is_due = False

    def __call__(self, execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        if not self._is_used:
            self._is_used = True
            self._timeout_s = self._connection.settings_dict["OPTIONS"].get("timeout", 5.0)
        # The driver's, which its wrapper may not outlive.
        self._cursors.add(context["cursor"].cursor)
        if sql.startswith("BEGIN"):
            self._is_deferring, self._is_due = False, self._is_deferring
            if self._is_due:
                return None
            sql = _BEGIN if self._is_own else sql
        elif self._is_due:
            self._begin()
        return self._try(execute, sql, params, many, context)

    def _begin(self) -> None:
        self._is_due = False
        # A callback of the commit may be the first to use the database.
        if self._connection.in_atomic_block:
            try:
                with self._connection.cursor() as cursor:
                    cursor.execute(_BEGIN)
            except Error:
                self._is_due = True
                raise

    def _try(self, execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        raw, until_s = self._connection.connection, None
        # A statement inside of a transaction has the lock, or cannot get it by waiting. The COMMIT,
        # which is no statement of a cursor, may have to wait for readers.
        self._set_wait(raw, is_brief=not raw.in_transaction)
        while True:
            try:
                outcome = execute(sql, params, many, context)
            except OperationalError as error:
                if not is_locked(error):
                    raise
                now_s = time.monotonic()
                until_s = until_s or now_s + self._timeout_s
                goes_on = now_s < until_s if self._goes_on is None else self._goes_on()
                if raw.in_transaction or not goes_on:
                    raise
            else:
                if self._is_brief and raw.in_transaction:
                    self._set_wait(raw, is_brief=False)
                return outcome
            time.sleep(OWN_PAUSE_S if self._is_own else PAUSE_S)

    def _set_wait(self, raw: Any, *, is_brief: bool) -> None:
        if raw is not self._raw or is_brief != self._is_brief:
            self._raw, self._is_brief = raw, is_brief
            wait_ms = TRY_MS if is_brief else int(self._timeout_s * 1000)
            raw.execute(f"PRAGMA busy_timeout = {wait_ms}").close()

    def end(self) -> None:
        """Close the cursors, forget who waits, and have SQLite wait as before."""
        self._connection.execute_wrappers.remove(self)
        # It may refer to a call, with its arguments.
        self._goes_on = None
        if not self._is_used:
            return
        self._is_used = False
        # If one is in a cycle with an exception, another thread would finalize it later.
        for cursor in list(self._cursors):
            # That of a closed connection cannot be closed.
            with suppress(sqlite3.Error):
                cursor.close()
        self._cursors.clear()
        if self._raw is not None and self._raw is self._connection.connection:
            self._set_wait(self._raw, is_brief=False)
        self._raw, self._is_brief = None, False


def begin_waiting(
    used: Iterable[BaseDatabaseWrapper],
    goes_on: Callable[[], bool] | None,
    *,
    is_own: bool = False,
) -> list[WriteLock]:
    """Have those of the connections that lead to SQLite files wait for the lock, until the `end` of each."""
    locks = []
    connection: Any
    for connection in used:
        name = connection.settings_dict["NAME"]
        known_name, lock = getattr(connection, "_django_mcp_write_lock", (None, None))
        if known_name is not name:
            # The lock of a connection is made once for a database.
            lock = WriteLock(connection) if has_write_lock(connection) else None
            connection._django_mcp_write_lock = (name, lock)
        if lock is not None:
            lock.begin(goes_on, is_own=is_own)
            locks.append(lock)
    return locks


def find_lock(connection: BaseDatabaseWrapper) -> WriteLock | None:
    """Return the lock of a connection in this thread, if it waits for one."""
    return next(
        (wrapper for wrapper in connection.execute_wrappers if isinstance(wrapper, WriteLock)), None
    )
