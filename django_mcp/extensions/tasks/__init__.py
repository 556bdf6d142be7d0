"""Tasks: calls that outlive their request.

`core` is without Django, `site` stores and runs tasks on a site, `admin` has the page of the admin, `checks`
the system checks, and `testing` what the test client does with tasks. `celery` and `django_tasks` have runners
with a queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_mcp.extensions.tasks.site.runners import InProcessRunner, run_task

__all__ = ["InProcessRunner", "run_task"]


def __getattr__(name: str) -> Any:
    """Return a public name; `core` is imported without Django."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from django_mcp.extensions.tasks.site import runners

    return getattr(runners, name)
