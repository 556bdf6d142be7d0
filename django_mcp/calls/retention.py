"""The calls and counts of calls that are old enough to be deleted."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import router
from django.db.models import Q, QuerySet

from django_mcp.calls.tallies import KEPT_MINUTES
from django_mcp.conf import settings
from django_mcp.models.calls import CallRecord, CallTally


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
