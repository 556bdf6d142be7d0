"""Tools, resources and completion from the models of a site."""

from __future__ import annotations

from django_mcp.contrib.models import checks  # noqa: F401  (registers them)
from django_mcp.contrib.models.notifying import notify_changed
from django_mcp.contrib.models.tools import ModelTools

__all__ = ["ModelTools", "notify_changed"]
