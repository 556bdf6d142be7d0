"""Run tasks with Celery: `pip install "django-mcp-endpoints[celery]"`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from celery import shared_task
from celery.signals import worker_process_shutdown

from django_mcp.execution.threads import run_in_pool
from django_mcp.extensions.tasks.site.runners import InProcessRunner, run_task
from django_mcp.process import finish

if TYPE_CHECKING:
    from django_mcp.extensions.tasks.core.task import Task
    from django_mcp.server.exchange.exchange import Exchange

run_queued_task: Any = shared_task(name="django_mcp.run_task", ignore_result=True)(run_task)
"""Its arguments are the name of the server and the id of a task."""


def _finish(**_kwargs: object) -> None:
    """Write what a worker process has queued: the interpreter calls no functions of `atexit` at its end."""
    finish()


worker_process_shutdown.connect(_finish)


class CeleryRunner(InProcessRunner):
    """Run tasks in Celery's workers, so that web workers can be restarted at any time."""

    is_here = False

    async def start(
        self,
        task: Task,
        exchange: Exchange | None,
        execute: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """See `TaskRunner.start`."""
        await run_in_pool(lambda: run_queued_task.delay(task.server, task.id))
