"""What the charts draw: calls, errors and percentiles of durations, over an hour, a day or a week.

Percentiles are counted on the logarithmic scale that each call was put on when it was written, so
the database only counts rows, out of one index.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, F, QuerySet

from django_mcp.calls.call import upper_ms
from django_mcp.models import CallRecord

__all__ = ["SPANS", "Span", "summarise"]

MAX_NAMES = 200
"""Rows of the table; the least called are left out."""

_Outcome = CallRecord.Outcome
ERRORS = frozenset({_Outcome.FAILED, _Outcome.REFUSED, _Outcome.TIMEOUT, _Outcome.FAULT})


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """How far the charts look back, and how wide a point of theirs is; both in minutes.

    The longer, the more rows there are to count: for so long what was counted is good enough.
    """

    length: int
    width: int
    fresh_s: int


SPANS = {
    "hour": Span(length=60, width=1, fresh_s=5),
    "day": Span(length=24 * 60, width=15, fresh_s=30),
    "week": Span(length=7 * 24 * 60, width=2 * 60, fresh_s=300),
}


class _Tally:
    """Counts of calls, errors among them, and steps of their durations."""

    def __init__(self) -> None:
        self.calls = 0
        self.errors = 0
        self._steps: Counter[int] = Counter()

    def add(self, outcome: str, step: int, count: int) -> None:
        self.calls += count
        self._steps[step] += count
        if outcome in ERRORS:
            self.errors += count

    def percentile_ms(self, share: float) -> float | None:
        """Return a duration that this share of the calls did not exceed; None without calls."""
        left = math.ceil(share * self.calls)
        for step in sorted(self._steps):
            left -= self._steps[step]
            if left <= 0:
                return round(upper_ms(step), 2)
        return None

    def to_json(self) -> dict[str, Any]:
        return {
            "calls": self.calls,
            "errors": self.errors,
            "p50": self.percentile_ms(0.50),
            "p95": self.percentile_ms(0.95),
            "p99": self.percentile_ms(0.99),
        }


def summarise(span: Span, name: str = "", now: float | None = None) -> dict[str, Any]:
    """Return the points of the charts, and a row for each name.

    Args:
        span: how far to look back.
        name: only calls of this tool, resource or prompt count for the points; empty: all.
        now: seconds since the epoch; by default the clock's.
    """
    last = int((time.time() if now is None else now) // 60)
    first = (last - span.length) // span.width * span.width + span.width
    rows = CallRecord.objects.order_by().filter(minute__gte=first, minute__lte=last)
    slots = range(first, last + 1, span.width)
    points = _points(rows.filter(name=name) if name else rows, slots, span.width)
    return {
        "times": [slot * 60 for slot in slots],
        **{key: [point[key] for point in points] for key in ("calls", "errors", "p50", "p95")},
        "names": _names(rows),
    }


def _points(rows: QuerySet[CallRecord], slots: Iterable[int], width: int) -> list[dict[str, Any]]:
    tallies: defaultdict[int, _Tally] = defaultdict(_Tally)
    counted = rows.annotate(slot=F("minute") - F("minute") % width)
    for slot, outcome, step, count in counted.values_list("slot", "outcome", "step").annotate(
        count=Count("pk")
    ):
        tallies[slot].add(outcome, step, count)
    return [tallies[slot].to_json() for slot in slots]


def _names(rows: QuerySet[CallRecord]) -> list[dict[str, Any]]:
    tallies: defaultdict[tuple[str, str, str], _Tally] = defaultdict(_Tally)
    counted = rows.values_list("server", "method", "name", "outcome", "step")
    for server, method, name, outcome, step, count in counted.annotate(count=Count("pk")):
        tallies[server, method, name].add(outcome, step, count)
    found = sorted(tallies.items(), key=lambda item: -item[1].calls)[:MAX_NAMES]
    return [
        {
            "server": server,
            "method": str(CallRecord.Method(method).label),
            "name": name,
            **tally.to_json(),
        }
        for (server, method, name), tally in found
    ]
