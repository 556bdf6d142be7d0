"""The app of the OAuth part: its checks, its templates, its catalogue."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

__all__ = ["OAuthConfig"]


class OAuthConfig(AppConfig):
    """Configure `django_mcp.contrib.oauth`."""

    name = "django_mcp.contrib.oauth"
    label = "django_mcp_oauth"
    verbose_name = _("OAuth for MCP clients")

    def ready(self) -> None:
        """Put the checks in place."""
        import_module("django_mcp.contrib.oauth.checks")
