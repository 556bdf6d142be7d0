"""What a site without the app has in place of its servers: a system check, and an error with the remedy."""

from __future__ import annotations

from typing import NoReturn

from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured
from django.urls import URLPattern
from django.urls.resolvers import RoutePattern

from django_mcp.serving import ServingApp, find_serving_app

NOT_INSTALLED = "'django_mcp' is not in INSTALLED_APPS, so no MCP server can be served."
REMEDY = "Add 'channels' and 'django_mcp' to INSTALLED_APPS, then run manage.py migrate."


def require_serving_app() -> ServingApp:
    """Return the app's configuration.

    Raises:
        ImproperlyConfigured: the app is not installed.
    """
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
