"""The current connections, from the tables that all workers write, in a few queries."""

from __future__ import annotations

import hashlib
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.db.models import CharField, Count, Exists, Max, OuterRef, Q, QuerySet, Value
from django.utils import timezone
from django.utils.translation import gettext as _

from django_mcp.admin.lists import BY_USERNAME, QUIET, open_streams
from django_mcp.admin.live_actions import to_uuid
from django_mcp.admin.permissions import has_object_backend, may, only_visible
from django_mcp.admin.revoke import can_revoke
from django_mcp.admin.texts import escape_invisible, to_number
from django_mcp.models import CallRecord, Session, Stream, Subscription, Worker
from django_mcp.protocol.json import JSONObject

PER_PAGE = 25
"""Rows of each table."""

SHOWN = 200
"""Callers that are looked at; each look groups their calls anew."""

RECENT = timedelta(minutes=15)

NEWEST_CALLS = 10_000
"""Calls that are grouped by caller: grouping all took a second on a busy site."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveFilter:
    """What a user wants to see of the tables.

    Attributes:
        client, user, server: a part of the client's name and of the user's or principal's, in
            any case, and the name of the server; empty: all.
        worker: key of the worker that has a stream open; None: any.
        pages: numbers of the pages, from 1, by table.
    """

    client: str = ""
    user: str = ""
    server: str = ""
    worker: uuid.UUID | None = None
    pages: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, query: Mapping[str, Any]) -> LiveFilter:
        given = {name: str(value).replace("\0", "")[:200] for name, value in query.items()}
        texts = {name: given.get(name, "") for name in ("client", "user", "server")}
        pages = {name: to_number(value, 6) for name, value in given.items()}
        return cls(**texts, worker=to_uuid(given.get("worker", "")), pages=pages)

    def narrow(self, rows: QuerySet[Any], principal: str = "principal_key") -> QuerySet[Any]:
        if self.client:
            rows = rows.filter(client_name__icontains=self.client)
        if self.server:
            rows = rows.filter(server=self.server)
        if self.user:
            of_principal = Q(**{f"{principal}__icontains": self.user})
            rows = rows.filter(Q(**{BY_USERNAME: self.user}) | of_principal)
        if self.worker is not None and rows.model is Stream:
            rows = rows.filter(worker_id=self.worker)
        if self.worker is not None and rows.model is Session:
            open_there = Stream.objects.filter(session_id=OuterRef("pk"), worker_id=self.worker)
            rows = rows.filter(Exists(open_there))
        return rows

    def page(self, table: str, rows: Any) -> Any:
        end = max(self.pages.get(table, 1), 1) * PER_PAGE
        return rows[end - PER_PAGE : end]


def find_tables(user: Any) -> set[str]:
    """Return the names of the tables that a user may see; raise PermissionDenied if there are none.

    Workers and callers are for those who may see all connections.
    """
    tables = {
        name
        for name, model in {"streams": Stream, "sessions": Session}.items()
        if may(user, "view", model)
        or (has_object_backend() and only_visible(user, model._default_manager.all()).exists())
    }
    if may(user, "view", Session) and may(user, "view", Stream):
        tables |= {"callers", "workers"}
    if not tables:
        raise PermissionDenied
    return tables


def snapshot(
    user: Any, tables: Collection[str], live_filter: LiveFilter = LiveFilter()
) -> JSONObject:
    """Return the current data of some tables for a user, with invisible characters of others' texts escaped.

    Rows have `may_end` if the user may act on some of them only. If calls are not recorded, only
    callers with requests in flight are known.
    """
    now = timezone.now()
    workers = list(Worker.objects.order_by("-started_at"))
    of_sessions, of_callers = _find_load(row for row in workers if row.lease_until > now)
    counts: JSONObject = {"at": int(now.timestamp())}
    counted: dict[str, QuerySet[Any]] = {}
    if "streams" in tables:
        # A worker that was killed leaves rows until they are pruned: they are not shown.
        streams = only_visible(user, Stream.objects.filter(worker__lease_until__gt=now))
        counted["streams"] = streams = live_filter.narrow(streams)
        newest = streams.order_by("-opened_at", "-id").select_related("user", "worker")
        shown = live_filter.page("streams", newest.defer("uri_digests", "worker__in_flight"))
        counts["streams"] = [_mark(user, row, _stream(row)) for row in shown]
    if "sessions" in tables:
        sessions = only_visible(user, Session.objects.filter(expires_at__gt=now))
        counted["sessions"] = sessions = live_filter.narrow(sessions)
        newest = sessions.order_by("-last_seen_at", "-id").select_related("user")
        newest = newest.annotate(has_stream=Exists(open_streams(OuterRef("pk"), now)))
        shown = live_filter.page("sessions", newest.defer("client_info", "capabilities"))
        counts["sessions"] = [_mark(user, row, _session(row, of_sessions, now)) for row in shown]
    totals = {}
    if "workers" in tables:
        callers = _callers(now, of_callers, live_filter)
        counts["callers"] = live_filter.page("callers", callers)
        counts["workers"] = [_worker(row, now) for row in live_filter.page("workers", workers)]
        counted["subscriptions"] = Subscription.objects.filter(session__expires_at__gt=now)
        totals = {"callers": len(callers), "workers": len(workers)}
    counts["counts"] = {**_counts(counted), **totals}
    return counts


def _mark(user: Any, row: Stream | Session, shown: JSONObject) -> JSONObject:
    if not may(user, "end", type(row)) and has_object_backend():
        shown["may_end"] = may(user, "end", row)
    return shown


def _find_load(workers: Iterable[Worker]) -> tuple[Counter[str], Counter[tuple[str, ...]]]:
    """Return the number of requests in flight, by session and by caller."""
    sessions: Counter[str] = Counter()
    callers: Counter[tuple[str, ...]] = Counter()
    for row in workers:
        state = row.in_flight or {}
        sessions.update(state.get("sessions", {}))
        for *caller, count in state.get("callers", ()):
            callers[tuple(caller)] += count
    return sessions, callers


_CALLER = ("server", "principal", "user_id", "revision", "client_name", "client_version")
"""In the order in which a worker reports callers."""


def changes(before: JSONObject, after: JSONObject) -> JSONObject:
    """Return what a page that has shown a snapshot needs to show another.

    Of each table that is not the same, `order` has the keys of its rows, and `rows` what differs in
    them.
    """
    differences: JSONObject = {"at": after["at"], "counts": after["counts"]}
    for name, rows in after.items():
        if name in differences or rows == before[name]:
            continue
        known = {row["id"]: row for row in before[name]}
        differences[name] = {"order": [row["id"] for row in rows], "rows": []}
        for row in rows:
            shown = known.get(row["id"], {}).items()
            differing = {name: value for name, value in row.items() if (name, value) not in shown}
            if differing:
                differences[name]["rows"].append({"id": row["id"], **differing})
    return differences


def _counts(counted: Mapping[str, QuerySet[Any]]) -> dict[str, int]:
    """Return the number of rows of each kind, in one query."""
    asked = [
        rows.order_by()
        .annotate(kind_counted=Value(name, output_field=CharField()))
        .values("kind_counted")
        .annotate(count=Count("pk"))
        .values_list("kind_counted", "count")
        for name, rows in counted.items()
    ]
    # An empty query set may be left out of the result.
    counts = asked[0].union(*asked[1:], all=True).order_by()
    return {**dict.fromkeys(counted, 0), **dict(counts)}


def _callers(
    now: datetime, in_flight: Counter[tuple[str, ...]], live_filter: LiveFilter
) -> list[JSONObject]:
    rows = CallRecord.objects.filter(started_at__gt=now - RECENT).order_by()
    # Read from the index alone; with a limit, each row would be sorted.
    oldest = rows.order_by("-started_at", "-id").values_list("started_at", flat=True)
    cut = oldest[NEWEST_CALLS : NEWEST_CALLS + 1].first()
    if cut is not None:
        rows = rows.filter(started_at__gte=cut)
    # Only within these: no index finds the parts of names.
    rows = live_filter.narrow(rows, "principal")
    grouped = rows.values(*_CALLER).annotate(calls=Count("pk"), seen=Max("started_at"))
    callers = {
        tuple("" if row[name] is None else str(row[name]) for name in _CALLER): (
            row["seen"],
            row["calls"],
        )
        for row in grouped.order_by("-seen")[:SHOWN]
    }
    # Their first call is not over yet, or calls are not recorded.
    for key in in_flight:
        # Whose user it is would be a query for each.
        is_wanted = (
            key[0] == (live_filter.server or key[0])
            and live_filter.client.casefold() in key[4].casefold()
        )
        if key not in callers and is_wanted and not live_filter.user:
            callers[key] = (now, 0)
    newest = sorted(callers, key=lambda key: callers[key][0], reverse=True)[:SHOWN]
    # Not by a join, which would be made for each call.
    users = get_user_model()._default_manager.in_bulk({key[2] for key in newest} - {""})
    names = {str(pk): user.get_username() for pk, user in users.items()}
    collected = []
    for key in newest:
        (seen, calls), (owner, principal, user_id, *client) = callers[key], key
        caller = {
            **_whose(owner, names.get(user_id) or principal, *client),
            "id": hashlib.blake2s("|".join(key).encode(), digest_size=8).hexdigest(),
            "calls": calls if cut is None else f"{calls}+",
            "seen": _seconds(seen),
            "running": in_flight[key],
        }
        collected.append(caller)
    return collected


def _worker(row: Worker, now: datetime) -> JSONObject:
    state, is_alive = row.in_flight or {}, row.lease_until > now
    # Busy threads, and calls that wait for one.
    busy, limit, waiting = state.get("threads") or (0, 0, 0)
    threads = ""
    if limit and is_alive:
        threads = _("%(busy)d of %(limit)d") % {"busy": busy, "limit": limit}
    if threads and waiting:
        threads += f", {_('%d waiting') % waiting}"
    return {
        "id": str(row.pk),
        "name": _text(row),
        "since": _seconds(row.started_at),
        "running": state.get("total", 0) if is_alive else "",
        "threads": threads,
        "is_alive": is_alive,
    }


def _stream(row: Stream) -> JSONObject:
    return {
        **_shared(row),
        "kind": row.get_kind_display(),
        "is_call": row.kind == Stream.Kind.CALL,
        "session": "" if row.session_id is None else row.session_id.hex,
        "since": _seconds(row.opened_at),
        "worker": _text(row.worker),
        "queued": row.queued_events,
        "resources": row.uri_count,
    }


def _session(row: Any, in_flight: Counter[str], now: datetime) -> JSONObject:
    running = in_flight[row.pk.hex]
    return {
        **_shared(row),
        "transport": _text(row.transport),
        "since": _seconds(row.created_at),
        "seen": _seconds(now if running else row.last_seen_at),
        "running": running,
        "is_quiet": not running and not row.has_stream and row.last_seen_at < now - QUIET,
    }


def _shared(row: Stream | Session) -> JSONObject:
    user = row.principal_key if row.user is None else row.user.get_username()
    return {
        **_whose(row.server, user, row.revision, row.client_name, row.client_version),
        "id": row.pk.hex,
        "revocable": can_revoke(row.principal_key),
    }


def _whose(server: str, user: str, revision: str, name: str, version: str) -> JSONObject:
    return {
        "server": _text(server),
        "user": _text(user or "-"),
        "client": _text(f"{name or '?'} {version}".strip()),
        "revision": _text(revision),
    }


def _text(text: Any) -> str:
    return escape_invisible(str(text), 80)


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())
