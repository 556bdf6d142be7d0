"""Tasks in the site's database, where every worker finds them, with one change at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from django.db import router, transaction
from django.db.models import Count, Q, QuerySet, Sum

from django_mcp.execution.outages import Breaker
from django_mcp.execution.tables import (
    ANONYMOUS_PREFIX,
    AT_ONCE,
    Pruner,
    delete_some,
    digest_of_quota,
    moment,
)
from django_mcp.execution.threads import run_in_pool
from django_mcp.models.calls import Task as Row
from django_mcp.protocol.tasks import FINAL, WORKING
from django_mcp.server.exchange.quotas import CountLimits
from django_mcp.server.exchange.task import Task
from django_mcp.server.services.ports import MAX_KEPT_BYTES_EACH, MAX_KEPT_EACH

T = TypeVar("T")

PRUNE_EVERY_S = 10.0
"""How often each process deletes expired tasks, when it creates one."""

MAX_KEPT_BYTES = 1024 * 1024 * 1024
"""Bytes of all tasks, finished ones included. Our own limit."""

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
    "size",
)


class DatabaseTasks:
    """Tasks in rows; a change only applies to the version it was made from. See `TaskStore`."""

    def __init__(self) -> None:
        self._pruner = Pruner(PRUNE_EVERY_S)
        self._breaker = Breaker("The database of the tasks")

    async def insert(self, task: Task, limits: CountLimits) -> bool:
        def write() -> bool:
            self._pruner.prune_if_due(lambda: delete_some(expired_tasks()), trim_tasks)
            columns = _to_columns(task)
            if not _has_room(columns, limits):
                return False
            with transaction.atomic(router.db_for_write(Row)):
                Row(**columns).save(force_insert=True)
                _drop_finished(columns["quota_key"])
            return True

        return await self._ask(write)

    async def find_lapsed(self, server: str, limit: int) -> list[Task]:
        def read() -> list[Task]:
            now = datetime.now(UTC)
            rows = Row.objects.filter(
                server=server, status=WORKING, leased_until__lt=now, expires_at__gt=now
            )
            return [_to_task(row) for row in rows.order_by("-leased_until")[:limit]]

        return await self._ask(read)

    async def _ask(self, function: Callable[[], T]) -> T:
        return await run_in_pool(function, self._breaker)

    async def find(self, task_ids: Sequence[str]) -> dict[str, Task]:
        def read() -> dict[str, Task]:
            rows = Row.objects.filter(pk__in=list(task_ids), expires_at__gt=datetime.now(UTC))
            return {row.pk: _to_task(row) for row in rows}

        return await self._ask(read)

    async def replace(self, task: Task) -> bool:
        def write() -> bool:
            columns = _to_columns(task)
            changes = {name: columns[name] for name in _CHANGING}
            known = Row.objects.filter(pk=task.id, version=task.version - 1)
            # A finished task never changes, even if a worker still runs it.
            return known.exclude(status__in=FINAL).update(**changes) == 1

        return await self._ask(write)

    async def list_of(
        self, server: str, owner: str, after: tuple[float, str] | None, limit: int
    ) -> list[Task]:
        def read() -> list[Task]:
            rows = Row.objects.filter(
                server=server, principal_key=owner, expires_at__gt=datetime.now(UTC)
            )
            if after is not None:
                begun = moment(after[0])
                rows = rows.filter(Q(created_at__gt=begun) | Q(created_at=begun, pk__gt=after[1]))
            rows = rows.order_by("created_at", "pk").defer("result")[:limit]
            return [_to_task(row, has_result=False) for row in rows]

        return await self._ask(read)


def _has_room(columns: dict[str, Any], limits: CountLimits) -> bool:
    now, quota = datetime.now(UTC), columns["quota_key"]
    # A task with a lapsed lease, whose worker is gone, must not count against the limits.
    unfinished = (
        Row.objects.filter(expires_at__gt=now)
        .exclude(status__in=FINAL)
        .exclude(leased_until__lt=now)
        .order_by()
    )
    own = Q(server=columns["server"], quota_key=quota)
    found = unfinished.aggregate(
        own=Count("pk", filter=own),
        own_bytes=Sum("size", filter=own),
        anonymous=Count("pk", filter=Q(quota_key__startswith=ANONYMOUS_PREFIX)),
        total=Count("pk"),
    )
    return bool(
        found["own"] < limits.each
        and (found["own_bytes"] or 0) + columns["size"] <= MAX_KEPT_BYTES_EACH
        and not (quota.startswith(ANONYMOUS_PREFIX) and found["anonymous"] >= limits.anonymous)
        and found["total"] < limits.total
    )


def _drop_finished(quota: str) -> None:
    """Delete a caller's oldest finished tasks if they are too many or too large."""
    own = Row.objects.filter(quota_key=quota)
    size = 0
    doomed = []
    rows = own.order_by("-updated_at").values_list("pk", "status", "size")
    for count, (pk, status, task_bytes) in enumerate(rows, start=1):
        size += task_bytes
        if status in FINAL and (count > MAX_KEPT_EACH or size > MAX_KEPT_BYTES_EACH):
            doomed.append(pk)
    if doomed:
        own.filter(pk__in=doomed, status__in=FINAL).delete()


