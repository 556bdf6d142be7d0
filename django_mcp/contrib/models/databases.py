"""The database that the objects of generated tools are written in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections, router, transaction
from django.db.models import QuerySet


def find_database(rows: QuerySet[Any]) -> str:
    """Return the database in which rows are written: that of `using()`, or the one that routers choose."""
    named: str | None = rows._db  # type: ignore[attr-defined]
    return router.db_for_write(rows.model) if named is None else named


@contextmanager
def in_transaction(using: str) -> Iterator[None]:
    """Run in a transaction of a database, which is the one that is open, if there is one."""
    if connections[using].in_atomic_block:
        yield
    else:
        with transaction.atomic(using=using):
            yield
