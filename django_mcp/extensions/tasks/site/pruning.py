"""What `manage.py mcp_prune` does for tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from asgiref.sync import async_to_sync
from django.db.models import QuerySet

from django_mcp.conf import settings
from django_mcp.execution.tables import delete_some
from django_mcp.execution.threads import in_calling_thread
from django_mcp.extensions.tasks.core.ports import ports_of
from django_mcp.extensions.tasks.core.start import sweep_tasks
from django_mcp.extensions.tasks.site.models import Task
from django_mcp.extensions.tasks.site.store import expired_tasks
from django_mcp.known_servers import known_servers


def find_expired() -> dict[str, list[tuple[QuerySet[Any], Callable[[QuerySet[Any]], int]]]]:
    """Return the tasks that have expired, with what deletes some of them."""
    return {"tasks": [(expired_tasks(), delete_some)]}


def settle(*, is_dry_run: bool) -> Iterator[str]:
    """End tasks whose worker is gone, or queue those that can run again; yield what the command prints."""
    if is_dry_run:
        now = datetime.now(UTC)
        lapsed = Task.objects.filter(status=Task.Status.WORKING, leased_until__lt=now)
        count, verb = lapsed.filter(expires_at__gt=now).count(), "would be settled"
    else:
        count, verb = _settle(), "settled"
    yield f"tasks of processes that are gone: {count} {verb}"


def _settle() -> int:
    if settings.TASK_STORE != "model":
        return 0
    sweep, total = async_to_sync(sweep_tasks), 0
    with in_calling_thread():
        for server in known_servers():
            engine = server.engine
            is_here = ports_of(engine).runner.is_here
            while count := sweep(engine, may_begin=not is_here, may_extend=False):
                total += count
    return total
