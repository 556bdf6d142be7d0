"""The servers of this process by name, for modules below the class of a site's servers."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from django.conf import settings

if TYPE_CHECKING:
    from django_mcp.server.server import MCPServer

__all__ = ["find_in_site", "find_known", "known_servers", "remember"]

_servers: WeakKeyDictionary[MCPServer, None] = WeakKeyDictionary()


def remember(server: MCPServer) -> None:
    """Make a server known for as long as it is in use."""
    _servers[server] = None


def known_servers() -> list[MCPServer]:
    """Return the servers in order of creation."""
    return list(_servers)


def find_known(name: object) -> MCPServer | None:
    """Return the server of a name, or None.

    If there are several, it is the newest: the others may be about to be collected, after a test.
    """
    return next((each for each in reversed(known_servers()) if each.options.name == name), None)


def find_in_site(name: object) -> MCPServer | None:
    """Return the server of a name, or None, with the site's URLconf loaded if need be.

    Servers may be made there, and neither the workers of a queue nor most commands load it.
    """
    found = find_known(name)
    if found is None and getattr(settings, "ROOT_URLCONF", None):
        # Loads the machinery of databases, which importing a server must not.
        from django.urls import get_resolver

        _ = get_resolver().url_patterns
        found = find_known(name)
    return found
