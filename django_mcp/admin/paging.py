"""Lists of a table with millions of rows: only so many of them are looked at.

What an index selects is listed up to a number of rows, the newest first, and other filters, searches
and sorting apply to these. So no page takes longer the more rows there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.contrib.admin.views.main import ChangeList
from django.db.models.query import QuerySet
from django.http import HttpRequest
from django.utils import timezone

LISTED_AT_MOST = 20_000
"""Rows that a list looks at: SQLite takes a tenth of a second to filter or sort so many."""


class NewestList(ChangeList):
    """A list of the newest rows, up to `LISTED_AT_MOST` of those that an index selects.

    Attributes:
        is_cut: older rows were left out.
        all_rows: those that are asked for, older ones included.
    """

    at_most = LISTED_AT_MOST

    def get_queryset(self, request: HttpRequest, *args: Any, **kwargs: Any) -> QuerySet[Any]:
        """Return the rows that are asked for, of the newest."""
        rows: Any = super().get_queryset(request, *args, **kwargs)
        page: Any = self.model_admin
        indexed: Any = self.root_queryset.all()
        for each in rows.query.where.children:
            field = getattr(getattr(each, "lhs", None), "target", None)
            if field is not None and field.model is self.model and field.name in page.indexed:
                indexed.query.where.add(each, "AND")
                if page.indexed[field.name]:
                    # Its index leaves these out, which not every database infers.
                    rows = rows.exclude(**{field.name: ""})
                    indexed = indexed.exclude(**{field.name: ""})
        newest = indexed.order_by(*page.ordering).values_list(page.date_hierarchy, flat=True)
        cut = newest[LISTED_AT_MOST : LISTED_AT_MOST + 1].first()
        self.is_cut, self.all_rows = cut is not None, rows
        if self.is_cut:
            rows = rows.filter(**{f"{page.date_hierarchy}__gte": cut})
        # The periods of all, or nobody could choose an older one.
        rows.spanned = indexed
        return rows  # type: ignore[no-any-return]

    def get_results(self, request: HttpRequest) -> None:
        """Count the rows, and read those of the page if there are any."""
        super().get_results(request)
        if not self.result_count:
            self.result_list = self.queryset.none()


class SpanQuerySet(QuerySet[Any]):
    """Rows for which the date hierarchy offers every period between the first and the last.

    Finding the periods with rows would read the whole table.

    Attributes:
        spanned: the rows whose periods are offered; None: these.
    """

    spanned: QuerySet[Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._known_ends: dict[str, tuple[Any, Any] | None] = {}

    def datetimes(self, field_name: str, kind: str, order: str = "ASC", tzinfo: Any = None) -> Any:
        """Return the periods from the first row to the last, whether they have rows or not."""
        ends = self._find_ends(field_name)
        if ends is None:
            return []
        if timezone.is_aware(ends[0]):
            ends = (timezone.localtime(ends[0], tzinfo), timezone.localtime(ends[1], tzinfo))
        return list(_periods(ends[0], ends[1], kind))

    def aggregate(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the aggregates, with the hierarchy's first and last row by the index."""
        if not args and set(kwargs) == {"first", "last"}:
            ends = self._find_ends(kwargs["first"].source_expressions[0].name) or (None, None)
            return {"first": ends[0], "last": ends[1]}
        return super().aggregate(*args, **kwargs)

    def _find_ends(self, field: str) -> tuple[Any, Any] | None:
        if field not in self._known_ends:
            self._known_ends[field] = _ends(self if self.spanned is None else self.spanned, field)
        return self._known_ends[field]


def _ends(rows: QuerySet[Any], field: str) -> tuple[Any, Any] | None:
    """Return the least and the greatest value of an indexed field; None: there are no rows.

    Two queries, since some databases read the whole table to aggregate both in one.
    """
    values = rows.values_list(field, flat=True)
    first = values.order_by(field).first()
    return None if first is None else (first, values.order_by(f"-{field}").first())


def _periods(first: datetime, last: datetime, kind: str) -> Iterator[datetime]:
    here = first.replace(hour=0, minute=0, second=0, microsecond=0)
    if kind in ("month", "year"):
        here = here.replace(day=1)
    if kind == "year":
        here = here.replace(month=1)
    while here <= last:
        yield here
        match kind:
            case "year":
                here = here.replace(year=here.year + 1)
            case "month":
                here = (here + timedelta(days=31)).replace(day=1)
            case _:
                here += timedelta(days=1)
