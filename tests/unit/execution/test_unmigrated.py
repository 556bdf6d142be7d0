"""Which database errors mean that migrations are missing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from django.db import DatabaseError, OperationalError, ProgrammingError, connection, transaction

from django_mcp.execution.outages import is_unmigrated


class DriverError(Exception):
    """An error of psycopg or psycopg2."""

    def __init__(self, **attributes: str) -> None:
        super().__init__()
        vars(self).update(attributes)


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.django_db
@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM django_mcp_nothing",
        "SELECT colour FROM django_mcp_session",
        "INSERT INTO django_mcp_session (colour) VALUES (1)",
    ],
)
def test_the_missing_table_error_of_the_test_database_is_recognized(query: str):
    with pytest.raises(DatabaseError) as caught, transaction.atomic():
        connection.cursor().execute(query)

    assert is_unmigrated(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        caused(ProgrammingError("Relation fehlt"), DriverError(sqlstate="42P01")),
        caused(ProgrammingError("Spalte fehlt"), DriverError(pgcode="42703")),
        ProgrammingError(1146, "Table 'site.django_mcp_session' doesn't exist"),
        OperationalError(1054, "Unknown column 'x' in 'field list'"),
        DatabaseError(SimpleNamespace(code=942)),
    ],
)
def test_missing_table_errors_of_other_databases_are_recognized(error: Exception):
    assert is_unmigrated(error)


@pytest.mark.parametrize(
    "error",
    [
        None,
        "no such table: django_mcp_session",
        ValueError("no such table: django_mcp_session"),
        OperationalError("database is locked"),
        OperationalError('connection failed: database "site" does not exist'),
        OperationalError(2003, "Can't connect to MySQL server"),
        caused(ProgrammingError("permission denied"), DriverError(sqlstate="42501")),
    ],
)
def test_other_errors_are_not_taken_for_missing_tables(error: object):
    assert not is_unmigrated(error)
