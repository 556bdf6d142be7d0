"""Run tasks with Django's task framework: `django.tasks` from Django 6.0 on, else its backport.

Importing this needs one of the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import django
from django.utils.module_loading import import_string

from django_mcp.execution.threads import run_in_pool
from django_mcp.extensions.tasks.site.runners import InProcessRunner, run_task

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from django_mcp.extensions.tasks.core.task import Task
    from django_mcp.server.exchange.exchange import Exchange

_FRAMEWORK = "django.tasks" if django.VERSION >= (6, 0) else "django_tasks"
_queued: Callable[[Callable[[str, str], None]], Any] = import_string(f"{_FRAMEWORK}.task")


@_queued
def run_queued_task(server_name: str, task_id: str) -> None:
    """Run one task; its arguments are the name of the server and the id of a task."""
    run_task(server_name, task_id)


class DjangoTasksRunner(InProcessRunner):
    """Run tasks in the workers of `TASKS`, so that web workers can be restarted at any time."""

    is_here = False

    async def start(
        self,
        task: Task,
        exchange: Exchange | None,
        execute: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """See `TaskRunner.start`."""
        await run_in_pool(lambda: run_queued_task.enqueue(task.server, task.id))
