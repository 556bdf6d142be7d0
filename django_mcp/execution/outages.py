"""Databases that are down or lack tables: what recognizes it, logs it once, and tries again later."""

from __future__ import annotations

import asyncio
import math
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

from django_mcp.log import logger
from django_mcp.server.ports import StoreUnavailable

T = TypeVar("T")

TIMEOUT_S = 5.0
"""How long a request waits for a database, unless its breaker has a limit of its own."""

PAUSE_S = 1.0
"""How long requests are refused after a failure, until one tries again."""

_CODES: frozenset[int | str] = frozenset({"42P01", "42703", 1146, 1054, 942, 904})
"""No such table and no such column, of PostgreSQL, of MySQL and MariaDB, and of Oracle."""

_CONFLICTS: frozenset[int | str] = frozenset(
    {"40P01", "40001", "55P03", 1213, 1205, 1020, 3572, 60, 8177, 54}
)
"""Deadlock, serialization failure and lock timeout, of the same databases."""

_POOL_ERRORS = ("PoolTimeout", "TooManyRequests")
_ORACLE_POOL = "DPY-4005"

_SQLITE = ("no such table", "no such column", "has no column named")

WARN_EVERY_S = 60.0

_is_reported = threading.Event()


class Unmigrated(StoreUnavailable):
    """The database lacks a table or a column."""

    message = "The database lacks tables or columns that this server needs: run manage.py migrate"


def is_unmigrated(error: object) -> bool:
    """Return whether an error of the database means that migrations have to be applied."""
    # Loads `django.db`, which importing a server must not.
    from django.db import DatabaseError

    if not isinstance(error, DatabaseError):
        return False
    if any(text in str(error) for text in _SQLITE):
        return True
    return _has_code(error, _CODES)


def is_conflict(error: object) -> bool:
    """Return whether an error means that a transaction lost against another one.

    It is a deadlock, a row that changed meanwhile, or a lock that did not come free in time.
    """
    # Loads `django.db`, which importing a server must not.
    from django.db import DatabaseError

    if not isinstance(error, DatabaseError):
        return False
    return "is locked" in str(error) or _has_code(error, _CONFLICTS)


def _has_code(error: Exception, wanted: Collection[int | str]) -> bool:
    codes = [getattr(error.__cause__, name, None) for name in ("sqlstate", "pgcode")]
    if error.args:
        codes += [error.args[0], getattr(error.args[0], "code", None)]
    return any(isinstance(code, int | str) and code in wanted for code in codes)


def is_pool_timeout(error: object) -> bool:
    """Return whether an error means that no connection of a database's pool (`OPTIONS["pool"]`) came free."""
    # Loads `django.db`, which importing a server must not.
    from django.db import OperationalError

    if not isinstance(error, OperationalError):
        return False
    cause = type(error.__cause__)
    is_psycopg = cause.__module__.startswith("psycopg_pool")
    return (is_psycopg and cause.__name__ in _POOL_ERRORS) or _ORACLE_POOL in str(error)


def report_pool_timeout(error: object) -> bool:
    """Return whether an error means so, and log it, with the remedy, unless that was done recently."""
    if not is_pool_timeout(error):
        return False
    _full.warn(
        "All connections of the pool of a database were in use, so that a call got none (%s). Raise "
        "max_size of its OPTIONS['pool'], lower SYNC_THREADS or TASK_THREADS of DJANGO_MCP, or find "
        "out why handlers hold connections for so long.",
        str(error).partition("\n")[0],
    )
    return True


def report_unmigrated(error: object) -> bool:
    """Return whether an error means so. The first one of a process is logged, with the remedy."""
    if not is_unmigrated(error):
        return False
    if not _is_reported.is_set():
        _is_reported.set()
        logger.error("%s (%s)", Unmigrated.message, str(error).partition("\n")[0])
    return True


