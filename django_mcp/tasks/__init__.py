"""Tasks on a Django site: stored in its database, run in the web workers or by a queue."""

from __future__ import annotations

from django_mcp.tasks.runners import InProcessRunner, run_task
from django_mcp.tasks.store import prune_tasks

__all__ = ["InProcessRunner", "prune_tasks", "run_task"]
