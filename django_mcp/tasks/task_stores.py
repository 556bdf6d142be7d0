"""What a server keeps tasks in, and what has them run, as the settings say."""

from __future__ import annotations

from django_mcp.conf import settings
from django_mcp.server.server import MCPServer
from django_mcp.server.services.task_ports import TaskRunner, TaskStore
from django_mcp.tasks.runners import load_runner
from django_mcp.tasks.store import DatabaseTasks

__all__ = ["KeepsTasks"]


class KeepsTasks(MCPServer):
    """A server whose tasks are where `TASK_STORE` and `TASK_RUNNER` say."""

    def make_task_store(self) -> TaskStore:
        """Return what tasks are kept in."""
        return super().make_task_store() if settings.TASK_STORE == "memory" else DatabaseTasks()

    def make_task_runner(self) -> TaskRunner:
        """Return what has tasks run."""
        return load_runner(settings.TASK_RUNNER)

    def forget_task_store(self) -> None:
        """Make both anew when they are next needed."""
        self._tasks = self._runner = None
