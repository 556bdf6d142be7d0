"""The data of the charts: calls, errors and percentiles of durations, over an hour, a day or a week.

Percentiles use the logarithmic scale on which each call is stored. An hour is counted from the calls
themselves; longer spans are read from the tallies.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.conf import settings as django_settings
from django.db.models import Count
from django.utils import timezone

from django_mcp.calls.call import upper_ms
from django_mcp.calls.tallies import KEPT_MINUTES, WHAT
from django_mcp.models import CallRecord, CallTally

__all__ = ["SPANS", "Span", "label_methods", "summarise"]

MAX_NAMES = 200
"""Rows of the table; the names with the fewest calls are left out."""

_Outcome = CallRecord.Outcome
ERRORS = frozenset({_Outcome.FAILED, _Outcome.REFUSED, _Outcome.TIMEOUT, _Outcome.FAULT})


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """How far the charts look back, and how wide a point of theirs is; both in minutes.

    The longer the span, the more rows there are to read, and the longer the result is cached.
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
    slots = range(first, last + 1, span.width)
    points: defaultdict[int, _Tally] = defaultdict(_Tally)
    names: defaultdict[tuple[str, str, str], _Tally] = defaultdict(_Tally)
    for slot, *whose, outcome, step, count in _counts(span.width, first, last):
        names[tuple(whose)].add(outcome, step, count)
        if not name or name == whose[-1]:
            points[slot].add(outcome, step, count)
    values = [points[slot].to_json() for slot in slots]
    return {
        "times": [slot * 60 for slot in slots],
        **{key: [point[key] for point in values] for key in ("calls", "errors", "p50", "p95")},
        "names": _rows(names),
    }


def label_methods(found: dict[str, Any]) -> dict[str, Any]:
    """Return the result of `summarise` with its methods in the active language."""
    labels = dict(CallRecord.Method.choices)
    rows = [
        {**row, "method": str(labels.get(row["method"], row["method"]))} for row in found["names"]
    ]
    return {**found, "names": rows}


def _counts(width: int, first: int, last: int) -> Iterable[tuple[Any, ...]]:
    """Return the first minute of each point, the values of `WHAT`, and the number of calls."""
    if width in KEPT_MINUTES:
        tallies = CallTally.objects.filter(width=width, minute__gte=first, minute__lte=last)
        return tallies.values_list("minute", *WHAT, "calls").iterator()
    begun, end = _moment(first), _moment(last + 1)
    calls = CallRecord.objects.order_by().filter(started_at__gte=begun, started_at__lt=end)
    return calls.values_list("minute", *WHAT).annotate(count=Count("pk")).iterator()


def _moment(minute: int) -> datetime:
    moment = datetime.fromtimestamp(minute * 60, UTC)
    return moment if django_settings.USE_TZ else timezone.make_naive(moment)


def _rows(names: dict[tuple[str, str, str], _Tally]) -> list[dict[str, Any]]:
    found = sorted(names.items(), key=lambda item: -item[1].calls)[:MAX_NAMES]
    return [
        {
            "server": server,
            "method": method,
            "name": name,
            **tally.to_json(),
        }
        for (server, method, name), tally in found
    ]
