"""Admin pages, found by Django's admin when it is installed; one module per subject."""

from __future__ import annotations

from django_mcp.admin import keys

__all__ = ["keys"]
