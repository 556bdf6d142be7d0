"""The servers of this process by name, for modules below the class of a site's servers."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from django_mcp.server.server import MCPServer

__all__ = ["find_known", "known_servers", "remember"]

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
