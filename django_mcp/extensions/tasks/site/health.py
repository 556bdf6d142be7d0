"""Tasks that were lost, for the start page and `manage.py mcp_health`: their worker has stopped."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q
from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.extensions.tasks.core.transitions import STOPPED
from django_mcp.extensions.tasks.site.models import Task


def without_worker() -> Q:
    """Return what tells tasks that wait for another worker, or for their end."""
    now = timezone.now()
    return Q(status=Task.Status.WORKING, leased_until__lt=now, expires_at__gt=now)


def ended_with_worker(since: datetime) -> Q:
    """Return what tells tasks that failed since then because their worker had stopped."""
    return Q(status=Task.Status.FAILED, updated_at__gte=since, error=STOPPED.to_error())


def count_lost(since: datetime) -> int | None:
    """Return how many tasks were lost since then, in one query, which the index of the status bounds.

    None: each process keeps its tasks for itself.
    """
    if settings.TASK_STORE != "model":
        return None
    return Task.objects.filter(without_worker() | ended_with_worker(since)).count()
