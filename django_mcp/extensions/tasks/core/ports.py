"""What tasks need from a site: where they are stored, and what runs them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from django_mcp.extensions.tasks.core.shapes import EXTENSION
from django_mcp.extensions.tasks.core.task import Step, Task
from django_mcp.server.exchange.call import Spawned
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.quotas import CountLimits
from django_mcp.server.services import Services

T = TypeVar("T")

MAX_KEPT_EACH = 1000
MAX_KEPT_BYTES_EACH = 64 * 1024 * 1024
"""Stored tasks of one caller, finished ones included, and their bytes."""


class TaskStore(Protocol):
    """Stores tasks so that every process of the site finds them.

    Expired tasks are not found. Times are those of the server's clock.
    """

    async def insert(self, task: Task, limits: CountLimits) -> bool:
        """Store a new task; return False if there are too many unfinished ones.

        Tasks with a lapsed lease do not count. The oldest finished tasks of the same caller are
        deleted when they are too many or too large.
        """

    async def find_lapsed(self, server: str, limit: int) -> list[Task]:
        """Return tasks of a server whose lease has lapsed, the latest first."""

    async def find(self, task_ids: Sequence[str]) -> dict[str, Task]:
        """Return those of the tasks that exist, by id."""

    async def change(
        self,
        task_id: str,
        step: Step,
        clock: Callable[[], float],
        *,
        may_defer: bool,
        size: int = 0,
    ) -> tuple[Task, Task] | None:
        """Change a task by a step, and return it as it was and as it is; None: it could not take the step.

        The step gets the time at which no other process can change the task any more. If it `may_defer`,
        the step may be taken in this process alone while the store is locked, and stored later: then it
        is taken again, on the task as it is then. Raises `StoreUnavailable` otherwise. `size` is how many
        bytes the step holds of an answer or a result, if these are many.
        """

    async def list_of(
        self, server: str, owner: str, after: tuple[float, str] | None, limit: int
    ) -> list[Task]:
        """Return an owner's tasks from a time of creation and id on, without their results."""


class TaskRunner(Protocol):
    """Runs tasks, in this process or in another."""

    @property
    def is_here(self) -> bool:
        """Whether tasks run in this process, at once: the process that starts one claims it."""

    async def start(
        self,
        task: Task,
        exchange: Exchange | None,
        execute: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """Start a task, which `task.run` has claimed if `is_here`, and return without waiting for it.

        `exchange` is the request that created it or answered its questions, if any. `execute` returns
        the coroutine that runs it in this process; a runner with a queue does not call it.
        """

    def spawn(self, work: Coroutine[Any, Any, T], exchange: Exchange | None) -> Spawned[T]:
        """Run a coroutine in this process so that it outlives the request that it comes from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskPorts:
    """The store and the runner of the tasks of one server."""

    store: TaskStore
    runner: TaskRunner


def ports_of(server: Services) -> TaskPorts:
    """Return the ports of the tasks of a server."""
    ports: TaskPorts = getattr(server.extensions[EXTENSION], "ports")  # noqa: B009 - no cycle of imports
    return ports
