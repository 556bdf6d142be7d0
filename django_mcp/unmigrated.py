"""Tell the error of a missing table or column from other errors of the database."""

from __future__ import annotations

import logging
import threading

from django_mcp.server.services.ports import StoreUnavailable

logger = logging.getLogger("django_mcp")

_CODES = {"42P01", "42703", 1146, 1054, 942, 904}
"""No such table and no such column, of PostgreSQL, of MySQL and MariaDB, and of Oracle."""

_SQLITE = ("no such table", "no such column", "has no column named")


_is_reported = threading.Event()


class Unmigrated(StoreUnavailable):
    """The database lacks a table or a column."""

    message = "The database lacks tables or columns that this server needs: run manage.py migrate"


def is_unmigrated(error: object) -> bool:
    """Return whether an error of the database means that migrations have to be applied."""
    # Loads the machinery of databases, which importing a server must not.
    from django.db import DatabaseError

    if not isinstance(error, DatabaseError):
        return False
    if any(text in str(error) for text in _SQLITE):
        return True
    codes = [getattr(error.__cause__, name, None) for name in ("sqlstate", "pgcode")]
    if error.args:
        codes += [error.args[0], getattr(error.args[0], "code", None)]
    return any(isinstance(code, int | str) and code in _CODES for code in codes)


def report_unmigrated(error: object) -> bool:
    """Return whether an error means so. The first one of a process is logged, with the remedy."""
    if not is_unmigrated(error):
        return False
    if not _is_reported.is_set():
        _is_reported.set()
        logger.error("%s (%s)", Unmigrated.message, str(error).partition("\n")[0])
    return True
