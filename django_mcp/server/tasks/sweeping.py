"""Settle the tasks of workers that have gone, also those that no client looks at."""

from __future__ import annotations

import asyncio
import logging
import weakref
from typing import TYPE_CHECKING, Any

from django_mcp.protocol.tasks import NEVER
from django_mcp.server.services.ports import StoreUnavailable
from django_mcp.server.tasks.start import look_after

if TYPE_CHECKING:
    from django_mcp.server.services.services import ServerHub, Services

__all__ = ["TaskSweep", "sweep_tasks"]

logger = logging.getLogger("django_mcp")

SWEEP_EVERY_S = 10.0
"""How often each process looks for tasks whose lease has lapsed. Our own choice."""

SWEPT_AT_ONCE = 100


class TaskSweep:
    """Sweeps the tasks of one server now and then; to be called with each tick of its hub."""

    def __init__(self, server: Services) -> None:
        self._server = weakref.ref(server)
        self._next_s: float | None = None
        self._running: asyncio.Task[Any] | None = None

    def join(self, hub: ServerHub) -> None:
        """Register the sweep on the tick of a hub."""
        if self not in hub.on_tick:
            hub.on_tick.append(self)

    def __call__(self, _hub: Any) -> None:
        """Begin a sweep if one is due and the last one has ended."""
        server, now_s = self._server(), asyncio.get_running_loop().time()
        if self._next_s is None:
            # A process that has just started leaves the first look to the others.
            self._next_s = now_s + SWEEP_EVERY_S
        if server is None or now_s < self._next_s or self._is_sweeping:
            return
        self._next_s = now_s + SWEEP_EVERY_S
        if any(tool.task != NEVER for tool in server.registry.tools.values()):
            self._running = asyncio.get_running_loop().create_task(_sweep_quietly(server))

    @property
    def _is_sweeping(self) -> bool:
        return self._running is not None and not self._running.done()


async def _sweep_quietly(server: Services) -> None:
    try:
        await sweep_tasks(server)
    except StoreUnavailable:
        # It is tried again soon.
        return
    except Exception:
        logger.exception("Could not settle the tasks of workers that have gone")


async def sweep_tasks(server: Services, *, may_begin: bool = True) -> int:
    """Begin tasks again, or end them, whose worker has gone; return how many were settled.

    Tasks of a tenant begin again only when a client of that tenant looks at them.

    Args:
        server: where their tools are registered.
        may_begin: whether tasks may begin again; else they are left for a worker.
    """
    settled = 0
    for task in await server.tasks.find_lapsed(server.name, SWEPT_AT_ONCE):
        tool = server.registry.tools.get(task.tool)
        may_run_again = tool is not None and tool.may_run_again
        if may_run_again and (not may_begin or task.call.get("is_of_tenant")):
            continue
        after = await look_after(server, None, task)
        settled += after.version != task.version
    return settled
