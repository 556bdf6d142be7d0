"""Pagination of a table with millions of rows, without counting them each time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.core.paginator import Paginator
from django.db.models.query import QuerySet
from django.utils import timezone
from django.utils.functional import cached_property

if TYPE_CHECKING:
    BasePaginator = Paginator[Any]
else:
    BasePaginator = Paginator

__all__ = ["EstimatingPaginator", "SpanQuerySet"]

COUNTED_AT_MOST = 100_000


class EstimatingPaginator(BasePaginator):
    """Estimates the number of rows by the span of the keys, and counts a selection up to a limit.

    Rows are inserted in order and deleted from the start, so the span is right except for numbers that
    a database skips.
    """

    @cached_property
    def count(self) -> int:
        """See `Paginator.count`."""
        rows: Any = self.object_list
        if rows.query.where:
            count = int(rows.order_by()[:COUNTED_AT_MOST].count())
            if not count and isinstance(rows, SpanQuerySet):
                rows.is_known_empty = True
            return count
        ends = _ends(rows, "pk")
        return 0 if ends is None else int(ends[1] - ends[0] + 1)


class SpanQuerySet(QuerySet[Any]):
    """Rows for which the date hierarchy offers every period between the first and the last.

    Finding the periods with rows would read the whole table. So may finding the first and the last row
    of a selection, which is done once.

    Attributes:
        is_known_empty: these rows were counted, and there were none.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.is_known_empty = False
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
        if self.is_known_empty:
            return None
        if field not in self._known_ends:
            self._known_ends[field] = _ends(self, field)
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
