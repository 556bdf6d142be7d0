"""The servers of this process, found by name in modules that the class of a site's servers builds on."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from django_mcp.server.server import MCPServer

__all__ = ["find_known", "known_servers", "remember"]

_servers: WeakKeyDictionary[MCPServer, None] = WeakKeyDictionary()


def remember(server: MCPServer) -> None:
    """Have a server found for as long as it is in use."""
    _servers[server] = None


def known_servers() -> list[MCPServer]:
    """Return the servers in the order in which they were made."""
    return list(_servers)


def find_known(name: object) -> MCPServer | None:
    """Return the server of a name; None: there is none, or no longer.

    Of several it is the one made last: the others may be about to be collected, after a test.
    """
    return next((each for each in reversed(known_servers()) if each.options.name == name), None)
