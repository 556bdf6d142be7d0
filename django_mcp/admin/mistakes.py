"""What models get wrong: the arguments of each tool that were refused or corrected, and names that do not exist."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.db.models import Count, Max
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from django_mcp.admin.base import require_permissions
from django_mcp.admin.reports import SPAN_TITLES, find_known, moment_of
from django_mcp.admin.samples import PERIODS, SAMPLE, read_sample
from django_mcp.admin.texts import escape_invisible
from django_mcp.conf import settings
from django_mcp.models import CallRecord

if TYPE_CHECKING:
    from django_mcp.admin.base import Page

MAX_ROWS = 50
"""Tools, and unknown names, that are shown."""

MAX_PLACES = 5
"""Places of each tool that are shown, those with most calls."""

NEWEST = 10_000
"""Refused calls whose names are grouped."""

_Outcome, _TOOL = CallRecord.Outcome, CallRecord.Method.TOOL


_Known = dict[tuple[str, str], set[str]]
"""The names that are registered, by server and method."""


@dataclass(kw_only=True, slots=True)
class _Tool:
    """The calls of a tool, and the places of their mistakes."""

    calls: int = 0
    refused: int = 0
    corrected: int = 0
    refused_at: Counter[str] = field(default_factory=Counter)
    corrected_at: Counter[str] = field(default_factory=Counter)


def mistakes_view(page: Page, request: HttpRequest) -> HttpResponse:
    """Show what was wrong in the calls of a period."""
    require_permissions(request, "view_callrecord")
    key = request.GET.get("span", "week")
    key = key if key in PERIODS else "week"
    end = int(time.time() // 60) + 1
    first = end - PERIODS[key]
    fields = ("server", "name", "faulty", "coerced")
    calls, each = read_sample(first, end, fields, {"method": _TOOL})
    known = find_known()
    return page.show(
        request,
        "mistakes.html",
        _("What models get wrong"),
        tools=_find_tools(page, request, calls, each, known),
        unknown=_find_unknown(page, request, first, end, known),
        is_sample=each > 1,
        sample=SAMPLE,
        span=key,
        spans=SPAN_TITLES,
        is_recording=bool(settings.RECORD_CALLS),
    )


def _find_tools(
    page: Page,
    request: HttpRequest,
    calls: list[tuple[Any, ...]],
    each: float,
    known: _Known,
) -> list[dict[str, Any]]:
    """Return the tools with mistakes, those with most first."""
    tools = defaultdict[tuple[str, str], _Tool](_Tool)
    for server, name, faulty, coerced in calls:
        if name not in known.get((server, _TOOL.value), ()):
            continue
        tool = tools[server, name]
        tool.calls += 1
        if faulty:
            tool.refused += 1
            tool.refused_at.update(faulty.split(", "))
        if coerced:
            tool.corrected += 1
            tool.corrected_at.update(coerced.split(", "))
    wrong = {key: tool for key, tool in tools.items() if tool.refused or tool.corrected}
    most = sorted(wrong.items(), key=lambda item: -(item[1].refused + item[1].corrected))
    lines = []
    for (server, name), tool in most[:MAX_ROWS]:
        entry = page.link_entry(request, server, _TOOL.value, name)
        line = {
            "name": escape_invisible(name, 120),
            "url": entry[0][1] if entry else "",
            "server": escape_invisible(server, 80),
            "calls": round(tool.calls * each),
            "refused": tool.refused / tool.calls * 100,
            "corrected": tool.corrected / tool.calls * 100,
            "refused_at": _share(tool.refused_at, tool.calls),
            "corrected_at": _share(tool.corrected_at, tool.calls),
        }
        lines.append(line)
    return lines


def _share(places: Counter[str], calls: int) -> list[tuple[str, float]]:
    """Return the most frequent places with their percent of the calls."""
    most = sorted(places.items(), key=lambda item: (-item[1], item[0]))[:MAX_PLACES]
    return [(escape_invisible(place, 120), count / calls * 100) for place, count in most]


def _find_unknown(
    page: Page, request: HttpRequest, first: int, end: int, known: _Known
) -> list[dict[str, Any]]:
    """Return the names that were asked for and that no entry has, the most frequent first."""
    refused = CallRecord.objects.filter(
        outcome=_Outcome.REFUSED, started_at__gte=moment_of(first), started_at__lt=moment_of(end)
    )
    # Read from the index alone; with a limit, each row would be sorted.
    times = refused.order_by("-started_at", "-id").values_list("started_at", flat=True)
    cut = times[NEWEST : NEWEST + 1].first()
    if cut is not None:
        refused = refused.filter(started_at__gte=cut)
    names = (
        refused.order_by()
        .values_list("server", "method", "name")
        .annotate(count=Count("pk"), last=Max("started_at"))
        .order_by("-count", "name")
    )
    labels, lines = dict(CallRecord.Method.choices), list[dict[str, Any]]()
    for server, method, name, count, last in names.iterator():
        if name in known.get((server, method), ()):
            continue
        query = {"server": server, "name": name, "outcome": _Outcome.REFUSED.value}
        link = page.link(request, "", "callrecord", **query)
        line = {
            "name": escape_invisible(name, 120),
            "kind": labels.get(method, method),
            "server": escape_invisible(server, 80),
            "count": count,
            "last": last,
            "url": link[0][1] if link else "",
        }
        lines.append(line)
        if len(lines) == MAX_ROWS:
            break
    return lines
