"""What is wrong now: read for the start page of the admin and for `manage.py mcp_health`, and signals when it begins and ends."""

from __future__ import annotations

from django_mcp.health.alerts import Alert

__all__ = ["Alert"]
