"""The app of the OAuth part: its model, checks, templates and translations."""

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
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Put the checks in place, and the hasher of generated client secrets."""
        models = import_module("oauth2_provider.models")
        secrets = import_module("django_mcp.contrib.oauth.client_secrets")
        secrets.connect(models.get_application_model())
        import_module("django_mcp.contrib.oauth.checks")
