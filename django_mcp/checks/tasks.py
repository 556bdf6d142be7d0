"""System check of the task runner."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured

from django_mcp.conf import settings
from django_mcp.tasks.runners import load_runner

__all__: list[str] = []


@register("django_mcp")
def check_runner(**_kwargs: Any) -> list[CheckMessage]:
    """E009: the task runner cannot be loaded."""
    try:
        path = settings.TASK_RUNNER
    except ImproperlyConfigured:
        # Another check reports a value of a wrong type.
        return []
    try:
        load_runner(path)
    except (ImportError, ImproperlyConfigured, TypeError) as error:
        return [
            Error(
                f"DJANGO_MCP['TASK_RUNNER'] cannot be loaded: {error}",
                hint="Name a class that takes no arguments, and install what it needs.",
                id="django_mcp.E009",
            )
        ]
    return []
