"""The base of the package's tables, which are read from the database that they are written to.

A site's router may send reads to a replica, which shows a row some time after it was written. A
session, a task or a key that a client has just been given must be found by the next request.
"""

from __future__ import annotations

from typing import Any, TypeVar

from django.db import models, router

Row = TypeVar("Row", bound=models.Model, covariant=True)


class PrimaryQuerySet(models.QuerySet[Row]):
    """Queries that use the alias for writes, unless `using()` names another one."""

    _db: str | None
    _hints: dict[str, Any]

    @property
    def db(self) -> str:
        """The alias of the database that the query uses."""
        return self._db or router.db_for_write(self.model, **self._hints)


class PrimaryManager(models.Manager[Row]):
    """A manager of `PrimaryQuerySet`."""

    _hints: dict[str, Any]

    @property
    def db(self) -> str:
        """The alias of the database that its queries use."""
        return self._db or router.db_for_write(self.model, **self._hints)

    def get_queryset(self) -> PrimaryQuerySet[Row]:
        """Return all rows."""
        return PrimaryQuerySet(self.model, using=self._db, hints=self._hints)


class Table(models.Model):
    """A table of the package."""

    objects = PrimaryManager()

    class Meta:
        abstract = True
        # Also for the rows that others refer to, and for reading a row again.
        base_manager_name = "objects"
