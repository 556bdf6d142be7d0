"""The servers of this process by name, for modules below the class of a site's servers."""

from __future__ import annotations

from collections.abc import Collection
from weakref import WeakKeyDictionary

from django.conf import settings

from django_mcp.server.server import BaseServer

_servers: WeakKeyDictionary[BaseServer, None] = WeakKeyDictionary()


def remember(server: BaseServer) -> None:
    """Register a server of the site, until it is garbage."""
    _servers[server] = None


def known_servers() -> list[BaseServer]:
    """Return the servers in order of creation."""
    return list(_servers)


def find_server(name: object, *, imports_urlconf: bool = False) -> BaseServer | None:
    """Return the server of a name, or None; the newest if tests have left several.

    `imports_urlconf`: import the site's URLconf if there is no such server yet, since it may create it.
    """
    found = next((each for each in reversed(known_servers()) if each.name == name), None)
    if found is None and imports_urlconf:
        _import_urlconf()
        return find_server(name)
    return found


def find_unknown_tools(names: Collection[str]) -> list[str]:
    """Return those names that are no tool of any server of the site."""

    def unknown() -> list[str]:
        known = {name for each in known_servers() for name in each.core.registry.tools}
        return [name for name in names if name not in known]

    if unknown():
        _import_urlconf()
    return unknown()


def _import_urlconf() -> None:
    if getattr(settings, "ROOT_URLCONF", None):
        # Loads `django.db`, which importing a server must not.
        from django.urls import get_resolver

        _ = get_resolver().url_patterns
