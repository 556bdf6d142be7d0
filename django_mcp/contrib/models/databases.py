"""The database that the objects of generated tools are written in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from django.db import connections, router, transaction
from django.db.models import QuerySet

from django_mcp.context import Context
from django_mcp.execution.db_connections import HandlerAbandoned
from django_mcp.execution.write_lock import find_lock


def find_database(rows: QuerySet[Any]) -> str:
    """Return the database in which rows are written: that of `using()`, or the one that routers choose."""
    named: str | None = rows._db  # type: ignore[attr-defined]
    return router.db_for_write(rows.model) if named is None else named


def has_conditions_alone(rows: QuerySet[Any]) -> bool:
    """Return whether a queryset is nothing but conditions on the columns of its table."""
    query: Any = rows.query
    return not (
        query.is_sliced
        or query.combinator
        or query.distinct
        or query.group_by
        or query.annotations
        or query.extra
        or query.extra_tables
        or query.values_select
        or sum(count > 0 for count in query.alias_refcount.values()) > 1
    )


@contextmanager
def in_transaction(using: str, ctx: Context) -> Iterator[None]:
    """Run in a transaction of a database, which is the one that is open, if there is one.

    One of its own is rolled back if the call was cancelled meanwhile, as that around the call is.
    """
    connection = connections[using]
    if connection.in_atomic_block:
        yield
        return
    lock = find_lock(connection)
    with nullcontext() if lock is None else lock.deferring(), transaction.atomic(using=using):
        yield
        if ctx.is_cancelled:
            raise HandlerAbandoned
