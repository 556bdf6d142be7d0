"""Errors: which calls failed in the same way, and the rows of the groups that they are in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from django.conf import settings as site_settings
from django.db import router
from django.db.models import F, QuerySet, Value
from django.db.models.functions import Greatest, Least
from django.utils import timezone

from django_mcp.calls.call import Failed, RecordedCall
from django_mcp.calls.traces import format_message, format_trace
from django_mcp.conf import settings
from django_mcp.execution.tables import AT_ONCE, insert_missing
from django_mcp.models import CallRecord, ErrorGroup
from django_mcp.protocol.sanitize import clean

MAX_GROUPS = 1000
"""Groups that are kept; above it, those go whose last call is the longest ago.

Groups of refused calls go first: callers make as many as they like, which must not displace the faults of the site.
"""


def add_errors(calls: Sequence[RecordedCall]) -> None:
    """Add failed calls to their groups, in the caller's transaction."""
    found: dict[str, list[tuple[RecordedCall, Failed]]] = {}
    for call in calls:
        if call.failed is not None:
            found.setdefault(call.fingerprint, []).append((call, call.failed))
    # Without a fixed order, two processes that wait for each other's rows would deadlock.
    rows = [_to_group(key, found[key]) for key in sorted(found)]
    insert_missing(rows, "server")
    for row in rows:
        ErrorGroup.objects.filter(pk=row.pk).update(
            calls=F("calls") + len(found[row.pk]),
            first_seen_at=Least(F("first_seen_at"), Value(row.first_seen_at)),
            last_seen_at=Greatest(F("last_seen_at"), Value(row.last_seen_at)),
            message=row.message,
            traceback=row.traceback,
        )


def _to_group(key: str, cases: Sequence[tuple[RecordedCall, Failed]]) -> ErrorGroup:
    """Return the row of a group, without its number of calls."""
    last, failed = max(cases, key=lambda case: case[0].started_at)
    trace = failed.trace
    return ErrorGroup(
        fingerprint=key,
        server=clean(last.server.name, 100),
        method=last.method,
        name=last.name if last.is_known else "",
        outcome=last.outcome,
        kind=failed.kind,
        error=failed.error,
        place=failed.place,
        message="" if trace is None else format_message(trace),
        traceback="" if trace is None or not trace.parts else format_trace(trace),
        first_seen_at=_moment(min(call.started_at for call, _ in cases)),
        last_seen_at=_moment(last.started_at),
    )


def _moment(time_s: float) -> datetime:
    moment = datetime.fromtimestamp(time_s, UTC)
    return moment if site_settings.USE_TZ else timezone.make_naive(moment)


def old_errors(now: datetime) -> QuerySet[ErrorGroup]:
    """Return the groups whose last call is older than `CALL_RETENTION_DAYS`; none if all are kept."""
    groups = ErrorGroup.objects.using(router.db_for_write(ErrorGroup))
    days = settings.CALL_RETENTION_DAYS
    if days is None:
        return groups.none()
    return groups.filter(last_seen_at__lt=now - timedelta(days=days))


def delete_old_errors(groups: QuerySet[ErrorGroup]) -> int:
    """Delete some of these groups, unless a call has failed so meanwhile; return how many.

    Each by itself, so that no process that adds calls to several of them waits for one and holds another.
    """
    keys = list(groups.values_list("pk", flat=True)[:AT_ONCE])
    return sum(groups.filter(pk=key).delete()[0] for key in keys)


def find_error_prunes(now: datetime) -> list[Callable[[], int]]:
    """Return what deletes old groups, and those above `MAX_GROUPS`; see `Pruner`."""
    return [lambda: delete_old_errors(old_errors(now)), _delete_surplus]


def _delete_surplus() -> int:
    groups = ErrorGroup.objects.using(router.db_for_write(ErrorGroup))
    seen = groups.order_by("-last_seen_at").values_list("last_seen_at", flat=True)
    cut = seen[MAX_GROUPS : MAX_GROUPS + 1].first()
    if cut is None:
        return 0
    surplus = groups.count() - MAX_GROUPS
    refused = groups.filter(outcome=CallRecord.Outcome.REFUSED).order_by("last_seen_at")
    doomed = list(refused.values_list("pk", flat=True)[:surplus])
    if doomed:
        return delete_old_errors(groups.filter(pk__in=doomed))
    return delete_old_errors(groups.filter(last_seen_at__lte=cut))
