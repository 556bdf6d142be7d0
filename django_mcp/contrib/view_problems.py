"""A view that is read at start, what keeps it from becoming a tool, and how `manage.py check` says so."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from django.db import DatabaseError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_mcp.contrib.generated import report
from django_mcp.servers import MCPServer


class ViewProblem(Exception):
    """A view cannot become a tool. The text says why, `hint` what to do."""

    def __init__(self, text: str, hint: str) -> None:
        super().__init__(text)
        self.hint = hint


class WriteRefused(Exception):
    """A view tried to write while it was only read."""


_WRITING = re.compile(
    r"\s*(INSERT|UPDATE|DELETE|REPLACE|MERGE|TRUNCATE|CREATE|ALTER|DROP)\b", re.IGNORECASE
)


def _refuse_writes(execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
    if _WRITING.match(sql):
        raise WriteRefused("It writes to the database, though there is no call")
    return execute(sql, params, many, context)


class DatabaseProblem(ViewProblem):
    """A view cannot become a tool yet: it reads the database, which does not answer."""


@contextmanager
def reading_at_startup() -> Iterator[None]:
    """Let a view read the database while the apps are loaded, although Django warns of that, and not write.

    Connections that are opened meanwhile are closed again: the server may fork after start-up.

    Raises:
        DatabaseProblem: the database does not answer, or its tables are missing.
    """
    was_open = {connection.alias for connection in _open_connections()}
    try:
        with ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            for connection in connections.all():
                if connection.in_atomic_block:
                    # It is read at first use as well, and what fails then must not end a caller's transaction.
                    stack.enter_context(transaction.atomic(connection.alias))
                stack.enter_context(connection.execute_wrapper(_refuse_writes))
            warnings.filterwarnings(
                "ignore", "Accessing the database during app initialization", RuntimeWarning
            )
            yield
    except DatabaseError as error:
        raise DatabaseProblem(
            f"its view reads the database to say what it takes, which failed: {error}",
            "Run manage.py migrate and restart the server.",
        ) from error
    finally:
        for connection in _open_connections():
            if connection.alias not in was_open:
                connection.close()


@contextmanager
def without_queries() -> Iterator[None]:
    """Have each query fail with `DatabaseProblem`: what it would return changes with the data."""

    def fail(*_args: Any) -> Any:
        raise DatabaseProblem("it reads the database", "")

    with ExitStack() as stack:
        for connection in connections.all():
            stack.enter_context(connection.execute_wrapper(fail))
        yield


def _open_connections() -> list[BaseDatabaseWrapper]:
    initialized = connections.all(initialized_only=True)
    return [connection for connection in initialized if connection.connection is not None]


def note_problem(server: MCPServer, what: str, problem: ViewProblem, id: str) -> None:
    """Have `manage.py check` say why something did not become a tool."""
    report(server, f"{what} is no tool: {problem}.", problem.hint, id)


def note_patterns(server: MCPServer, what: str, names: Sequence[str], id: str) -> None:
    """Have `manage.py check` say which regular expressions of a tool are left out, if there are any."""
    if names:
        message = (
            f"{what} takes regular expressions, which its tool leaves out: {', '.join(names)}."
        )
        hint = (
            "One of a client can keep a database busy. Silence this check if the tool needs none."
        )
        report(server, message, hint, id)


def note_files(server: MCPServer, what: str, names: Sequence[str], id: str) -> None:
    """Have `manage.py check` say which files of a tool are left out, if there are any."""
    if names:
        message = f"{what} takes files, which its tool leaves out: {', '.join(names)}."
        hint = "Arguments cannot carry files. Silence this check if the tool needs none."
        report(server, message, hint, id)
