"""Tasks in the site's database, where every worker finds them, with one change at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from django_mcp.handlers.quotas import ANONYMOUS, digest_of_quota
from django_mcp.handlers.threads import run_in_pool, run_later
from django_mcp.protocol.tasks import FINAL, WORKING
from django_mcp.server.exchange.task import Task
from django_mcp.server.services.task_ports import MAX_KEPT_BYTES_EACH, MAX_KEPT_EACH

if TYPE_CHECKING:
    from django_mcp.handlers.breaker import Breaker
    from django_mcp.models.tasks import Task as Row
    from django_mcp.server.services.task_ports import TaskLimits

T = TypeVar("T")

__all__ = ["DatabaseTasks", "prune_tasks"]

PRUNE_EVERY_S = 10.0
"""How often each process deletes expired tasks, when it creates one."""

MAX_KEPT_BYTES = 1024 * 1024 * 1024
"""Bytes of all tasks, finished ones included. Our own limit."""

TIMEOUT_S = 5.0
"""How long a request waits for the database. Our own choice."""

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
    "size",
)


class DatabaseTasks:
    """Tasks in rows; a change only applies to the version it was made from. See `TaskStore`."""

    def __init__(self) -> None:
        self._next_pruning_s = 0.0

    async def insert(self, task: Task, limits: TaskLimits) -> bool:
        now_s = time.monotonic()
        is_due = now_s >= self._next_pruning_s
        if is_due:
            self._next_pruning_s = now_s + PRUNE_EVERY_S

        def write() -> bool:
            from django.db import router, transaction

            from django_mcp.models.tasks import Task as Row

            if is_due:
                run_later(_prune_all)
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
            from django_mcp.models.tasks import Task as Row

            now = _now()
            rows = Row.objects.filter(
                server=server, status=WORKING, leased_until__lt=now, expires_at__gt=now
            )
            return [_to_task(row) for row in rows.order_by("-leased_until")[:limit]]

        return await self._ask(read)

    async def _ask(self, function: Callable[[], T]) -> T:
        return await self._breaker.run(function, run_in_pool)

    @cached_property
    def _breaker(self) -> Breaker:
        # Loads database code, which importing a server must not.
        from django.db import ProgrammingError

        from django_mcp.handlers.breaker import DOWN, Breaker

        return Breaker(
            "The database of the tasks", timeout_s=TIMEOUT_S, errors=(*DOWN, ProgrammingError)
        )

    async def find(self, task_ids: Sequence[str]) -> dict[str, Task]:
        def read() -> dict[str, Task]:
            from django_mcp.models.tasks import Task as Row

            rows = Row.objects.filter(pk__in=list(task_ids), expires_at__gt=_now())
            return {row.pk: _to_task(row) for row in rows}

        return await self._ask(read)

    async def replace(self, task: Task) -> bool:
        def write() -> bool:
            from django_mcp.models.tasks import Task as Row

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
            from django.db.models import Q

            from django_mcp.models.tasks import Task as Row

            rows = Row.objects.filter(server=server, principal_key=owner, expires_at__gt=_now())
            if after is not None:
                moment = _moment(after[0])
                rows = rows.filter(Q(created_at__gt=moment) | Q(created_at=moment, pk__gt=after[1]))
            rows = rows.order_by("created_at", "pk").defer("result")[:limit]
            return [_to_task(row, has_result=False) for row in rows]

        return await self._ask(read)


def _has_room(columns: dict[str, Any], limits: TaskLimits) -> bool:
    from django.db.models import Count, Q, Sum

    from django_mcp.models.tasks import Task as Row

    now, quota = _now(), columns["quota_key"]
    # A task with a lapsed lease, whose worker is gone, must not count against the limits.
    unfinished = (
        Row.objects.filter(expires_at__gt=now)
        .exclude(status__in=FINAL)
        .exclude(leased_until__lt=now)
        .order_by()
    )
    own = unfinished.filter(server=columns["server"], quota_key=quota)
    found = own.aggregate(count=Count("pk"), bytes=Sum("size"))
    if found["count"] >= limits.each:
        return False
    if (found["bytes"] or 0) + columns["size"] > MAX_KEPT_BYTES_EACH:
        return False
    is_anonymous = quota.startswith(ANONYMOUS)
    counts = unfinished.aggregate(
        total=Count("pk"), anonymous=Count("pk", filter=Q(quota_key__startswith=ANONYMOUS))
    )
    if is_anonymous and counts["anonymous"] >= limits.anonymous:
        return False
    return bool(counts["total"] < limits.total)


def _drop_finished(quota: str) -> None:
    """Delete a caller's oldest finished tasks if they are too many or too large."""
    from django_mcp.models.tasks import Task as Row

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


def _prune_all() -> None:
    while prune_tasks():
        pass
    while _trim_tasks():
        pass


def _trim_tasks() -> int:
    """Delete the oldest finished tasks of all callers if all tasks are too large; return how many."""
    from django.db.models import Sum

    from django_mcp.models.tasks import Task as Row

    finished = Row.objects.filter(status__in=FINAL).order_by("updated_at")
    # Read before the sum: what another process deletes in between must not count as still there.
    oldest = list(finished.values_list("pk", "size")[:PRUNED_AT_ONCE])
    surplus = (Row.objects.aggregate(bytes=Sum("size"))["bytes"] or 0) - MAX_KEPT_BYTES
    doomed = []
    for pk, size in oldest:
        if surplus <= 0:
            break
        surplus -= size
        doomed.append(pk)
    return Row.objects.filter(pk__in=doomed).delete()[0] if doomed else 0


def prune_tasks() -> int:
    """Delete expired tasks, up to `PRUNED_AT_ONCE`; return how many."""
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
        "quota_key": digest_of_quota(task.quota_key),
        "size": task.size,
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
