"""Reports of the recorded calls: the data of the charts, failed calls in groups, and CSV."""

from __future__ import annotations

import csv
import hashlib
import io
import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.conf import settings as django_settings
from django.core.cache import cache
from django.core.handlers.asgi import ASGIRequest
from django.db.models import Case, Count, F, Max, Min, Q, QuerySet, Value, When
from django.http import HttpRequest, StreamingHttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from django_mcp.admin.base import KINDS
from django_mcp.admin.figures import draw_line
from django_mcp.admin.texts import escape_invisible
from django_mcp.calls.call import upper_ms
from django_mcp.calls.rows import KEPT_MINUTES, WHAT
from django_mcp.execution.threads import run_in_pool
from django_mcp.models import CallRecord, CallTally
from django_mcp.protocol.sanitize import clean
from django_mcp.servers import all_servers

MAX_NAMES = 200
"""Rows of the table; the names with the fewest calls are left out."""

HEIGHT = 20
"""Height of the sparkline of an entry's calls; neighbouring points are 1 apart."""

_Outcome = CallRecord.Outcome
ERRORS = (_Outcome.FAILED, _Outcome.REFUSED, _Outcome.TIMEOUT, _Outcome.FAULT)
"""The outcomes that the charts, the catalogue and the list of errors count as errors."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """How far the charts look back, and how wide a point of theirs is; both in minutes.

    The longer the span, the more rows there are to read, and the longer the result is cached.
    """

    length: int
    width: int
    fresh_s: int

    def first_minute(self, last: int) -> int:
        """Return the minute at which the first point begins, for the minute of the last."""
        return (last - self.length) // self.width * self.width + self.width


SPANS = {
    "hour": Span(length=60, width=1, fresh_s=5),
    "day": Span(length=24 * 60, width=15, fresh_s=30),
    "week": Span(length=7 * 24 * 60, width=2 * 60, fresh_s=300),
}

SPAN_TITLES = (("hour", _("hour")), ("day", _("day")), ("week", _("week")))
"""The choices of the pages."""


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
    cached: Any = cache.get_or_set(
        f"django_mcp.charts.{key}.{digest}", lambda: summarise(span, name), span.fresh_s
    )
    summary: dict[str, Any] = cached
    return summary


def summarise(span: Span, name: str = "") -> dict[str, Any]:
    """Return the points of the charts for calls of a name, or all, their total, and a row for each name."""
    last = int(time.time() // 60)
    first = span.first_minute(last)
    slots = range(first, last + 1, span.width)
    points: defaultdict[int, _Tally] = defaultdict(_Tally)
    total = _Tally()
    names: defaultdict[tuple[str, str, str], _Tally] = defaultdict(_Tally)
    # Clients invent others.
    known = find_known()
    for slot, server, method, called, outcome, step, count in _counts(span.width, first, last):
        called_name = called if called in known.get((server, method), ()) else ""
        names[server, method, called_name].add(slot, outcome, step, count)
        if not name or name == called_name:
            points[slot].add(slot, outcome, step, count)
            total.add(slot, outcome, step, count)
    values = [points[slot].to_json() for slot in slots]
    most = sorted(names.items(), key=lambda item: -item[1].calls)[:MAX_NAMES]
    rows = [
        {
            "server": server,
            "method": method,
            "name": found,
            **tally.to_json(),
            "points": [tally.at[slot] for slot in slots],
        }
        for (server, method, found), tally in most
    ]
    return {
        "times": [slot * 60 for slot in slots],
        # Bounds of the points, as the list of calls takes them; the last point is not over.
        "bounds": [moment_of(slot).isoformat() for slot in (*slots, slots[-1] + span.width)],
        "minutes": span.width,
        "total": total.to_json(),
        **{key: [point[key] for point in values] for key in ("calls", "errors", "p50", "p95")},
        "names": rows,
    }


def find_known() -> dict[tuple[str, str], set[str]]:
    """Return the names that are registered, by server and method."""
    return {
        (server.name, method): {
            clean(entry.name, 200)
            for kind in kinds
            for entry in server.registry.registered[kind].values()
        }
        for server in all_servers()
        for method, kinds in KINDS.items()
    }


def calls_of_the_day(server_name: str) -> dict[tuple[str, str], Any]:
    """Return the numbers of the day for each entry that was called, by kind and name.

    `line` has the points of the SVG polyline of its calls.
    """
    calls: dict[tuple[str, str], Any] = {}
    for row in find_summary("day")["names"]:
        if row["server"] == server_name and row["name"]:
            line = draw_line(row["points"], HEIGHT, max(row["points"]))
            calls |= {
                (kind, row["name"]): {**row, "line": line} for kind in KINDS.get(row["method"], ())
            }
    return calls


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


def _counts(width: int, first: int, last: int) -> Iterable[tuple[Any, ...]]:
    """Return the first minute of each point, the values of `WHAT`, and the number of calls."""
    if width in KEPT_MINUTES:
        tallies = CallTally.objects.filter(width=width, minute__gte=first, minute__lte=last)
        return tallies.values_list("minute", *WHAT, "calls").iterator()
    begun, end = moment_of(first), moment_of(last + 1)
    calls = CallRecord.objects.order_by().filter(started_at__gte=begun, started_at__lt=end)
    return calls.values_list("minute", *WHAT).annotate(count=Count("pk")).iterator()


def moment_of(minute: int) -> datetime:
    """Return a minute since the epoch as the database takes it."""
    moment = datetime.fromtimestamp(minute * 60, UTC)
    return moment if django_settings.USE_TZ else timezone.make_naive(moment)


MAX_GROUPS = 200

NEWEST = 5000
"""Calls of each outcome that are grouped: all failed calls of a month may be millions."""

_SAME = ("server", "method", "shown_name", "outcome", "error")


def find_errors(key: str) -> dict[str, Any]:
    """Return the `groups` of the calls of one of `SPANS` that failed, and how many there are in `count`.

    Each group has the number of its calls, when the first and the last began, and the last as an
    example. Its name is empty if a client invented it. `is_cut` says whether older calls were not
    counted, and `since` when the span begins.
    """
    since = moment_of(SPANS[key].first_minute(int(time.time() // 60)))
    newest = CallRecord.objects.filter(started_at__gte=since).order_by("-started_at", "-id")
    times = newest.values_list("started_at", flat=True)
    # Each is read from an index alone, which no order of all of them is in.
    ends = [times.filter(outcome=outcome)[NEWEST : NEWEST + 1].first() for outcome in ERRORS]
    cut = max((end for end in ends if end is not None), default=None)
    begin = since if cut is None else cut
    failed = CallRecord.objects.filter(outcome__in=ERRORS, started_at__gte=begin).order_by()
    is_known = ~Q(outcome=_Outcome.REFUSED)
    for (server, method), names in find_known().items():
        is_known |= Q(server=server, method=method, name__in=names)
    shown_name = Case(When(is_known, then=F("name")), default=Value(""))
    numbers: dict[str, Any] = {
        "count": Count("pk"),
        "first": Min("started_at"),
        "last": Max("started_at"),
        "example": Max("pk"),
    }
    grouped = failed.annotate(shown_name=shown_name).values(*_SAME).annotate(**numbers)
    groups = [
        {**group, "name": group["shown_name"]} for group in grouped.order_by("-last")[:MAX_GROUPS]
    ]
    examples = CallRecord.objects.in_bulk([group["example"] for group in groups])
    for group in groups:
        group["example"] = examples.get(group["example"])
    return {"groups": groups, "count": failed.count(), "is_cut": cut is not None, "since": since}


MAX_ROWS = 100_000
AT_ONCE = 1000

COLUMNS = (
    "started_at",
    "duration_ms",
    "server",
    "method",
    "name",
    "outcome",
    "error",
    "reference",
    "user_id",
    "principal",
    "session",
    "revision",
    "client_name",
    "client_version",
    "arguments",
    "coerced",
    "faulty",
    "result_chars",
    "result_bytes",
    "queue_ms",
    "handler_ms",
)

_FORMULA = re.compile(
    r"""(^|[;|\t\r\n])(?=[\s"'\x00-\x20]*[=+\-@\u2212\ufe62\ufe63\ufe66\ufe6b\uff0b\uff0d\uff1d\uff20])|^(?=[\t\r\n])"""
)
"""Where a spreadsheet might see the start of a formula: in front of an operator, in one of its widths, at the start
of a text, or behind what another reader takes for a separator."""


def export(request: HttpRequest, calls: QuerySet[Any]) -> StreamingHttpResponse:
    """Return the newest of these calls as a CSV document."""
    keys = list(calls.values_list("pk", flat=True)[:MAX_ROWS])
    batches = [keys[at : at + AT_ONCE] for at in range(0, len(keys), AT_ONCE)]
    reads = [partial(_encode, [COLUMNS]), *(partial(_read, calls, batch) for batch in batches)]
    name = f"calls-{timezone.now():%Y-%m-%d}.csv"
    return StreamingHttpResponse(
        _read_in_pool(reads) if isinstance(request, ASGIRequest) else (read() for read in reads),
        content_type="text/csv; charset=utf-8",
        headers={
            "Cache-Control": "no-store",
            "Content-Disposition": f'attachment; filename="{name}"',
        },
    )


async def _read_in_pool(reads: Iterable[Callable[[], bytes]]) -> AsyncIterator[bytes]:
    for read in reads:
        yield await run_in_pool(read)


def _read(calls: QuerySet[Any], keys: list[Any]) -> bytes:
    rows = calls.model._default_manager.filter(pk__in=keys).order_by("-started_at", "-pk")
    return _encode(rows.values_list(*COLUMNS))


def _encode(rows: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return "" if value is None else value
    shown = escape_invisible(value)
    return _FORMULA.sub(r"\1'", shown)
