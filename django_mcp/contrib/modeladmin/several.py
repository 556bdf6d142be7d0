"""The objects of an admin that one call changes together: which they are, and which of them the caller may change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from django.db.models import QuerySet

from django_mcp.context import Context
from django_mcp.contrib.modeladmin.access import SEARCH, UPDATE, AdminAccess
from django_mcp.contrib.modeladmin.reading import AdminReading
from django_mcp.contrib.modeladmin.requests import (
    lead_to_page,
    make_request_for_page,
    make_request_of,
)
from django_mcp.contrib.modeladmin.writing import AdminWriting


class SeveralObjects:
    """A source of `UpdatingMany`.

    Args:
        access: decides what users may do.
        reading: finds objects by filters.
        writing: changes each of them.
    """

    def __init__(self, access: AdminAccess, reading: AdminReading, writing: AdminWriting) -> None:
        self._access = access
        self._reading = reading
        self.key = writing.key
        self.update_one = writing.update_one

    @contextmanager
    def in_transaction(self, ctx: Context) -> Iterator[str]:
        """Yield the database that the objects are written in, in a transaction of which the call runs."""
        yield self._access.find_database(make_request_of(ctx.user, self._access.site))

    def to_key(self, value: Any) -> Any:
        """Return a key as the model has it; raises `DoesNotExist` if no object can have it."""
        return self._access.to_key(value)

    def find(self, ctx: Context, using: str, filters: Mapping[str, Any] | None) -> QuerySet[Any]:
        """Return the objects that the caller may change, those that filters select if there are any.

        Raises:
            ArgumentErrors: the value of a filter is not valid.
        """
        request = self._make_request_of_list(ctx)
        rows = self._access.find_rows(request, UPDATE).using(using)
        if filters is None:
            return rows
        found = self._reading.find_rows(request, filters).using(using)
        return rows.filter(pk__in=found.order_by().values("pk"))

    def keep_allowed(self, ctx: Context, objects: Sequence[Any]) -> Sequence[Any]:
        """Return those of some objects that the caller may see and change."""
        request = self._make_request_of_list(ctx)
        seen = self._access.keep_allowed(request, SEARCH, objects)
        return self._access.keep_allowed(request, UPDATE, seen)

    def _make_request_of_list(self, ctx: Context) -> Any:
        request = make_request_for_page(ctx, self._access.site, "POST")
        lead_to_page(request, self._access.model_admin, "changelist")
        return request
