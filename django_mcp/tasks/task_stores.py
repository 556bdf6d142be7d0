"""The task store and runner of a server, by the settings."""

from __future__ import annotations

from django_mcp.conf import settings
from django_mcp.server.server import MCPServer
from django_mcp.server.services.task_ports import TaskRunner, TaskStore
from django_mcp.tasks.runners import load_runner
from django_mcp.tasks.store import DatabaseTasks

__all__ = ["KeepsTasks"]


class KeepsTasks(MCPServer):
    """A server with the stores of `TASK_STORE` and `TASK_RUNNER`."""

    def make_task_store(self) -> TaskStore:
        """Return the task store."""
        return super().make_task_store() if settings.TASK_STORE == "memory" else DatabaseTasks()

    def make_task_runner(self) -> TaskRunner:
        """Return the task runner."""
        return load_runner(settings.TASK_RUNNER)

    def forget_task_store(self) -> None:
        """Recreate both on their next use."""
        self._tasks = self._runner = None
