"""How long calls are kept."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import router
from django.db.models import QuerySet

from django_mcp.conf import settings
from django_mcp.models.calls import CallRecord

__all__ = ["prune_calls"]

CHUNK = 5_000
"""Rows deleted in one statement, so that nobody waits for long."""


def prune_calls(now: datetime) -> int:
    """Delete the calls older than `DJANGO_MCP["CALL_RETENTION_DAYS"]`; return how many.

    Args:
        now: counted back from; aware.
    """
    days = settings.CALL_RETENTION_DAYS
    if days is None:
        return 0
    using = router.db_for_write(CallRecord)
    old = CallRecord.objects.using(using).filter(started_at__lt=now - timedelta(days=days))
    total = 0
    while (last := _last_of_chunk(old)) is not None:
        # Nothing refers to a call, so none has to be loaded.
        total += old.filter(pk__lte=last)._raw_delete(using)
    return total


def _last_of_chunk(old: QuerySet[CallRecord]) -> int | None:
    """Return the key of the last row to delete next; None: there is none left."""
    # Old rows come first by key as well, so that this reads no more than it finds.
    keys = list(old.order_by("pk").values_list("pk", flat=True)[:CHUNK])
    return keys[-1] if keys else None
