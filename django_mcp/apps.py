"""The app: when Django starts, find what its apps offer and put the checks in place."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from django.apps import AppConfig, apps
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import module_has_submodule
from django.utils.translation import gettext_lazy as _

__all__ = ["DjangoMCPConfig"]


class DjangoMCPConfig(AppConfig):
    """Configure `django_mcp`."""

    name = "django_mcp"
    label = "django_mcp"
    verbose_name = _("Model Context Protocol")
    default_auto_field = "django.db.models.BigAutoField"

    def __init__(self, app_name: str, app_module: Any) -> None:
        super().__init__(app_name, app_module)
        if sys.argv[1:2] == ["mcp_stdio"] and not {"-h", "--help"} & {*sys.argv}:
            # What other apps print while they are loaded would reach the client.
            pipes = import_module("django_mcp.transports.stdio.pipes")
            pipes.take_pipes()
            pipes.end_on_signals()

    def ready(self) -> None:
        """Import each app's `mcp` module, so that its tools are registered."""
        import_module("django_mcp.checks.site")
        import_module("django_mcp.checks.entries")
        import_module("django_mcp.checks.tokens")
        import_module("django_mcp.checks.versions")
        import_module("django_mcp.checks.workers")
        import_module("django_mcp.checks.sessions")
        import_module("django_mcp.checks.tasks")
        import_module("django_mcp.sessions.closing")
        # It takes the time.
        import_module("django_mcp.workers")
        import_module("django_mcp.push.permission_signals").connect()
        import_module("django_mcp.push.keys").connect()
        import_module("django_mcp.endpoints.disabled_entries")
        discover()
        import_module("django_mcp.endpoints.well_known").connect()


def discover() -> None:
    """Import the module named `AUTODISCOVER_MODULE` of every installed app that has one.

    Raises:
        ImproperlyConfigured: something in it cannot be registered; the text says where and why.
        Exception: whatever else importing it raises, with its traceback.
    """
    from django_mcp.conf import settings
    from django_mcp.registry.problems import RegistrationError

    module = settings.AUTODISCOVER_MODULE
    if module is None:
        return
    for config in apps.get_app_configs():
        # A module that is not there is no error; one that cannot be imported is.
        if not module_has_submodule(config.module, module):
            continue
        name = f"{config.name}.{module}"
        try:
            import_module(name)
        except RegistrationError as error:
            raise ImproperlyConfigured(f"{name} cannot be registered: {error}") from error
