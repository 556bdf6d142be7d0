"""The numbers of errors: their calls over a time, the users and clients, and the latest calls of one."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.db.models import Count, QuerySet
from django.http import HttpRequest

from django_mcp.admin.figures import draw_line
from django_mcp.admin.reports import HEIGHT, SPANS, moment_of
from django_mcp.admin.texts import escape_invisible
from django_mcp.calls.rows import KEPT_MINUTES
from django_mcp.models import CallRecord, ErrorTally

if TYPE_CHECKING:
    from django_mcp.admin.base import Page
    from django_mcp.models import ErrorGroup

NEWEST = 200
"""Calls of each error, the newest, whose users and clients the list counts."""

REPORTED = 2000
"""Calls of one error, the newest, whose users, clients and places its page counts."""

MAX_ROWS = 20
"""Users, clients, places and calls that its page shows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """The calls of an error over a time, in all and for each point."""

    calls: int
    points: Sequence[int]

    @property
    def line(self) -> str:
        """The points of an SVG polyline."""
        return draw_line(self.points, HEIGHT, max(self.points))


@dataclass(frozen=True, kw_only=True, slots=True)
class Affected:
    """How many users and clients made calls that failed so."""

    users: int
    clients: int


def find_bounds(span: str) -> tuple[int, int]:
    """Return the first and the last minute of one of `SPANS` that ends now."""
    last = int(time.time() // 60)
    return SPANS[span].first_minute(last), last


def find_figures(span: str, keys: Sequence[str]) -> dict[str, Figures]:
    """Return the numbers of errors over one of `SPANS`, as the charts count them."""
    width = SPANS[span].width
    first, last = find_bounds(span)
    counts: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for key, minute, calls in _count(keys, width, first, last):
        counts[key][minute] += calls
    slots = range(first, last + 1, width)
    found = {}
    for key in keys:
        points = [counts[key][slot] for slot in slots]
        found[key] = Figures(calls=sum(points), points=points)
    return found


def _count(
    keys: Sequence[str], width: int, first: int, last: int
) -> Iterable[tuple[str, int, int]]:
    """Return keys of errors with the first minute of a point and its number of calls."""
    if width in KEPT_MINUTES:
        tallies = ErrorTally.objects.filter(
            width=width, fingerprint__in=keys, minute__gte=first, minute__lte=last
        )
        return tallies.values_list("fingerprint", "minute", "calls")
    calls = _cases(fingerprint__in=keys, started_at__gte=moment_of(first))
    counted = calls.order_by().values_list("fingerprint", "minute").annotate(count=Count("pk"))
    return counted.filter(minute__lte=last)


def _cases(**narrow: Any) -> QuerySet[CallRecord]:
    """Return failed calls, the newest first."""
    # Not every database infers that the index, which has failed calls only, can be used.
    calls = CallRecord.objects.filter(**narrow).exclude(fingerprint="")
    return calls.order_by("-started_at", "-id")


def find_affected(span: str, key: str) -> Affected:
    """Return how many users and clients the newest calls of an error over one of `SPANS` have."""
    newest = _cases(fingerprint=key, started_at__gte=moment_of(find_bounds(span)[0]))
    columns = ("user_id", "principal", "client_name")
    users, clients = set[Any](), set[str]()
    for user, principal, client in newest.values_list(*columns)[:NEWEST]:
        users.add((principal,) if user is None else user)
        clients.add(client)
    return Affected(users=len(users - {("",)}), clients=len(clients - {""}))


def find_report(page: Page, request: HttpRequest, error: ErrorGroup) -> dict[str, Any]:
    """Return the users, clients and wrong arguments of the newest calls of an error, and the last of these."""
    columns = ("user_id", "principal", "client_name", "faulty")
    users, clients, places = Counter[Any](), Counter[str](), Counter[str]()
    count = 0
    cases = _cases(fingerprint=error.pk)
    for user, principal, client, faulty in cases.values_list(*columns)[:REPORTED]:
        count += 1
        users[(principal,) if user is None else user] += 1
        clients[client] += 1
        places.update(faulty.split(", ") if faulty else ())

    def link(**query: Any) -> str:
        links = page.link(request, "", "callrecord", fingerprint=error.pk, **query)
        return links[0][1] if links else ""

    most = users.most_common(MAX_ROWS)
    known = get_user_model()._default_manager.in_bulk(
        [user for user, _ in most if not isinstance(user, tuple)]
    )
    lines = []
    for user, calls in most:
        if isinstance(user, tuple):
            (principal,) = user
            line = {"name": principal, "calls": calls, "url": link(principal=principal)}
        else:
            name = known[user].get_username() if user in known else str(user)
            line = {"name": name, "calls": calls, "url": link(user=user)}
        lines.append({**line, "name": escape_invisible(str(line["name"]), 120) or "-"})
    last = cases.select_related("user").defer("arguments")[:MAX_ROWS]
    return {
        "count": count,
        "users": lines,
        "clients": [
            {
                "name": escape_invisible(name, 120) or "-",
                "calls": calls,
                "url": link(client_name=name),
            }
            for name, calls in clients.most_common(MAX_ROWS)
        ],
        "places": [
            {"name": escape_invisible(place, 120), "calls": calls}
            for place, calls in places.most_common(MAX_ROWS)
        ],
        "last": [_describe(page, request, call) for call in last],
    }


def _describe(page: Page, request: HttpRequest, call: CallRecord) -> dict[str, Any]:
    user = call.principal if call.user is None else call.user.get_username()
    link = page.link(request, "", "callrecord", call.pk)
    return {
        "at": call.started_at,
        "url": link[0][1] if link else "",
        "user": escape_invisible(user, 120) or "-",
        "client": escape_invisible(f"{call.client_name} {call.client_version}".strip(), 160) or "-",
        "duration": call.duration_ms,
        "faulty": escape_invisible(call.faulty, 200),
        "reference": call.reference,
    }
