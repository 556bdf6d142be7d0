"""Tasks in the site's database, where every worker finds them, with one change at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from django.db import router, transaction
from django.db.models import Count, Q, QuerySet, Sum

from django_mcp.execution.outages import Breaker
from django_mcp.execution.own_writes import (
    MAX_DEFERRED,
    MAX_DEFERRED_BYTES,
    wait_for_other_writers,
    write_in_pool,
)
from django_mcp.execution.tables import (
    ANONYMOUS_PREFIX,
    AT_ONCE,
    Pruner,
    delete_some,
    digest_of_quota,
    moment,
)
from django_mcp.execution.threads import run_in_pool
from django_mcp.extensions.tasks.core.ports import MAX_KEPT_BYTES_EACH, MAX_KEPT_EACH
from django_mcp.extensions.tasks.core.shapes import FINAL, WORKING
from django_mcp.extensions.tasks.core.task import Step, Task
from django_mcp.extensions.tasks.site.models import Task as Row
from django_mcp.server.exchange.digests import digest_of
from django_mcp.server.exchange.quotas import CountLimits
from django_mcp.server.ports import StoreUnavailable

T = TypeVar("T")

_LEFT: Any = object()
"""In place of an outcome that is not known yet."""

PRUNE_EVERY_S = 10.0
"""How often each process deletes expired tasks, when it creates one."""

MAX_KEPT_BYTES = 1024 * 1024 * 1024
"""Bytes of all tasks, finished ones included."""

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


class _Deferred:
    """Steps of a task that this process has taken and not stored yet, since SQLite is locked.

    Attributes:
        added_bytes: what the steps hold that were added after the first.
        task: the task after these steps, as this process shows it; None: nobody has seen them.
        is_new: the task is still to be inserted.
        is_void: nothing is stored: the caller was told so, or the steps were added to earlier ones.
        is_closed: its steps are being stored, so that no more can be added.
        outcome: what was stored.
    """

    def __init__(self, steps: list[Step], *, is_new: bool = False) -> None:
        self.steps = steps
        self.is_new = is_new
        self.added_bytes = 0
        self.task: Task | None = None
        self.is_void = self.is_closed = self.is_stored = False
        self.outcome: tuple[Task, Task] | None = None


class DatabaseTasks:
    """Tasks in rows, which one process at a time changes. See `TaskStore`."""

    def __init__(self) -> None:
        self._pruner = Pruner(PRUNE_EVERY_S)
        self._breaker = Breaker("The database of the tasks")
        # The thread that writes uses them as well.
        self._lock = threading.Lock()
        self._deferred: dict[str, _Deferred] = {}
        self._added_count = self._added_bytes = 0

    async def insert(self, task: Task, limits: CountLimits) -> bool:
        deferred, began_s = _Deferred([], is_new=True), time.monotonic()

        def write() -> bool:
            try:
                self._pruner.prune_if_due(lambda: delete_some(expired_tasks()), trim_tasks)
                if deferred.task is None and not _has_room(_to_columns(task), limits):
                    deferred.is_void = True
                    return False
                with transaction.atomic(router.db_for_write(Row)):
                    return self._insert(task, deferred, began_s)
            finally:
                self._drop(task.id, deferred)

        size = task.size if task.call.get("is_large") else 0
        outcome = await self._write(write, lambda: None, size)
        if outcome is not None:
            return outcome
        # Each kept task counts as well as the stored ones.
        kept = [
            deferred.task
            for deferred in self._deferred.values()
            if deferred.is_new and deferred.task
        ]
        own = sum(other.quota_key == task.quota_key for other in kept)
        left = replace(limits, each=limits.each - own, total=limits.total - len(kept))
        has_room = await self._ask(lambda: _has_room(_to_columns(task), left))
        with self._lock:
            if deferred.is_closed:
                return not deferred.is_void
            deferred.is_void = not has_room
            if has_room:
                deferred.task = task
                self._deferred[task.id] = deferred
            return has_room

    def _insert(self, task: Task, deferred: _Deferred, began_s: float) -> bool:
        with self._lock:
            if deferred.is_void:
                return False
            deferred.is_closed = True
            task = deferred.task or task
        if task.lease_s is not None and not deferred.steps:
            # It was computed before this waited for the lock.
            task = replace(task, lease_s=task.lease_s + time.monotonic() - began_s)
        columns = _to_columns(task)
        Row(**columns).save(force_insert=True)
        _drop_finished(columns["quota_key"])
        return True

    def _drop(self, task_id: str, deferred: _Deferred) -> None:
        with self._lock:
            deferred.is_closed = deferred.is_stored = True
            if self._deferred.get(task_id) is deferred:
                del self._deferred[task_id]
                self._added_count -= max(len(deferred.steps) - (not deferred.is_new), 0)
                self._added_bytes -= deferred.added_bytes

    async def change(
        self,
        task_id: str,
        step: Step,
        clock: Callable[[], float],
        *,
        may_defer: bool,
        size: int = 0,
    ) -> tuple[Task, Task] | None:
        with self._lock:
            added = self._add(task_id, step, clock, size) if may_defer else None
        if added is not None:
            return added[0]
        deferred = _Deferred([step])

        def write() -> tuple[Task, Task] | None:
            try:
                with transaction.atomic(router.db_for_write(Row)):
                    deferred.outcome = self._change(task_id, deferred, clock)
                return deferred.outcome
            finally:
                self._drop(task_id, deferred)

        left: tuple[Task, Task] = _LEFT
        outcome = await self._write(write, lambda: left, size)
        if outcome is not left:
            return outcome
        before = None if not may_defer else (await self.find((task_id,))).get(task_id)
        with self._lock:
            if deferred.is_stored:
                return deferred.outcome
            if deferred.is_closed:
                # It is being committed.
                may_defer = False
            elif may_defer:
                return self._defer(task_id, deferred, before, clock, size)
            else:
                deferred.is_void = True
        raise StoreUnavailable

    def _defer(
        self,
        task_id: str,
        deferred: _Deferred,
        before: Task | None,
        clock: Callable[[], float],
        size: int,
    ) -> tuple[Task, Task] | None:
        """Take the steps in this process alone; `before` is the stored task."""
        (step,) = deferred.steps
        try:
            added = self._add(task_id, step, clock, size)
        except StoreUnavailable:
            deferred.is_void = True
            raise
        changed = None if before is None else step(before, clock())
        if added is not None or before is None or changed is None:
            deferred.is_void = True
            return None if added is None else added[0]
        deferred.task = replace(changed, version=before.version + 1)
        self._deferred[task_id] = deferred
        return before, deferred.task

    def _add(
        self, task_id: str, step: Step, clock: Callable[[], float], size: int
    ) -> tuple[tuple[Task, Task] | None] | None:
        """Add a step to those that are not stored yet, if there are any; return its outcome then.

        Raises:
            StoreUnavailable: too many steps wait.
        """
        deferred = self._deferred.get(task_id)
        if deferred is None or deferred.is_closed or deferred.task is None:
            return None
        before = deferred.task
        changed = step(before, clock())
        if changed is None:
            return (None,)
        if self._added_count >= MAX_DEFERRED or self._added_bytes + size > MAX_DEFERRED_BYTES:
            raise StoreUnavailable
        self._added_count += 1
        self._added_bytes += size
        deferred.added_bytes += size
        deferred.task = replace(changed, version=before.version + 1)
        deferred.steps.append(step)
        return ((before, deferred.task),)

    def _change(
        self, task_id: str, deferred: _Deferred, clock: Callable[[], float]
    ) -> tuple[Task, Task] | None:
        key = digest_of(task_id)
        rows = Row.objects.filter(pk=key, expires_at__gt=datetime.now(UTC))
        row = rows.select_for_update().first()
        with self._lock:
            deferred.is_closed = True
            if deferred.is_void or row is None:
                return None
        before = task = _to_task(row)
        for step in deferred.steps:
            # A task that has ended, or has another run by now, takes none.
            changed = step(task, clock())
            if changed is not None:
                task = replace(changed, version=task.version + 1)
        if task is before:
            return None
        columns = _to_columns(task)
        Row.objects.filter(pk=key).update(**{name: columns[name] for name in _CHANGING})
        return before, task

    async def find_lapsed(self, server: str, limit: int) -> list[Task]:
        def read() -> list[Task]:
            now = datetime.now(UTC)
            rows = Row.objects.filter(
                server=server, status=WORKING, leased_until__lt=now, expires_at__gt=now
            )
            return [_to_task(row) for row in rows.order_by("-leased_until")[:limit]]

        # This process has not stored yet that it goes on with the others.
        return [task for task in await self._ask(read) if task.id not in self._deferred]

    async def _write(self, function: Callable[[], T], otherwise: Callable[[], T], size: int) -> T:
        return await write_in_pool(function, self._breaker, otherwise=otherwise, size=size)

    async def _ask(self, function: Callable[[], T]) -> T:
        return await run_in_pool(function, self._breaker)

    async def find(self, task_ids: Sequence[str]) -> dict[str, Task]:
        def read() -> dict[str, Task]:
            keys = [digest_of(task_id) for task_id in task_ids]
            rows = Row.objects.filter(pk__in=keys, expires_at__gt=datetime.now(UTC))
            return {row.secret: _to_task(row) for row in rows}

        shown = self._show(await self._ask(read), task_ids)
        if len(shown) < len(set(task_ids)) and await wait_for_other_writers():
            # Another process may have made it while SQLite was locked.
            shown = self._show(await self._ask(read), task_ids)
        return shown

    def _show(self, found: dict[str, Task], task_ids: Iterable[str]) -> dict[str, Task]:
        """Return tasks as this process has changed them."""
        with self._lock:
            deferred = {key: self._deferred[key].task for key in task_ids if key in self._deferred}
        return {**found, **{key: task for key, task in deferred.items() if task is not None}}

    async def list_of(
        self, server: str, owner: str, after: tuple[float, str] | None, limit: int
    ) -> list[Task]:
        def read() -> list[Task]:
            rows = Row.objects.filter(
                server=server, principal_key=owner, expires_at__gt=datetime.now(UTC)
            )
            if after is not None:
                begun = moment(after[0])
                later = Q(created_at=begun, secret__gt=after[1])
                rows = rows.filter(Q(created_at__gt=begun) | later)
            rows = rows.order_by("created_at", "secret").defer("result")[:limit]
            return [_to_task(row, has_result=False) for row in rows]

        tasks_by_id = {task.id: task for task in await self._ask(read)}
        with self._lock:
            for deferred in self._deferred.values():
                task = deferred.task
                is_own = task is not None and (task.server, task.owner) == (server, owner)
                if task is not None and is_own and (deferred.is_new or task.id in tasks_by_id):
                    tasks_by_id[task.id] = replace(task, result=None)
        tasks = [
            task
            for task in tasks_by_id.values()
            if after is None or (task.created_s, task.id) > after
        ]
        return sorted(tasks, key=lambda each: (each.created_s, each.id))[:limit]


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
    sums = unfinished.aggregate(
        own=Count("pk", filter=own),
        own_bytes=Sum("size", filter=own),
        anonymous=Count("pk", filter=Q(quota_key__startswith=ANONYMOUS_PREFIX)),
        total=Count("pk"),
    )
    return bool(
        sums["own"] < limits.each
        and (sums["own_bytes"] or 0) + columns["size"] <= MAX_KEPT_BYTES_EACH
        and not (quota.startswith(ANONYMOUS_PREFIX) and sums["anonymous"] >= limits.anonymous)
        and sums["total"] < limits.total
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
        "id": digest_of(task.id),
        "secret": task.id,
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
        id=row.secret,
        status_message=row.status_message or None,
        result=None if result is None else bytes(result),
        created_s=row.created_at.timestamp(),
        updated_s=row.updated_at.timestamp(),
        lease_s=None if row.leased_until is None else row.leased_until.timestamp(),
    )
