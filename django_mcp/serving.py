"""The interface of the installed app that serves a site's servers over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from django.apps import apps

if TYPE_CHECKING:
    from django.urls import URLPattern

    from django_mcp.server.server import MCPServer


@runtime_checkable
class ServingApp(Protocol):
    """`django_mcp`, if it is installed: its `AppConfig` has these methods."""

    def patterns_of(self, server: MCPServer) -> list[URLPattern]:
        """Return the URL patterns of a server: its endpoint and its health."""

    def prepare(self, *, is_http: bool) -> None:
        """Prepare the first response of a process.

        Args:
            is_http: the request came over HTTP.
        """


def find_serving_app() -> ServingApp | None:
    """Return the app's configuration, or None if it is not installed."""
    configs = apps.get_app_configs()
    return next((each for each in configs if isinstance(each, ServingApp)), None)
