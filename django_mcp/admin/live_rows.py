"""The current connections, from the tables that all workers write, in a few queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import CharField, Count, Max, Model, QuerySet, Value
from django.utils import timezone
from django.utils.translation import gettext as _

from django_mcp.admin.permissions import has_object_backend, may, only_visible
from django_mcp.admin.texts import inert
from django_mcp.models import CallRecord, Session, Stream, Subscription, Worker
from django_mcp.protocol.json import JSONObject

__all__ = ["Visibility"]

SHOWN = 200
"""Rows of each table; the changelists show the rest."""

RECENT = timedelta(minutes=15)

NEWEST_CALLS = 10_000
"""Calls that are grouped by caller: grouping all took a second on a busy site."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Visibility:
    """The parts of the live page that a user may see.

    Attributes:
        user: the user.
        tables: names of the tables they may see.
    """

    user: Any
    tables: frozenset[str]

    @classmethod
    def of(cls, user: Any) -> Visibility:
        """Return the visibility of a user, which has no tables if they may see nothing.

        Workers and callers are for those who may see all connections.
        """
        tables = {
            name
            for name, model in _CONNECTED.items()
            if may(user, "view", model)
            or (has_object_backend() and only_visible(user, model._default_manager.all()).exists())
        }
        if may(user, "view", Session) and may(user, "view", Stream):
            tables |= {"callers", "workers"}
        return cls(user=user, tables=frozenset(tables))

    def snapshot(self, now: datetime | None = None) -> JSONObject:
        """Return the current data, with invisible characters of others' texts escaped.

        Rows have `may_end` if the user may act on some of them only. If calls are not recorded, only
        callers with requests in flight are known.
        """
        now = now or timezone.now()
        workers = list(Worker.objects.order_by("-started_at").values(*_WORKER))
        load = _Load.of([row for row in workers if row["lease_until"] > now])
        found: JSONObject = {"at": int(now.timestamp())}
        counted: dict[str, QuerySet[Any]] = {}
        if "streams" in self.tables:
            # A worker that was killed leaves rows until they are pruned: they are not shown.
            streams = self._visible(Stream.objects.filter(worker__lease_until__gt=now))
            rows = _newest(streams, "-opened_at", _STREAM)
            found["streams"] = self._marked([_stream(row) for row in rows], Stream)
            counted["streams"] = streams
        if "sessions" in self.tables:
            sessions = self._visible(Session.objects.filter(expires_at__gt=now))
            rows = _newest(sessions, "-last_seen_at", _SESSION)
            shown = [_session(row, load.sessions) for row in rows]
            found["sessions"] = self._marked(shown, Session)
            counted["sessions"] = sessions
        if "callers" in self.tables:
            found["callers"] = _callers(now, load.callers)
        if "workers" in self.tables:
            found["workers"] = [_worker(row, now) for row in workers[:SHOWN]]
            counted["subscriptions"] = Subscription.objects.filter(session__expires_at__gt=now)
        found["counts"] = _counts(counted)
        if "workers" in self.tables:
            found["counts"]["workers"] = len(workers)
        return found

    def _visible(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return only_visible(self.user, rows)

    def _marked(self, rows: list[JSONObject], model: type[Model]) -> list[JSONObject]:
        if not may(self.user, "end", model) and has_object_backend():
            objects = model._default_manager.in_bulk([row["id"] for row in rows])
            by_id = {key.hex: each for key, each in objects.items()}
            for row in rows:
                row["may_end"] = row["id"] in by_id and may(self.user, "end", by_id[row["id"]])
        return rows


_CONNECTED: Mapping[str, type[Model]] = {"streams": Stream, "sessions": Session}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Load:
    """The number of requests in flight, by session and by caller."""

    sessions: Counter[str]
    callers: Counter[tuple[str, ...]]

    @classmethod
    def of(cls, workers: Iterable[dict[str, Any]]) -> _Load:
        load = cls(sessions=Counter(), callers=Counter())
        for row in workers:
            state = row["in_flight"] or {}
            load.sessions.update(state.get("sessions", {}))
            for *caller, count in state.get("callers", ()):
                load.callers[tuple(caller)] += count
        return load


_USERNAME = f"user__{get_user_model().USERNAME_FIELD}"
_SHARED = (
    "id",
    "server",
    "principal_key",
    "revision",
    "client_name",
    "client_version",
    _USERNAME,
)
_WORKER = ("id", "host", "pid", "started_at", "lease_until", "in_flight")
_STREAM = (
    *_SHARED,
    "kind",
    "session_id",
    "opened_at",
    "queued_events",
    "uri_count",
    "worker__host",
    "worker__pid",
)
_SESSION = (*_SHARED, "transport", "created_at", "last_seen_at")
_CALLER = ("server", "principal", "user_id", "revision", "client_name", "client_version")
"""In the order in which a worker reports callers."""


def _newest(rows: QuerySet[Any], order: str, fields: Iterable[str]) -> Iterable[dict[str, Any]]:
    found: Iterable[dict[str, Any]] = rows.order_by(order, "-id").values(*fields)[:SHOWN]
    return found


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
    found = asked[0].union(*asked[1:], all=True).order_by()
    return {**dict.fromkeys(counted, 0), **dict(found)}


def _callers(now: datetime, in_flight: Counter[tuple[str, ...]]) -> list[JSONObject]:
    """Return recent and waiting callers, including clients without a session."""
    rows = CallRecord.objects.filter(started_at__gt=now - RECENT).order_by()
    # Read from the index alone; with a limit, each row would be sorted.
    oldest = rows.order_by("-started_at", "-id").values_list("started_at", flat=True)
    cut = oldest[NEWEST_CALLS : NEWEST_CALLS + 1].first()
    if cut is not None:
        rows = rows.filter(started_at__gte=cut)
    grouped = rows.values(*_CALLER).annotate(calls=Count("pk"), seen=Max("started_at"))
    callers = {_caller_key(row): row for row in grouped.order_by("-seen")[:SHOWN]}
    # Their first call is not over yet, or calls are not recorded.
    for key in in_flight:
        if key not in callers:
            callers[key] = {**dict(zip(_CALLER, key, strict=True)), "calls": 0, "seen": now}
    shown = sorted(callers.items(), key=lambda item: item[1]["seen"], reverse=True)[:SHOWN]
    # Not by a join, which would be made for each call.
    names = _usernames({str(row["user_id"]) for _, row in shown} - {"", "None"})
    return [
        _caller(
            key,
            {**row, _USERNAME: names.get(str(row["user_id"]))},
            in_flight[key],
            is_cut=cut is not None,
        )
        for key, row in shown
    ]


def _caller_key(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple("" if row[name] is None else str(row[name]) for name in _CALLER)


def _usernames(keys: Iterable[str]) -> dict[str, str]:
    if not keys:
        return {}
    users: Any = get_user_model()._default_manager.filter(pk__in=keys)
    field = get_user_model().USERNAME_FIELD
    return {str(pk): str(name) for pk, name in users.values_list("pk", field)}


def _worker(row: dict[str, Any], now: datetime) -> JSONObject:
    is_alive = row["lease_until"] > now
    return {
        "id": str(row["id"]),
        "name": _text(f"{row['host']}:{row['pid']}"),
        "since": _seconds(row["started_at"]),
        "running": (row["in_flight"] or {}).get("total", 0) if is_alive else "",
        "threads": _threads((row["in_flight"] or {}).get("threads")) if is_alive else "",
        "is_alive": is_alive,
    }


def _threads(state: Any) -> str:
    """Return how many threads are busy, and how many calls wait for one."""
    if not state or not state[0]:
        return ""
    busy, limit, waiting = state
    text = f"{busy}/{limit}"
    return f"{text}, {_('%d waiting') % waiting}" if waiting else text


def _stream(row: dict[str, Any]) -> JSONObject:
    return {
        **_caller_columns(row),
        "id": row["id"].hex,
        "kind": str(Stream.Kind(row["kind"]).label) if row["kind"] in Stream.Kind else "?",
        "is_call": row["kind"] == Stream.Kind.CALL,
        "session": row["session_id"].hex if row["session_id"] else "",
        "since": _seconds(row["opened_at"]),
        "worker": _text(f"{row['worker__host']}:{row['worker__pid']}"),
        "queued": row["queued_events"],
        "resources": row["uri_count"],
    }


def _session(row: dict[str, Any], in_flight: Counter[str]) -> JSONObject:
    return {
        **_caller_columns(row),
        "id": row["id"].hex,
        "transport": _text(row["transport"]),
        "since": _seconds(row["created_at"]),
        "seen": _seconds(row["last_seen_at"]),
        "running": in_flight[row["id"].hex],
    }


def _caller(key: tuple[str, ...], row: dict[str, Any], running: int, *, is_cut: bool) -> JSONObject:
    return {
        **_caller_columns({**row, "principal_key": row["principal"]}),
        "id": "|".join(key),
        "calls": f"{row['calls']}+" if is_cut else row["calls"],
        "seen": _seconds(row["seen"]),
        "running": running,
    }


def _caller_columns(row: dict[str, Any]) -> JSONObject:
    return {
        "server": _text(row["server"]),
        "user": _text(row[_USERNAME] or row["principal_key"] or "-"),
        "client": _text(f"{row['client_name'] or '?'} {row['client_version'] or ''}".strip()),
        "revision": _text(row["revision"]),
    }


def _text(text: Any) -> str:
    return inert(str(text), 80)


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())