def trim_tasks() -> int:
    """Delete the oldest finished tasks of all callers if all tasks are too large; return how many."""
    finished = Row.objects.filter(status__in=FINAL).order_by("updated_at")
    # Read before the sum: what another process deletes in between must not count as still there.
    oldest = list(finished.values_list("pk", "size")[:AT_ONCE])
    surplus = (Row.objects.aggregate(bytes=Sum("size"))["bytes"] or 0) - MAX_KEPT_BYTES
    doomed = []
    for pk, size in oldest:
        if surplus <= 0:
            break
        surplus -= size
        doomed.append(pk)
    return Row.objects.filter(pk__in=doomed).delete()[0] if doomed else 0


def expired_tasks() -> QuerySet[Row]:
    """Return the tasks that have expired."""
    return Row.objects.filter(expires_at__lte=datetime.now(UTC)).order_by()


_SAME = (
    "id",
    "server",
    "tool",
    "revision",
    "call",
    "status",
    "rounds",
    "error",
    "ttl_ms",
    "poll_ms",
    "version",
)
"""Columns with the value of the same attribute of a task."""

_OPTIONAL = {"owner": "principal_key", "session": "session", "run": "run"}
"""Attributes of a task that may be None, with their columns, which are empty then."""


def _to_columns(task: Task) -> dict[str, Any]:
    described = task.call.get("principal") or {}
    return {
        **{name: getattr(task, name) for name in _SAME},
        **{column: getattr(task, name) or "" for name, column in _OPTIONAL.items()},
        "user_id": described.get("user"),
        "quota_key": digest_of_quota(task.quota_key),
        "size": task.size,
        "status_message": (task.status_message or "").replace("\x00", ""),
        "result": task.result,
        "created_at": moment(task.created_s),
        "updated_at": moment(task.updated_s),
        "expires_at": moment(task.expires_s),
        "leased_until": None if task.lease_s is None else moment(task.lease_s),
    }


def _to_task(row: Row, *, has_result: bool = True) -> Task:
    result = row.result if has_result else None
    values: dict[str, Any] = {
        **{name: getattr(row, name) for name in _SAME},
        **{name: getattr(row, column) or None for name, column in _OPTIONAL.items()},
    }
    return Task(
        **values,
        status_message=row.status_message or None,
        result=None if result is None else bytes(result),
        created_s=row.created_at.timestamp(),
        updated_s=row.updated_at.timestamp(),
        lease_s=None if row.leased_until is None else row.leased_until.timestamp(),
    )
