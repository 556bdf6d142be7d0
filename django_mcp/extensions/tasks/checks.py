"""System checks of tasks."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import unwrap
from typing import get_type_hints

from django.core import checks
from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, router
from django.http import HttpRequest
from django.utils.module_loading import import_string

from django_mcp.checks.declared import check
from django_mcp.checks.transactions import find_atomic_tools
from django_mcp.conf import settings
from django_mcp.extensions.tasks.core.shapes import NEVER, support_of
from django_mcp.extensions.tasks.site.models import Task
from django_mcp.registry.entries import ToolEntry
from django_mcp.registry.problems import innermost
from django_mcp.servers import all_servers


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


@check(id="django_mcp.E018")
def check_store() -> Iterator[CheckMessage]:
    """E018: tasks are in the memory of this process, and run in another, which does not find them."""
    try:
        runner = import_string(settings.TASK_RUNNER)()
    except Exception:  # noqa: BLE001 - E009 reports it
        return
    if settings.TASK_STORE == "memory" and not getattr(runner, "is_here", True):
        yield Error(
            f"DJANGO_MCP['TASK_STORE'] is 'memory', and {settings.TASK_RUNNER} runs tasks in other processes, which "
            "do not find them there.",
            hint="Set TASK_STORE to 'model', which is the default.",
        )


@check(id="django_mcp.W049")
def check_requests_of_tasks() -> Iterator[CheckMessage]:
    """W049: a tool that runs as a task needs a request, which has ended by then."""
    for server in all_servers():
        for tool in server.registry.tools.values():
            name = _find_request(tool) if support_of(tool) not in (NEVER, "auto") else None
            if name is not None:
                yield checks.Warning(
                    f"{tool.source} can run as a task, and its parameter `{name}` needs the request, which is over "
                    "then, so that such calls fail.",
                    hint=f"Write `{name}: HttpRequest | None`, or pass what you need of it as an argument.",
                )


def _find_request(tool: ToolEntry) -> str | None:
    """Return the parameter of a tool that has to be a request; None if there is none."""
    try:
        annotations = get_type_hints(unwrap(innermost(tool.handler.origin)))
    except Exception:  # noqa: BLE001 - annotations are code of the site
        return None
    for name, annotation in annotations.items():
        is_class = isinstance(annotation, type) and name != "return"
        if is_class and issubclass(annotation, HttpRequest):
            return name
    return None


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
