"""What tasks need of the server's surroundings; `memory.py` has plain ones."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent import futures
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from django_mcp.server.exchange.exchange import Exchange
    from django_mcp.server.exchange.task import Task
    from django_mcp.server.server import MCPServer

__all__ = [
    "MAX_KEPT_BYTES_EACH",
    "MAX_KEPT_EACH",
    "Spawned",
    "TaskLimits",
    "TaskRunner",
    "TaskStore",
]

T = TypeVar("T")

Spawned: TypeAlias = asyncio.Future[T] | futures.Future[T]
"""What runs on this event loop, or on another; `asyncio.wrap_future` makes either awaitable."""


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
        """Keep a task as it is now, if what is kept is the version before; tell whether it was."""
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
        """Whether they run in this process, at once: whoever starts one claims it for the run."""
        ...

    async def start(self, server: MCPServer, task: Task, exchange: Exchange | None) -> None:
        """See to it that `execute` is called for a task, and return without waiting for it.

        Args:
            server: where the tool is registered.
            task: to be run; `task.run` has claimed it where `is_here`.
            exchange: of the request that made it or answered its questions; None when no request
                did.
        """
        ...

    def spawn(self, work: Coroutine[Any, Any, T], exchange: Exchange | None) -> Spawned[T]:
        """Run something in this process, in a way that survives the request it comes from."""
        ...
