"""System checks of tasks."""

from __future__ import annotations

from collections.abc import Iterator

from django.core import checks
from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, router
from django.utils.module_loading import import_string

from django_mcp.checks.declared import check
from django_mcp.checks.transactions import find_atomic_tools
from django_mcp.conf import settings
from django_mcp.extensions.tasks.core.shapes import NEVER, support_of
from django_mcp.extensions.tasks.site.models import Task


@check(id="django_mcp.E009")
def check_runner() -> Iterator[CheckMessage]:
    """E009: the task runner cannot be loaded."""
    path = settings.TASK_RUNNER
    try:
        import_string(path)()
    except (ImportError, ImproperlyConfigured, TypeError) as error:
        yield Error(
            f"DJANGO_MCP['TASK_RUNNER'] cannot be loaded: {error}",
            hint="Name a class that takes no arguments, and install what it needs.",
        )


@check(id="django_mcp.W017")
def check_tasks_in_transactions() -> Iterator[CheckMessage]:
    """W017: a tool that runs as a task would make all others that write wait for its transaction.

    SQLite lets one transaction write at a time.
    """
    alias = router.db_for_write(Task)
    if settings.TASK_STORE != "model" or connections[alias].vendor != "sqlite":
        return
    for tool, aliases in find_atomic_tools():
        if support_of(tool) != NEVER and alias in aliases:
            yield checks.Warning(
                f"{tool.source} can run as a task, and holds a transaction on the SQLite database "
                f"{alias!r} meanwhile: other tools that write wait until it ends, and other "
                "processes do not see its progress.",
                hint="Give it atomic=False, and open transaction.atomic() around the parts that "
                "belong together; or make it asynchronous.",
            )
