"""The extension of tasks on a site, by its settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.utils.functional import SimpleLazyObject
from django.utils.module_loading import import_string

from django_mcp.conf import settings
from django_mcp.extensions.tasks.core.extension import TasksExtension
from django_mcp.extensions.tasks.core.memory import MemoryTasks
from django_mcp.extensions.tasks.core.ports import TaskPorts, TaskRunner, TaskStore
from django_mcp.serving import find_serving_app


def on_site(clock: Callable[[], float]) -> TasksExtension:
    """Return the extension of a server of this site."""
    store: TaskStore = MemoryTasks(clock)
    # A site without the app has no tables.
    if settings.TASK_STORE != "memory" and find_serving_app() is not None:
        # Loads models, which importing a server must not.
        from django_mcp.extensions.tasks.site.store import DatabaseTasks

        store = DatabaseTasks()
    # Imported on first use: without tasks, a site may name one that it has not installed.
    runner: Any = SimpleLazyObject(partial(_make_runner, settings.TASK_RUNNER))
    return TasksExtension(TaskPorts(store=store, runner=runner))


def _make_runner(path: str) -> TaskRunner:
    runner: TaskRunner = import_string(path)()
    return runner
