"""The app, which loads each app's `mcp` module and registers the checks when Django starts."""

from __future__ import annotations

import re
import sys
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import module_has_submodule
from django.utils.translation import gettext_lazy as _

from django_mcp.extension_packages import load_parts
from django_mcp.log import logger

if TYPE_CHECKING:
    from django.urls import URLPattern

    from django_mcp.server.server import BaseServer


class DjangoMCPConfig(AppConfig):
    """Configure `django_mcp`."""

    name = "django_mcp"
    label = "django_mcp"
    verbose_name = _("Model Context Protocol")
    default_auto_field = "django.db.models.BigAutoField"

    def __init__(self, app_name: str, app_module: Any) -> None:
        super().__init__(app_name, app_module)
        if sys.argv[1:2] == ["mcp_stdio"] and not {"-h", "--help"} & {*sys.argv}:
            # The output of other apps while they are loaded would reach the client.
            from django_mcp.transports.stdio import pipes

            pipes.take_pipes()
            pipes.end_on_signals()

    def ready(self) -> None:
        """Import each app's `mcp` module, so that its tools are registered."""
        # Models are loaded now. Most of these are imported for what they register.
        from django_mcp import checks  # noqa: F401
        from django_mcp.endpoints import disabled_entries  # noqa: F401
        from django_mcp.execution import workers  # noqa: F401  (the time of the process's start)
        from django_mcp.push.changed_access import connect
        from django_mcp.sessions.site import closing  # noqa: F401

        connect()
        discover()
        if settings.DEBUG:
            for part in load_parts("site.watching"):
                part.watch()

    def patterns_of(self, server: BaseServer) -> list[URLPattern]:
        """See `ServingApp.patterns_of`."""
        from django_mcp.endpoints.urlconf import patterns_of

        return patterns_of(server)

    def prepare(self, *, is_http: bool) -> None:
        """See `ServingApp.prepare`."""
        from django_mcp.endpoints.disabled_entries import watch
        from django_mcp.endpoints.mounts import announce
        from django_mcp.registry.plain_types import make_conversions

        # First: without it, entries that are disabled in the admin could be used.
        watch()
        if is_http:
            announce()
        if settings.DEBUG and warnings.showwarning.__module__.startswith("twisted."):
            # Daphne has warnings discarded, and with them that of a forgotten await.
            warnings.showwarning = lambda *it: logger.warning(warnings.formatwarning(*it[:4]))
        make_conversions()


def discover() -> None:
    """Import the module named `AUTODISCOVER_MODULE` of every installed app that has one.

    If something in it cannot be registered, this raises `ImproperlyConfigured` with where and why.
    """
    from django_mcp.conf import read_on_import
    from django_mcp.registry.problems import RegistrationError

    module = read_on_import("AUTODISCOVER_MODULE")
    if module is None:
        return
    for config in apps.get_app_configs():
        # A missing module is no error; one that cannot be imported is.
        if not module_has_submodule(config.module, module):
            continue
        name = f"{config.name}.{module}"
        try:
            import_module(name)
        except RegistrationError as error:
            raise ImproperlyConfigured(f"{name} cannot be registered: {error}") from None
        except ImportError as error:
            remedy = _find_remedy(error)
            if remedy is not None:
                error.add_note(remedy)
            raise


def _find_remedy(error: ImportError) -> str | None:
    """Return where a name or module is that was imported from the wrong place in this package."""
    import pkgutil

    import django_mcp
    from django_mcp.registry.problems import find_near

    module = error.name or ""
    if module != "django_mcp" and not module.startswith("django_mcp."):
        return None
    name = re.search(r"cannot import name '(\w+)'", str(error))
    if name is not None:
        # The module was found.
        offers = getattr(import_module(module), "__all__", ())
        near = find_near(name[1], offers)
        if near:
            return f"Did you mean from {module} import {near[0]}?"
        return f"{module} offers {', '.join(offers)}." if offers else None
    parent, _, last = module.rpartition(".")
    folders = getattr(import_module(parent), "__path__", ())
    near = find_near(last, [found.name for found in pkgutil.iter_modules(folders)])
    if near and parent == "django_mcp.contrib":
        return f"Did you mean {parent}.{near[0]}?"
    name_near = find_near(last, django_mcp.__all__)
    offered = name_near[0] if name_near else "tool"
    return (
        f"Import what django_mcp offers from the package itself: from django_mcp import {offered}"
    )
