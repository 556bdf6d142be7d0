"""Read recorded calls of a period: all of a few, and of many a sample, as many from each part of the period."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models.expressions import RawSQL

from django_mcp.admin.reports import SPANS, moment_of
from django_mcp.models import CallRecord

SAMPLE = 10_000
"""Calls of a period that are read."""

NEIGHBOURS = 10
"""Calls that are read next to each other: to read each from another page of a large table takes a second."""

AT_ONCE = 1000
"""Calls that one statement reads by their numbers: Oracle takes no longer list."""

EDGE = 100
"""Calls at each end of a period by which its numbers are found: a long call has a higher one than its neighbours."""

PERIODS = {name: span.length for name, span in SPANS.items()}
"""How many minutes a period has."""


def read_sample(
    first: int, end: int, fields: Sequence[str], narrow: Mapping[str, Any]
) -> tuple[list[tuple[Any, ...]], float]:
    """Return fields of calls, and how many calls of the period each of them stands for.

    Args:
        first, end: the calls began in the minutes from `first` to before `end`.
        narrow: which of these calls are returned, as for `filter`.
    """
    calls = CallRecord.objects.filter(
        started_at__gte=moment_of(first), started_at__lt=moment_of(end)
    )
    oldest = calls.order_by("started_at", "id").values_list("pk", flat=True)[:EDGE]
    newest = calls.order_by("-started_at", "-id").values_list("pk", flat=True)[:EDGE]
    numbers = [*oldest, *newest]
    if not numbers:
        return [], 1.0
    lowest, highest = min(numbers), max(numbers)
    wanted = calls.order_by().filter(**narrow).values_list(*fields)
    # Numbers are given in order, so that there are no more calls than numbers.
    stride = (highest - lowest + 1) / SAMPLE
    if stride <= 1:
        return list(wanted), 1.0
    # Some neighbours of each part, which are in the same pages of the table; the same ones for a minute.
    dice, width = random.Random(first), stride * NEIGHBOURS  # noqa: S311
    starts = [
        lowest + int(at * width + dice.random() * (width - NEIGHBOURS))
        for at in range(SAMPLE // NEIGHBOURS)
    ]
    chosen = [start + at for start in starts for at in range(NEIGHBOURS)]
    read = [
        call
        for at in range(0, len(chosen), AT_ONCE)
        for call in wanted.filter(pk__in=_list(chosen[at : at + AT_ONCE]))
    ]
    return read, stride


def _list(numbers: Sequence[int]) -> RawSQL:
    """Return the numbers as SQL: as parameters, they would cost more than the calls that they find."""
    return RawSQL(", ".join(map(str, numbers)), ())  # noqa: S611 - they are integers