class Warner:
    """Logs the same warning at most once in `WARN_EVERY_S`.

    It is for what reports only failures. What reports its successes too uses an `OutageLog` of
    `server/streams/messenger.py`, which also logs the end.
    """

    _next_s = 0.0

    def warn(self, text: str, error: object) -> None:
        """Log a warning, unless that was done recently, or the remedy if migrations are missing."""
        if report_unmigrated(error):
            return
        now = time.monotonic()
        if now >= self._next_s:
            self._next_s = now + WARN_EVERY_S
            logger.warning(text, error)


_full = Warner()


def is_outage(error: object) -> bool:
    """Return whether an error means that a database is down, or that migrations have to be applied."""
    # Loads `django.db`, which importing a server must not.
    from django.db import InterfaceError, OperationalError

    return isinstance(error, InterfaceError | OperationalError) or is_unmigrated(error)


def is_locked(error: object) -> bool:
    """Return whether an error means that another connection has SQLite's lock: the database is not down."""
    code = getattr(getattr(error, "__cause__", None), "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class Breaker:
    """Remembers that a database is down, and lets one request at a time try it."""

    def __init__(self, subject: str, *, timeout_s: float | None = None) -> None:
        self._subject = subject
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        # Under WSGI each request has an event loop of its own, in a thread of its own.
        self._retry_s: float | None = None
        self._is_probing = False
        self._failure: type[StoreUnavailable] = StoreUnavailable

    async def run(
        self,
        function: Callable[[], T],
        runner: Callable[[Callable[[], T]], Awaitable[T]],
        *,
        is_limited: bool = True,
    ) -> T:
        """Run `function` in a thread by `runner`, and return what it returns.

        If there is no answer in time, this raises `StoreUnavailable`, or its subclass `Unmigrated`. Not
        `is_limited`: there is any time for it.
        """
        if not self._enter():
            raise self._failure
        is_probe, began_s = self._retry_s is not None, math.inf
        limit_s = self._timeout_s or TIMEOUT_S
        limit = asyncio.timeout(limit_s if is_limited else None)

        def ask() -> T:
            nonlocal began_s
            began_s = time.monotonic()
            # The database may have failed while this waited for a thread.
            if self._retry_s is not None and not is_probe:
                raise self._failure
            try:
                return function()
            except Exception as error:
                if is_outage(error):
                    # Here, since the next work of this thread comes before the event loop.
                    self.fail(error)
                raise

        try:
            async with limit:
                outcome = await runner(ask)
        except StoreUnavailable:
            raise
        except BaseException as error:
            if limit.expired() and time.monotonic() - began_s < limit_s / 2:
                # It waited for a thread, behind many requests, which says nothing of the database.
                raise StoreUnavailable from error
            if not (isinstance(error, TimeoutError) or is_outage(error)):
                raise
            raise self.fail(error) from error
        finally:
            # A probe is over, however it ended.
            self._is_probing &= not is_probe
        self.note_answer()
        return outcome

    def check(self) -> None:
        """Raise `StoreUnavailable` if the database has failed a moment ago."""
        if self._retry_s is not None and time.monotonic() < self._retry_s:
            raise self._failure

    def note_answer(self) -> None:
        """Note that the database has answered."""
        if self._retry_s is not None:
            logger.warning("%s answers again", self._subject)
            self._retry_s, self._is_probing = None, False

    def _enter(self) -> bool:
        """Return whether the caller may query; then it must report the result."""
        retry_s = self._retry_s
        if retry_s is None:
            return True
        with self._lock:
            may_probe = not self._is_probing and time.monotonic() >= retry_s
            self._is_probing |= may_probe
            return may_probe

    def fail(self, error: BaseException) -> type[StoreUnavailable]:
        """Note that the database has failed, and return what to raise."""
        if report_pool_timeout(error) or is_locked(error):
            # It answers others.
            return StoreUnavailable
        is_unmigrated = report_unmigrated(error)
        self._failure = Unmigrated if is_unmigrated else StoreUnavailable
        if self._retry_s is None and not is_unmigrated:
            logger.error("%s does not answer: %r", self._subject, error)
        self._retry_s, self._is_probing = time.monotonic() + PAUSE_S, False
        return self._failure
