"""Collect the queries of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection
from django.test.utils import CaptureQueriesContext


@contextmanager
def captured_queries() -> Iterator[list[str]]:
    """Collect the SQL of a block, at its end.

    The server's own upkeep, such as the sweep of tasks, may be due meanwhile and is left out.
    """
    found: list[str] = []
    with CaptureQueriesContext(connection) as queries:
        yield found
    found += [each["sql"] for each in queries if "django_mcp_" not in each["sql"]]
