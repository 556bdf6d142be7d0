"""The installed app, which serves a site's servers, and what a site without it has in their place."""

from __future__ import annotations

from typing import NoReturn, Protocol, runtime_checkable

from django.apps import apps
from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured
from django.urls import URLPattern
from django.urls.resolvers import RoutePattern

from django_mcp.server.server import BaseServer

NOT_INSTALLED = "'django_mcp' is not in INSTALLED_APPS, so no MCP server can be served."
REMEDY = "Add 'django_mcp' to INSTALLED_APPS, then run manage.py migrate."


@runtime_checkable
class ServingApp(Protocol):
    """`django_mcp`, if it is installed: its `AppConfig` has these methods."""

    def patterns_of(self, server: BaseServer) -> list[URLPattern]:
        """Return the URL patterns of a server: its endpoint and its health."""

    def prepare(self, *, is_http: bool) -> None:
        """Prepare the first response of a process, to a request over HTTP or not."""


def find_serving_app() -> ServingApp | None:
    """Return the app's configuration, or None if it is not installed."""
    configs = apps.get_app_configs()
    return next((config for config in configs if isinstance(config, ServingApp)), None)


def require_serving_app() -> ServingApp:
    """Return the app's configuration; raise ImproperlyConfigured if it is not installed."""
    app = find_serving_app()
    if app is None:
        raise ImproperlyConfigured(f"{NOT_INSTALLED} {REMEDY}")
    return app


class UninstalledPattern(URLPattern):
    """The URL of a server on a site without the app: `manage.py check` reports it, and it raises an error.

    The app's own checks are not registered there, but Django asks each URL pattern for its problems.
    """

    def __init__(self) -> None:
        super().__init__(RoutePattern("mcp", is_endpoint=True), _refuse)

    def check(self) -> list[CheckMessage]:
        """Return E013: the app is not installed."""
        return [Error(NOT_INSTALLED, hint=REMEDY, id="django_mcp.E013")]


def _refuse(_request: object, **_captured: object) -> NoReturn:
    require_serving_app()
    raise AssertionError("the app is installed now")
