"""Failed calls in groups: the same entry, the same exception."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import Count, Max, Min

from django_mcp.models import CallRecord

MAX_GROUPS = 200

NEWEST = 5000
"""Calls of each outcome that are grouped: all failed calls of a month may be millions."""

_Outcome = CallRecord.Outcome
FAILURES = (_Outcome.FAILED, _Outcome.TIMEOUT, _Outcome.FAULT)
"""Outcomes of entries that failed; what was refused never reached one."""

_SAME = ("server", "method", "name", "outcome", "error")


def find_errors(since: datetime) -> tuple[list[dict[str, Any]], bool]:
    """Return the groups of the calls that failed, those with the newest first.

    Args:
        since: the time to look back to; aware.

    Returns:
        Each has the number of its calls, when the first and the last began, and the last as an
        example; and whether there are older calls that were not grouped.
    """
    failed = CallRecord.objects.filter(outcome__in=FAILURES, started_at__gt=since).order_by()
    # Each is read from an index alone, which no order of all three is in.
    newest = CallRecord.objects.filter(started_at__gt=since).order_by("-started_at", "-id")
    times = newest.values_list("started_at", flat=True)
    ends = [times.filter(outcome=each)[NEWEST : NEWEST + 1].first() for each in FAILURES]
    cut = max((each for each in ends if each is not None), default=None)
    if cut is not None:
        failed = failed.filter(started_at__gte=cut)
    numbers: dict[str, Any] = {
        "count": Count("pk"),
        "first": Min("started_at"),
        "last": Max("started_at"),
        "example": Max("pk"),
    }
    groups = list(failed.values(*_SAME).annotate(**numbers).order_by("-last")[:MAX_GROUPS])
    examples = CallRecord.objects.in_bulk([group["example"] for group in groups])
    for group in groups:
        group["example"] = examples.get(group["example"])
    return groups, cut is not None
