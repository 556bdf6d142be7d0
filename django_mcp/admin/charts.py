"""The data of the charts: calls, errors and percentiles of durations, over an hour, a day or a week.

Percentiles use the logarithmic scale on which each call is stored. An hour is counted from the calls
themselves; longer spans are read from the tallies.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.conf import settings as django_settings
from django.core.cache import cache
from django.db.models import Count
from django.utils import timezone
from django.utils.translation import gettext as _t

from django_mcp.admin.lookup import KINDS
from django_mcp.calls.call import upper_ms
from django_mcp.calls.tallies import KEPT_MINUTES, WHAT
from django_mcp.models import CallRecord, CallTally
from django_mcp.protocol.texts import clean
from django_mcp.servers import all_servers

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
        self.at: Counter[int] = Counter()
        self._steps: Counter[int] = Counter()

    def add(self, slot: int, outcome: str, step: int, count: int) -> None:
        self.calls += count
        self.at[slot] += count
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


def find_summary(key: str, name: str = "") -> dict[str, Any]:
    """Return the result of `summarise` for one of `SPANS`, which is kept for a while."""
    span = SPANS[key]
    # A name may be too long, or have characters that some caches reject, for a key.
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()
    found: Any = cache.get_or_set(
        f"django_mcp.charts.{key}.{digest}", lambda: summarise(span, name), span.fresh_s
    )
    summary: dict[str, Any] = found
    return summary


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
    known = _known_names()
    for slot, server, method, called, outcome, step, count in _counts(span.width, first, last):
        found = called if called in known.get((server, method), ()) else ""
        names[server, method, found].add(slot, outcome, step, count)
        if not name or name == found:
            points[slot].add(slot, outcome, step, count)
    values = [points[slot].to_json() for slot in slots]
    return {
        "times": [slot * 60 for slot in slots],
        # Bounds of the points, as the list of calls takes them; the last point is not over.
        "bounds": [_moment(slot).isoformat() for slot in (*slots, slots[-1] + span.width)],
        "minutes": span.width,
        **{key: [point[key] for point in values] for key in ("calls", "errors", "p50", "p95")},
        "names": _rows(names, slots),
    }


def label_methods(found: dict[str, Any]) -> dict[str, Any]:
    """Return the result of `summarise` with its methods in the active language, for the charts."""
    labels = dict(CallRecord.Method.choices)
    rows = [
        {
            **{key: value for key, value in row.items() if key != "points"},
            "method": str(labels.get(row["method"], row["method"])),
            "label": row["name"] or _t("unknown"),
        }
        for row in found["names"]
    ]
    return {**found, "names": rows}


def _known_names() -> dict[tuple[str, str], set[str]]:
    """Return the names of the entries, by server and method: clients invent others."""
    return {
        (server.options.name, method): {
            clean(entry.name, 200)
            for kind in kinds
            for entry in server.registry.registered(kind).values()
        }
        for server in all_servers()
        for method, kinds in KINDS.items()
    }


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


def _rows(names: dict[tuple[str, str, str], _Tally], slots: Iterable[int]) -> list[dict[str, Any]]:
    found = sorted(names.items(), key=lambda item: -item[1].calls)[:MAX_NAMES]
    return [
        {
            "server": server,
            "method": method,
            "name": name,
            **tally.to_json(),
            "points": [tally.at[slot] for slot in slots],
        }
        for (server, method, name), tally in found
    ]
