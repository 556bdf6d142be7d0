"""Why calls are slow: where their time goes, by name, client, user and server, and in the period before."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from django.contrib.auth import get_user_model
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from django_mcp.admin.base import require_permissions
from django_mcp.admin.reports import SPAN_TITLES, find_known, moment_of
from django_mcp.admin.samples import PERIODS, SAMPLE, read_sample
from django_mcp.admin.texts import escape_invisible, to_number
from django_mcp.calls.tally import ERRORS
from django_mcp.conf import settings
from django_mcp.models import CallRecord

if TYPE_CHECKING:
    from django_mcp.admin.base import Page

MAX_ROWS = 50
"""Rows of each table, those with most time."""

SLOWEST = 10
"""Single calls that are shown."""

SLOWER_MS = (0, 100, 500, 1000, 5000, 30_000)
"""The choices of the filter, in milliseconds."""


class _Call(NamedTuple):
    """What is read of a call."""

    pk: int
    duration_ms: float
    queue_ms: float | None
    handler_ms: float | None
    database_ms: float | None
    queries: int | None
    outcome: str
    server: str
    method: str
    name: str
    client_name: str
    user_id: Any
    principal: str


class _Group:
    """The calls with the same key."""

    def __init__(self) -> None:
        self.errors = 0
        self.times_ms: list[float] = []
        self.total_ms = 0.0
        self._timed_ms = self._queue_ms = self._handler_ms = 0.0
        self._counted = self._queries = 0
        self._counted_ms = self._database_ms = 0.0

    def add(self, call: _Call) -> None:
        self.errors += call.outcome in ERRORS
        self.times_ms.append(call.duration_ms)
        self.total_ms += call.duration_ms
        if call.handler_ms is not None:
            self._timed_ms += call.duration_ms
            self._queue_ms += call.queue_ms or 0.0
            self._handler_ms += call.handler_ms
        if call.database_ms is not None:
            self._counted += 1
            self._queries += call.queries or 0
            self._counted_ms += call.duration_ms
            self._database_ms += call.database_ms

    def percentile_ms(self, share: float) -> float:
        """Return a duration that this share of the calls did not exceed."""
        times = sorted(self.times_ms)
        return times[math.ceil(share * len(times)) - 1]

    @property
    def parts(self) -> tuple[float | None, float | None]:
        """The percent of the time that went to waiting for a thread and to the handler, if it is known."""
        whole = self._timed_ms
        if not whole:
            return None, None
        return self._queue_ms / whole * 100, self._handler_ms / whole * 100

    @property
    def of_database(self) -> tuple[float | None, float | None]:
        """The percent of the time that went to the database, and the queries of a call, of those with counted ones."""
        if not self._counted:
            return None, None
        return self._database_ms / (self._counted_ms or 1.0) * 100, self._queries / self._counted


_Groups = defaultdict[tuple[Any, ...], _Group]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """Calls of a period.

    Attributes:
        each: how many calls of the period each of them stands for.
    """

    calls: list[_Call] = field(default_factory=list)
    each: float = 1.0

    def group(self, find_key: Callable[[_Call], tuple[Any, ...]]) -> _Groups:
        groups: _Groups = defaultdict(_Group)
        for call in self.calls:
            groups[find_key(call)].add(call)
        return groups


def _read(first: int, end: int, above_ms: float) -> Sample:
    """Return calls that began in the minutes from `first` to before `end` and took longer than `above_ms`."""
    narrow = {"duration_ms__gt": above_ms} if above_ms else {}
    calls, each = read_sample(first, end, _Call._fields, narrow)
    return Sample(calls=[_Call(*call) for call in calls], each=each)


@dataclass(frozen=True, kw_only=True, slots=True)
class SlowRow:
    """A line of a table; numbers of calls are estimated if a sample was read.

    Attributes:
        share: the part of the time of all calls, in percent.
        queue, handler, database: the parts of its own time that were spent so, in percent; None: they are not known.
        queries: of a call, on average; None: they were not counted.
        before: the same in the period before; None: there were no calls.
    """

    title: str
    url: str = ""
    calls_url: str = ""
    calls: int
    errors: int
    p50: float
    p95: float
    share: float
    queue: float | None
    handler: float | None
    database: float | None
    queries: float | None
    before: SlowRow | None = None


def slow_view(page: Page, request: HttpRequest) -> HttpResponse:
    """Show where the time of a period went."""
    require_permissions(request, "view_callrecord")
    key = request.GET.get("span", "day")
    key = key if key in PERIODS else "day"
    slower_ms = to_number(request.GET.get("slower"), 6)
    slower_ms = slower_ms if slower_ms in SLOWER_MS else 0
    report = _Report(page, request, PERIODS[key], slower_ms)
    return page.show(
        request,
        "slow.html",
        _("Why slow"),
        tables=list(report.tables()),
        slowest=report.slowest(),
        is_sample=report.now.each > 1 or report.before.each > 1,
        sample=SAMPLE,
        span=key,
        spans=SPAN_TITLES,
        slower=slower_ms,
        choices=SLOWER_MS,
        is_recording=bool(settings.RECORD_CALLS),
        has_queries=any(call.queries is not None for call in report.now.calls),
    )


class _Report:
    """The calls of a period and of the one before it."""

    def __init__(self, page: Page, request: HttpRequest, length: int, slower_ms: int) -> None:
        self._page, self._request, self._slower_ms = page, request, slower_ms
        end = int(time.time() // 60) + 1
        self._first = end - length
        self.now = _read(self._first, end, slower_ms)
        self.before = _read(self._first - length, self._first, slower_ms)

    def tables(self) -> Iterator[tuple[str, Any, list[SlowRow]]]:
        """Yield the id, title and lines of each table."""
        known = find_known()

        def find_entry(call: _Call) -> tuple[Any, ...]:
            # Clients invent others.
            is_known = call.name in known.get((call.server, call.method), ())
            return (call.server, call.method, call.name if is_known else "")

        yield "names", _("By name"), self._rows(find_entry, self._title_entries)
        yield (
            "clients",
            _("By client"),
            self._rows(lambda call: (call.client_name,), _title_clients),
        )
        yield "users", _("By user"), self._rows(_find_user, _title_users)
        yield "servers", _("By server"), self._rows(lambda call: (call.server,), _title_servers)

    def _rows(
        self,
        find_key: Callable[[_Call], tuple[Any, ...]],
        find_titles: Callable[[list[tuple[Any, ...]]], Iterator[_Title]],
    ) -> list[SlowRow]:
        now, before = self.now.group(find_key), self.before.group(find_key)
        total_ms, before_ms = (sum(g.total_ms for g in each.values()) for each in (now, before))
        keys = sorted(now, key=lambda key: -now[key].total_ms)[:MAX_ROWS]
        rows = []
        for key, title in zip(keys, find_titles(keys), strict=True):
            earlier = None
            if key in before:
                earlier = _to_row(title, before[key], self.before.each, before_ms)
            calls_url = self._link(title.query)
            rows.append(_to_row(title, now[key], self.now.each, total_ms, earlier, calls_url))
        return rows

    def _title_entries(self, keys: list[tuple[Any, ...]]) -> Iterator[_Title]:
        for server, method, name in keys:
            if name:
                entry = self._page.link_entry(self._request, server, method, name)
                url = entry[0][1] if entry else ""
                yield _Title(name, {"server": server, "name": name}, url)
            else:
                # What has no name is what clients made up.
                yield _Title(_t("unknown"), {"server": server, "outcome": "refused"})

    def _link(self, query: dict[str, Any]) -> str:
        """Return the list of these calls, as far as its filters can say it."""
        if not query:
            return ""
        bounds: dict[str, Any] = {"started_at__gte": moment_of(self._first).isoformat()}
        if self._slower_ms:
            bounds["duration_ms__gt"] = self._slower_ms
        links = self._page.link(self._request, "", "callrecord", **bounds, **query)
        return links[0][1] if links else ""

    def slowest(self) -> list[dict[str, Any]]:
        """Return the slowest of the calls that were read, with where their time went."""
        keys = [each.pk for each in sorted(self.now.calls, key=lambda c: -c.duration_ms)[:SLOWEST]]
        calls = CallRecord.objects.select_related("user").defer("arguments").in_bulk(keys)
        lines = []
        for call in (calls[key] for key in keys if key in calls):
            user = call.principal if call.user is None else call.user.get_username()
            link = self._page.link(self._request, "", "callrecord", call.pk)
            line = {
                "url": link[0][1] if link else "",
                "name": escape_invisible(call.name, 120) or _t("unknown"),
                "client": escape_invisible(call.client_name, 120) or "-",
                "user": escape_invisible(user, 120) or "-",
                "at": call.started_at,
                "duration": call.duration_ms,
                "queue": call.queue_ms,
                "handler": call.handler_ms,
                "database": call.database_ms,
                "queries": call.queries,
                "outcome": call.get_outcome_display(),
            }
            lines.append(line)
        return lines


class _Title(NamedTuple):
    """What a line is called, the filters of the list of its calls, and its own page."""

    text: str
    query: dict[str, Any]
    url: str = ""


def _to_row(
    title: _Title,
    group: _Group,
    each: float,
    total_ms: float,
    before: SlowRow | None = None,
    calls_url: str = "",
) -> SlowRow:
    queue, handler = group.parts
    database, queries = group.of_database
    return SlowRow(
        title=escape_invisible(title.text, 120),
        url=title.url,
        calls_url=calls_url,
        calls=round(len(group.times_ms) * each),
        errors=round(group.errors * each),
        p50=group.percentile_ms(0.5),
        p95=group.percentile_ms(0.95),
        share=group.total_ms / (total_ms or 1.0) * 100,
        queue=queue,
        handler=handler,
        database=database,
        queries=queries,
        before=before,
    )


def _find_user(call: _Call) -> tuple[Any, ...]:
    return (None, call.principal) if call.user_id is None else (call.user_id, "")


def _title_users(keys: list[tuple[Any, ...]]) -> Iterator[_Title]:
    users = get_user_model()._default_manager.in_bulk({key[0] for key in keys} - {None})
    for user, principal in keys:
        if user is not None:
            known = users.get(user)
            yield _Title(str(user) if known is None else known.get_username(), {"user_id": user})
        else:
            yield _Title(principal or "-", {"principal": principal} if principal else {})


def _title_clients(keys: list[tuple[Any, ...]]) -> Iterator[_Title]:
    for (client,) in keys:
        yield _Title(client or "-", {"client": client} if client else {})


def _title_servers(keys: list[tuple[Any, ...]]) -> Iterator[_Title]:
    for (server,) in keys:
        yield _Title(server, {"server": server})
