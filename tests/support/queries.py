"""Collect the queries of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_mcp.push.process_hub import process_hub


@contextmanager
def captured_queries() -> Iterator[list[str]]:
    """Collect the SQL of a block, at its end.

    The server's own upkeep may be due meanwhile and is left out: the hub's ticks, which also check the
    permissions of whoever has a call in flight, and the sweep of tasks. So are content types, which a
    process reads once.
    """
    found: list[str] = []
    with (
        patch.object(process_hub(), "on_tick", []),
        CaptureQueriesContext(connection) as queries,
    ):
        yield found
    found += [
        each["sql"]
        for each in queries
        if "django_mcp_" not in each["sql"] and 'FROM "django_content_type"' not in each["sql"]
    ]
