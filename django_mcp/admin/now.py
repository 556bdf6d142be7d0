"""What is connected now, out of the tables that all workers write to, in a handful of queries."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Count, Max, QuerySet
from django.utils import timezone

from django_mcp.admin.texts import inert
from django_mcp.models import CallRecord, Session, Stream, Subscription, Worker

__all__ = ["snapshot"]

SHOWN = 200
"""Rows of each table; the changelists have the rest."""

RECENT = timedelta(minutes=15)


def snapshot(now: datetime | None = None) -> dict[str, Any]:
    """Return what there is now, as JSON; texts that others chose are made inert."""
    now = now or timezone.now()
    workers: QuerySet[Any, Any] = Worker.objects.values(*_WORKER)
    # A worker that was killed leaves rows until somebody sweeps them: they are not shown.
    streams = Stream.objects.filter(worker__lease_until__gt=now)
    sessions = Session.objects.filter(expires_at__gt=now)
    return {
        "at": int(now.timestamp()),
        "workers": [_worker(row, now) for row in workers.order_by("-started_at")[:SHOWN]],
        "streams": [_stream(row) for row in _newest(streams, "-opened_at", _STREAM)],
        "sessions": [_session(row) for row in _newest(sessions, "-last_seen_at", _SESSION)],
        "callers": [_caller(row) for row in _callers(now)],
        "counts": {
            "streams": streams.count(),
            "sessions": sessions.count(),
            "subscriptions": Subscription.objects.count(),
        },
    }


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
_WORKER = ("id", "host", "pid", "started_at", "lease_until")
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


def _newest(rows: QuerySet[Any], order: str, fields: Iterable[str]) -> Iterable[dict[str, Any]]:
    found: Iterable[dict[str, Any]] = rows.order_by(order, "-id").values(*fields)[:SHOWN]
    return found


def _callers(now: datetime) -> Iterable[dict[str, Any]]:
    """Return who called lately: clients without a session are seen by nothing else."""
    fields = ("server", "principal", "revision", "client_name", "client_version", _USERNAME)
    rows = CallRecord.objects.filter(started_at__gt=now - RECENT).order_by().values(*fields)
    found: Iterable[dict[str, Any]] = rows.annotate(
        calls=Count("pk"), seen=Max("started_at")
    ).order_by("-seen")[:SHOWN]
    return found


def _worker(row: dict[str, Any], now: datetime) -> dict[str, Any]:
    return {
        "id": str(row["id"]),
        "name": _text(f"{row['host']}:{row['pid']}"),
        "since": _seconds(row["started_at"]),
        "is_alive": row["lease_until"] > now,
    }


def _stream(row: dict[str, Any]) -> dict[str, Any]:
    return {
        **_who(row),
        "id": row["id"].hex,
        "kind": str(Stream.Kind(row["kind"]).label) if row["kind"] in Stream.Kind else "?",
        "session": row["session_id"].hex if row["session_id"] else "",
        "since": _seconds(row["opened_at"]),
        "worker": _text(f"{row['worker__host']}:{row['worker__pid']}"),
        "queued": row["queued_events"],
        "resources": row["uri_count"],
    }


def _session(row: dict[str, Any]) -> dict[str, Any]:
    return {
        **_who(row),
        "id": row["id"].hex,
        "transport": _text(row["transport"]),
        "since": _seconds(row["created_at"]),
        "seen": _seconds(row["last_seen_at"]),
    }


def _caller(row: dict[str, Any]) -> dict[str, Any]:
    who = _who({**row, "principal_key": row["principal"]})
    return {
        **who,
        "id": "|".join(str(row[each] or "") for each in row if each not in ("calls", "seen")),
        "calls": row["calls"],
        "seen": _seconds(row["seen"]),
    }


def _who(row: dict[str, Any]) -> dict[str, Any]:
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
