"""How long calls are kept."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import router
from django.db.models import QuerySet

from django_mcp.conf import settings
from django_mcp.models.calls import CallRecord

__all__ = ["old_calls", "prune_calls"]

CHUNK = 5_000
"""Rows deleted in one statement, so that nobody waits for long."""


def prune_calls(now: datetime) -> int:
    """Delete the calls older than `DJANGO_MCP["CALL_RETENTION_DAYS"]`; return how many.

    Args:
        now: counted back from; aware.
    """
    old = old_calls(now)
    total = 0
    while (last := _last_of_chunk(old)) is not None:
        # Nothing refers to a call, so none has to be loaded.
        total += old.filter(pk__lte=last)._raw_delete(old.db)
    return total


def old_calls(now: datetime) -> QuerySet[CallRecord]:
    """Return the calls older than `DJANGO_MCP["CALL_RETENTION_DAYS"]`; none if all are kept."""
    using, days = router.db_for_write(CallRecord), settings.CALL_RETENTION_DAYS
    calls = CallRecord.objects.using(using)
    return calls.none() if days is None else calls.filter(started_at__lt=now - timedelta(days=days))


def _last_of_chunk(old: QuerySet[CallRecord]) -> int | None:
    """Return the key of the last row to delete next; None: there is none left."""
    # Old rows come first by key as well, so that this reads no more than it finds.
    keys = list(old.order_by("pk").values_list("pk", flat=True)[:CHUNK])
    return keys[-1] if keys else None
