"""The plain store of tasks, which keeps them in the process, and the plain runner on its loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from django_mcp.extensions.tasks.core.ports import MAX_KEPT_BYTES_EACH, MAX_KEPT_EACH
from django_mcp.extensions.tasks.core.task import Step, Task
from django_mcp.log import logger
from django_mcp.server.exchange.call import Spawned
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.quotas import CountLimits, is_anonymous_quota
from django_mcp.server.exchange.timers import hold
from django_mcp.server.ports import StoreUnavailable

T = TypeVar("T")


MAX_TRIES = 50


class MemoryTasks:
    """Keep tasks in this process; they end with it."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._tasks: dict[str, Task] = {}

    async def insert(self, task: Task, limits: CountLimits) -> bool:
        now = self._clock()
        for key in [key for key, each in self._tasks.items() if each.expires_s <= now]:
            del self._tasks[key]
        unfinished = [
            task for task in self._tasks.values() if not task.is_final and not task.is_orphaned(now)
        ]
        own = [other for other in unfinished if other.quota_key == task.quota_key]
        anonymous = sum(is_anonymous_quota(other.quota_key) for other in unfinished)
        if (
            len(unfinished) >= limits.total
            or len(own) >= limits.each
            or sum(other.size for other in own) + task.size > MAX_KEPT_BYTES_EACH
            or (is_anonymous_quota(task.quota_key) and anonymous >= limits.anonymous)
        ):
            return False
        self._tasks[task.id] = task
        own = [other for other in self._tasks.values() if other.quota_key == task.quota_key]
        count, size = len(own), sum(other.size for other in own)
        for other in own:
            if count <= MAX_KEPT_EACH and size <= MAX_KEPT_BYTES_EACH:
                break
            if other.is_final:
                count, size = count - 1, size - other.size
                del self._tasks[other.id]
        return True

    async def find_lapsed(self, server: str, limit: int) -> list[Task]:
        now = self._clock()
        lapsed = [
            task
            for task in self._tasks.values()
            if task.server == server and task.is_orphaned(now) and task.expires_s > now
        ]
        return sorted(lapsed, key=lambda each: each.lease_s or 0.0, reverse=True)[:limit]

    async def find(self, task_ids: Sequence[str]) -> dict[str, Task]:
        now = self._clock()
        tasks_found = {key: self._tasks[key] for key in task_ids if key in self._tasks}
        return {key: task for key, task in tasks_found.items() if task.expires_s > now}

    async def change(
        self,
        task_id: str,
        step: Step,
        clock: Callable[[], float],
        *,
        may_defer: bool,
        size: int = 0,
    ) -> tuple[Task, Task] | None:
        for _ in range(MAX_TRIES):
            task = (await self.find((task_id,))).get(task_id)
            changed = None if task is None else step(task, clock())
            if task is None or changed is None:
                return None
            changed = replace(changed, version=task.version + 1)
            if await self.replace(changed):
                return task, changed
        logger.error("Gave up changing task %s: too many concurrent changes", task_id[:8])
        raise StoreUnavailable

    async def replace(self, task: Task) -> bool:
        """Store a task if the stored one is the version before; return whether it was."""
        known = self._tasks.get(task.id)
        if known is None or known.version != task.version - 1:
            return False
        self._tasks[task.id] = task
        return True

    async def list_of(
        self, server: str, owner: str, after: tuple[float, str] | None, limit: int
    ) -> list[Task]:
        now = self._clock()
        own = [
            replace(task, result=None)
            for task in self._tasks.values()
            if task.server == server and task.owner == owner and task.expires_s > now
        ]
        own.sort(key=_place)
        return [task for task in own if after is None or _place(task) > after][:limit]


def _place(task: Task) -> tuple[float, str]:
    return task.created_s, task.id


class LoopRunner:
    """Run tasks on the event loop that starts them."""

    is_here = True

    async def start(
        self,
        task: Task,
        exchange: Exchange | None,
        execute: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self.spawn(execute(), exchange)

    def spawn(self, work: Coroutine[Any, Any, T], exchange: Exchange | None) -> Spawned[T]:
        return hold(asyncio.ensure_future(work))
