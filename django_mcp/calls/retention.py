"""Delete old calls and counts of calls."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import router
from django.db.models import Q, QuerySet

from django_mcp.calls.tallies import KEPT_MINUTES
from django_mcp.conf import settings
from django_mcp.models.calls import CallRecord, CallTally

__all__ = ["old_calls", "old_tallies", "prune_calls", "prune_tallies"]

CHUNK = 5_000
"""Rows deleted in one statement, so that no query waits long."""


def prune_calls(now: datetime) -> int:
    """Delete the calls older than `DJANGO_MCP["CALL_RETENTION_DAYS"]`; return how many.

    Args:
        now: the current time; aware.
    """
    return _prune(old_calls(now))


def prune_tallies(now: datetime) -> int:
    """Delete the counts of calls that `old_tallies` returns; return how many.

    Args:
        now: the current time; aware.
    """
    return _prune(old_tallies(now))


def old_calls(now: datetime) -> QuerySet[CallRecord]:
    """Return the calls older than `DJANGO_MCP["CALL_RETENTION_DAYS"]`; none if all are kept."""
    using, days = router.db_for_write(CallRecord), settings.CALL_RETENTION_DAYS
    calls = CallRecord.objects.using(using)
    return calls.none() if days is None else calls.filter(started_at__lt=now - timedelta(days=days))


def old_tallies(now: datetime) -> QuerySet[CallTally]:
    """Return the counts of calls past their retention, and those that no chart shows."""
    minute, days = int(now.timestamp() // 60), settings.CALL_RETENTION_DAYS
    old = Q()
    for width, kept in KEPT_MINUTES.items():
        reach = kept if days is None else min(kept, days * 24 * 60)
        old |= Q(width=width, minute__lte=minute - reach - width)
    return CallTally.objects.using(router.db_for_write(CallRecord)).filter(old)


def _prune(old: QuerySet[Any]) -> int:
    total, is_more = 0, True
    while is_more:
        # Old rows come first by key as well, so that this reads no more rows than it finds, except in a
        # last query that finds none, which would read the whole table.
        keys = list(old.order_by("pk").values_list("pk", flat=True)[:CHUNK])
        is_more = len(keys) == CHUNK
        if keys:
            # Nothing refers to these rows, so they need not be loaded.
            total += old.filter(pk__lte=keys[-1])._raw_delete(old.db)
    return total
