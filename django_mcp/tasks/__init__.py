"""Tasks on a Django site: stored in its database, run in the web workers or by a queue."""

from __future__ import annotations

from django_mcp.tasks.runners import InProcessRunner, run_task

__all__ = ["InProcessRunner", "run_task"]
