"""The ports of tasks: where they are kept, and what has them run."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from django_mcp.server.exchange.call import Spawned
    from django_mcp.server.exchange.exchange import Exchange
    from django_mcp.server.exchange.task import Task

__all__ = ["MAX_KEPT_BYTES_EACH", "MAX_KEPT_EACH", "TaskLimits", "TaskRunner", "TaskStore"]

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskLimits:
    """How many unfinished tasks there may be: in all, of anonymous callers, and of one caller."""

    total: int
    anonymous: int
    each: int


MAX_KEPT_EACH = 1000
MAX_KEPT_BYTES_EACH = 64 * 1024 * 1024
"""Tasks of one caller that are kept, finished ones included, and their bytes. Our own limits."""


class TaskStore(Protocol):
    """Where tasks are kept, so that any process that serves the site finds them.

    Tasks that have expired are not there. Times are by the server's clock.
    """

    async def insert(self, task: Task, limits: TaskLimits) -> bool:
        """Keep a new task; False when too many that have not ended are kept already.

        A task whose lease has lapsed does not count. Finished tasks of the same caller make room,
        oldest first, when they are too many or too large.

        Args:
            task: has an id that no other has.
            limits: how many unfinished tasks there may be.
        """
        ...

    async def find_lapsed(self, server: str, limit: int) -> list[Task]:
        """Return tasks of a server whose lease has lapsed, those that lapsed last first."""
        ...

    async def find(self, task_ids: Sequence[str]) -> dict[str, Task]:
        """Return those of the tasks that are there, by id."""
        ...

    async def replace(self, task: Task) -> bool:
        """Store a task if the stored one is the version before; return whether it was."""
        ...

    async def list_of(
        self, server: str, owner: str, after: tuple[float, str] | None, limit: int
    ) -> list[Task]:
        """Return an owner's tasks by time of creation and id, without their results.

        Args:
            server: the name of the server.
            owner: whose they are.
            after: time and id of the one before the first; None: from the beginning.
            limit: how many at most.
        """
        ...


class TaskRunner(Protocol):
    """Has tasks run, in this process or in another."""

    @property
    def is_here(self) -> bool:
        """Whether they run in this process, at once: the starter of a task claims it for the run."""
        ...

    async def start(
        self,
        task: Task,
        exchange: Exchange | None,
        execute: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """Start a task, and return without waiting for it.

        Args:
            task: the task to run; `task.run` has claimed it if `is_here`.
            exchange: the request that created the task or answered its questions; None if no
                request did.
            execute: returns the coroutine that runs the task in this process. A runner that hands
                tasks to a queue does not call it.
        """
        ...

    def spawn(self, work: Coroutine[Any, Any, T], exchange: Exchange | None) -> Spawned[T]:
        """Run something in this process, in a way that survives the request it comes from."""
        ...
