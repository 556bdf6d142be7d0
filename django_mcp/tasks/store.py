"""Tasks in the site's database: found by every worker, changed by one at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django_mcp.handlers.threads import run_in_pool
from django_mcp.protocol.tasks import FINAL
from django_mcp.server.tasks.task import Task

if TYPE_CHECKING:
    from django_mcp.models.tasks import Task as Row

__all__ = ["DatabaseTasks", "prune_tasks"]

PRUNE_EVERY_S = 60.0
"""Whoever makes a task also removes what has expired, this often in each process."""

PRUNED_AT_ONCE = 1000

_CHANGING = (
    "status",
    "status_message",
    "rounds",
    "result",
    "error",
    "updated_at",
    "run",
    "leased_until",
    "version",
)


class DatabaseTasks:
    """Keep tasks in rows; a change is taken only on top of the version it was made from."""

    def __init__(self) -> None:
        self._next_pruning_s = 0.0

    async def insert(self, task: Task, limit: int, limit_each: int) -> bool:
        """See `TaskStore.insert`."""
        now_s = time.monotonic()
        is_due = now_s >= self._next_pruning_s
        if is_due:
            self._next_pruning_s = now_s + PRUNE_EVERY_S

        def write() -> bool:
            from django_mcp.models.tasks import Task as Row

            if is_due:
                prune_tasks()
            running = Row.objects.filter(expires_at__gt=_now()).exclude(status__in=FINAL)
            own = None
            if task.owner is not None:
                own = running.filter(server=task.server, principal_key=task.owner)
            elif task.session is not None:
                own = running.filter(session=task.session)
            if own is not None and own.count() >= limit_each:
                return False
            if running.count() >= limit:
                return False
            Row(**_to_columns(task)).save(force_insert=True)
            return True

        return await run_in_pool(write)

    async def find(self, task_ids: Sequence[str]) -> dict[str, Task]:
        """See `TaskStore.find`."""

        def read() -> dict[str, Task]:
            from django_mcp.models.tasks import Task as Row

            rows = Row.objects.filter(pk__in=list(task_ids), expires_at__gt=_now())
            return {row.pk: _to_task(row) for row in rows}

        return await run_in_pool(read)

    async def replace(self, task: Task) -> bool:
        """See `TaskStore.replace`."""

        def write() -> bool:
            from django_mcp.models.tasks import Task as Row

            columns = _to_columns(task)
            changes = {name: columns[name] for name in _CHANGING}
            known = Row.objects.filter(pk=task.id, version=task.version - 1)
            # What has ended stays as it ended, whatever a worker believes.
            return known.exclude(status__in=FINAL).update(**changes) == 1

        return await run_in_pool(write)

    async def list_of(
        self, server: str, owner: str, after: tuple[float, str] | None, limit: int
    ) -> list[Task]:
        """See `TaskStore.list_of`."""

        def read() -> list[Task]:
            from django.db.models import Q

            from django_mcp.models.tasks import Task as Row

            rows = Row.objects.filter(server=server, principal_key=owner, expires_at__gt=_now())
            if after is not None:
                moment = _moment(after[0])
                rows = rows.filter(Q(created_at__gt=moment) | Q(created_at=moment, pk__gt=after[1]))
            rows = rows.order_by("created_at", "pk").defer("result")[:limit]
            return [_to_task(row, has_result=False) for row in rows]

        return await run_in_pool(read)


def prune_tasks() -> int:
    """Remove tasks that have expired, up to `PRUNED_AT_ONCE`; return how many."""
    from django_mcp.models.tasks import Task as Row

    expired = Row.objects.filter(expires_at__lte=_now()).order_by().values_list("pk", flat=True)
    return Row.objects.filter(pk__in=list(expired[:PRUNED_AT_ONCE])).delete()[0]


def _to_columns(task: Task) -> dict[str, Any]:
    described = task.call.get("principal") or {}
    return {
        "id": task.id,
        "server": task.server,
        "tool": task.tool,
        "principal_key": task.owner or "",
        "user_id": described.get("user"),
        "session": task.session or "",
        "revision": task.revision,
        "call": task.call,
        "status": task.status,
        "status_message": (task.status_message or "").replace("\x00", ""),
        "rounds": task.rounds,
        "result": task.result,
        "error": task.error,
        "created_at": _moment(task.created_s),
        "updated_at": _moment(task.updated_s),
        "expires_at": _moment(task.expires_s),
        "ttl_ms": task.ttl_ms,
        "poll_ms": task.poll_ms,
        "run": task.run or "",
        "leased_until": None if task.lease_s is None else _moment(task.lease_s),
        "version": task.version,
    }


def _to_task(row: Row, *, has_result: bool = True) -> Task:
    result = row.result if has_result else None
    return Task(
        id=row.pk,
        server=row.server,
        owner=row.principal_key or None,
        session=row.session or None,
        revision=row.revision,
        tool=row.tool,
        call=row.call,
        status=row.status,
        status_message=row.status_message or None,
        rounds=row.rounds,
        result=None if result is None else bytes(result),
        error=row.error,
        created_s=row.created_at.timestamp(),
        updated_s=row.updated_at.timestamp(),
        ttl_ms=row.ttl_ms,
        poll_ms=row.poll_ms,
        run=row.run or None,
        lease_s=None if row.leased_until is None else row.leased_until.timestamp(),
        version=row.version,
    )


def _now() -> datetime:
    return datetime.now(UTC)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
