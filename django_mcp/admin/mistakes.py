"""What models get wrong: arguments that were refused, corrected or tried anew, names that do not exist, large results."""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db.models import Count, Max
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from django_mcp.admin.base import require_permissions
from django_mcp.admin.reports import SPAN_TITLES, find_known, moment_of
from django_mcp.admin.samples import PERIODS, SAMPLE, read_sample
from django_mcp.admin.texts import escape_invisible
from django_mcp.calls.sizes import to_tokens
from django_mcp.conf import settings
from django_mcp.models import CallRecord

if TYPE_CHECKING:
    from django_mcp.admin.base import Page

MAX_ROWS = 50
"""Tools, and unknown names, that are shown."""

MAX_PLACES = 5
"""Places of each tool that are shown, those with most calls."""

SESSIONS = 50
"""Sessions whose calls are read."""

MAX_OF_SESSIONS = 2500
"""Calls of these sessions that are read: each may be in another page of a large table."""

NEWEST = 10_000
"""Refused calls whose names are grouped."""

_Outcome, _TOOL = CallRecord.Outcome, CallRecord.Method.TOOL


_Known = dict[tuple[str, str], set[str]]
"""The names that are registered, by server and method."""


class _Call(NamedTuple):
    """What is read of a call."""

    server: str
    name: str
    faulty: str
    coerced: str
    varied: str
    result_chars: int
    is_cut: bool
    session: str


@dataclass(kw_only=True, slots=True)
class _Tool:
    """The calls of a tool, and the places of their mistakes."""

    calls: int = 0
    refused: int = 0
    corrected: int = 0
    refused_at: Counter[str] = field(default_factory=Counter)
    corrected_at: Counter[str] = field(default_factory=Counter)
    repeated: int = 0
    changed: Counter[str] = field(default_factory=Counter)

    @property
    def mistakes(self) -> int:
        return self.refused + self.corrected + self.repeated


def mistakes_view(page: Page, request: HttpRequest) -> HttpResponse:
    """Show what was wrong in the calls of a period."""
    require_permissions(request, "view_callrecord")
    key = request.GET.get("span", "week")
    key = key if key in PERIODS else "week"
    end = int(time.time() // 60) + 1
    first = end - PERIODS[key]
    found, each = read_sample(first, end, _Call._fields, {"method": _TOOL})
    known = find_known()
    # Clients invent others.
    calls = [
        call for call in map(_Call._make, found) if call.name in known.get((call.server, _TOOL), ())
    ]
    return page.show(
        request,
        "mistakes.html",
        _("What models get wrong"),
        tools=_find_tools(page, request, calls, each),
        tokens=_find_tokens(page, request, calls, each, moment_of(first)),
        sessions=SESSIONS,
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
    calls: list[_Call],
    each: float,
) -> list[dict[str, Any]]:
    """Return the tools with mistakes, those with most first."""
    tools = defaultdict[tuple[str, str], _Tool](_Tool)
    for call in calls:
        tool = tools[call.server, call.name]
        tool.calls += 1
        if call.faulty:
            tool.refused += 1
            tool.refused_at.update(call.faulty.split(", "))
        if call.coerced:
            tool.corrected += 1
            tool.corrected_at.update(call.coerced.split(", "))
        if call.varied:
            tool.repeated += 1
            tool.changed.update(call.varied.split(", "))
    wrong = {key: tool for key, tool in tools.items() if tool.mistakes}
    most = sorted(wrong.items(), key=lambda item: -item[1].mistakes)
    lines = []
    for (server, name), tool in most[:MAX_ROWS]:
        line = _name_tool(page, request, server, name) | {
            "calls": round(tool.calls * each),
            "refused": tool.refused / tool.calls * 100,
            "corrected": tool.corrected / tool.calls * 100,
            "refused_at": _share(tool.refused_at, tool.calls),
            "corrected_at": _share(tool.corrected_at, tool.calls),
            "repeated": tool.repeated / tool.calls * 100,
            "changed": _share(tool.changed, tool.calls),
        }
        lines.append(line)
    return lines


def _name_tool(page: Page, request: HttpRequest, server: str, name: str) -> dict[str, Any]:
    entry = page.link_entry(request, server, _TOOL.value, name)
    return {
        "name": escape_invisible(name, 120),
        "url": entry[0][1] if entry else "",
        "server": escape_invisible(server, 80),
    }


def _find_tokens(
    page: Page, request: HttpRequest, calls: list[_Call], each: float, begin: datetime
) -> list[dict[str, Any]]:
    """Return the tools whose results take most of a model's context."""
    chars, counts = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    cut = Counter[tuple[str, str]]()
    for call in calls:
        chars[call.server, call.name] += call.result_chars
        counts[call.server, call.name] += 1
        cut[call.server, call.name] += call.is_cut
    in_session = _chars_in_sessions([call.session for call in calls if call.session], each, begin)
    lines = []
    for (server, name), total in chars.most_common(MAX_ROWS):
        of_session = in_session.get((server, name))
        line = _name_tool(page, request, server, name) | {
            "calls": round(counts[server, name] * each),
            "cut": cut[server, name] / counts[server, name] * 100,
            "per_call": to_tokens(round(total / counts[server, name])),
            "per_session": None if of_session is None else to_tokens(round(of_session)),
        }
        lines.append(line)
    return lines


def _chars_in_sessions(
    sessions: list[str], each: float, begin: datetime
) -> dict[tuple[str, str], float]:
    """Return the mean characters of a tool's results in a session that called it, by server and name.

    Args:
        sessions: those of the calls that were read, once for each call.
        each: how many calls each of them stands for.
    """
    seen = Counter(sessions)
    shuffled = sorted(seen)
    # The same ones for a minute.
    random.Random(begin.timestamp()).shuffle(shuffled)  # noqa: S311
    about = accumulate(seen[session] * each for session in shuffled)
    fitting = sum(calls <= MAX_OF_SESSIONS for calls in about)
    chosen = shuffled[: min(max(fitting, 1), SESSIONS)]
    found = CallRecord.objects.filter(
        session__in=chosen, started_at__gte=begin, method=_TOOL
    ).order_by()
    results = found.values_list("session", "server", "name", "result_chars")[:MAX_OF_SESSIONS]
    chars = defaultdict[tuple[str, str], Counter[str]](Counter)
    lengths = Counter[str]()
    for session, server, name, count in results:
        chars[server, name][session] += count
        lengths[session] += 1
    # The more calls a session has, the more likely one of them is among those that were read.
    weights = {session: 1 - (1 - 1 / each) ** count for session, count in lengths.items()}
    return {
        tool: sum(count / weights[session] for session, count in of_sessions.items())
        / sum(1 / weights[session] for session in of_sessions)
        for tool, of_sessions in chars.items()
    }


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
