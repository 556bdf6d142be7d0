"""Reports of the recorded calls: the data of the charts, and CSV."""

from __future__ import annotations

import csv
import hashlib
import io
import re
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias

from django.conf import settings as django_settings
from django.core.cache import cache
from django.core.handlers.asgi import ASGIRequest
from django.db.models import Count, QuerySet, Sum
from django.http import HttpRequest, StreamingHttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from django_mcp.admin.base import KINDS
from django_mcp.admin.figures import draw_line
from django_mcp.admin.texts import escape_invisible
from django_mcp.calls.rows import KEPT_MINUTES, WHAT, Steps, unpack
from django_mcp.calls.tally import ERRORS, Tally
from django_mcp.execution.threads import run_in_pool
from django_mcp.models import CallRecord, CallTally
from django_mcp.protocol.sanitize import clean
from django_mcp.servers import all_servers

MAX_NAMES = 200
"""Rows of the table; the names with the fewest calls are left out."""

NumbersOfEntries: TypeAlias = dict[tuple[str, str], dict[str, Any]]
"""What was counted of entries, by kind and name."""

HEIGHT = 20
"""Height of the sparkline of an entry's calls; neighbouring points are 1 apart."""


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
    points: defaultdict[int, Tally] = defaultdict(Tally)
    total = Tally()
    names: defaultdict[tuple[str, str, str], Tally] = defaultdict(Tally)
    # Clients invent others.
    known = find_known()
    for slot, server, method, called, outcome, steps in _counts(span.width, first, last):
        called_name = called if called in known.get((server, method), ()) else ""
        names[server, method, called_name].add(slot, outcome, steps)
        if not name or name == called_name:
            points[slot].add(slot, outcome, steps)
    for point in points.values():
        total.merge(point)
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


def calls_of_the_day(server: str, names: Collection[str] | None = None) -> NumbersOfEntries:
    """Return the `calls`, `errors` and percentiles of the day for each entry that was called.

    Args:
        server: the name of a server.
        names: those of entries; None: all, which are kept for a while.

    Returns:
        The numbers by kind and name.
    """
    if names is not None:
        return _count_day(server, names)
    digest = hashlib.sha256(server.encode("utf-8", "replace")).hexdigest()
    cached: Any = cache.get_or_set(
        f"django_mcp.entries.{digest}", lambda: _count_day(server), SPANS["day"].fresh_s
    )
    numbers: NumbersOfEntries = cached
    return numbers


def _count_day(server: str, names: Collection[str] | None = None) -> NumbersOfEntries:
    counted: defaultdict[tuple[str, str], Tally] = defaultdict(Tally)
    rows = _tallies_of_the_day(server, names).values_list(
        "method", "name", "outcome", "step", "calls", "steps"
    )
    for method, name, outcome, step, count, steps in rows.iterator():
        counted[method, name].add(0, outcome, unpack(step, count, steps))
    return {
        (kind, name): tally.to_json()
        for (method, name), tally in counted.items()
        for kind in KINDS.get(method, ())
    }


def lines_of_the_day(server: str, names: Collection[str]) -> dict[tuple[str, str], str]:
    """Return the points of the SVG polyline of the calls of entries with these names, by kind and name."""
    span = SPANS["day"]
    last = int(time.time() // 60)
    first = span.first_minute(last)
    counted: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    rows = _tallies_of_the_day(server, names).values_list("method", "name", "minute")
    for method, name, minute, count in rows.annotate(count=Sum("calls")):
        counted[method, name][minute] += count
    lines: dict[tuple[str, str], str] = {}
    for (method, name), at in counted.items():
        points = [at[slot] for slot in range(first, last + 1, span.width)]
        line = draw_line(points, HEIGHT, max(points))
        lines |= {(kind, name): line for kind in KINDS.get(method, ())}
    return lines


def _tallies_of_the_day(server: str, names: Collection[str] | None) -> QuerySet[CallTally]:
    span = SPANS["day"]
    last = int(time.time() // 60)
    span_of_time = {"minute__gte": span.first_minute(last), "minute__lte": last}
    tallies = CallTally.objects.order_by().filter(
        width=span.width, server=clean(server, 100), **span_of_time
    )
    return tallies.exclude(name="") if names is None else tallies.filter(name__in=names)


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


def _counts(width: int, first: int, last: int) -> Iterator[tuple[int, str, str, str, str, Steps]]:
    """Yield the first minute of each point, the values of `WHAT`, and the steps of the calls."""
    if width in KEPT_MINUTES:
        tallies = CallTally.objects.filter(width=width, minute__gte=first, minute__lte=last)
        counted = tallies.values_list("minute", *WHAT, "step", "calls", "steps").iterator()
        for slot, server, method, name, outcome, step, count, steps in counted:
            yield slot, server, method, name, outcome, unpack(step, count, steps)
        return
    begun, end = moment_of(first), moment_of(last + 1)
    calls = CallRecord.objects.order_by().filter(started_at__gte=begun, started_at__lt=end)
    grouped = calls.values_list("minute", *WHAT, "step").annotate(count=Count("pk")).iterator()
    for slot, server, method, name, outcome, step, count in grouped:
        yield slot, server, method, name, outcome, {step: count}


def moment_of(minute: int) -> datetime:
    """Return a minute since the epoch as the database takes it."""
    moment = datetime.fromtimestamp(minute * 60, UTC)
    return moment if django_settings.USE_TZ else timezone.make_naive(moment)


def name_errors() -> str:
    """Return the outcomes that are errors, as the list of calls has them."""
    return ", ".join(str(outcome.label) for outcome in ERRORS)


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
    "varied",
    "result_chars",
    "result_bytes",
    "is_cut",
    "queue_ms",
    "handler_ms",
    "database_ms",
    "queries",
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
