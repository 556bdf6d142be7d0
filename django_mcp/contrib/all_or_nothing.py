"""Registration of several tools at once: all of them, or none if one cannot be registered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from django_mcp.servers import MCPServer

Save: TypeAlias = Callable[[MCPServer], Callable[[], object]]
"""Notes what a module knows of the tools of a server, and returns what restores it."""

_saves: list[Save] = []


def saves_state(save: Save) -> Save:
    """Have `all_or_nothing` restore what a module knows of the tools of a server."""
    _saves.append(save)
    return save


@contextmanager
def all_or_nothing(server: MCPServer) -> Iterator[None]:
    """Remove what is registered on a server inside of the `with`, if that ends with an exception."""
    before = server._find_keys()
    restorers = [save(server) for save in _saves]
    try:
        yield
    except BaseException:
        server._remove(server._find_keys() - before)
        for restore in restorers:
            restore()
        raise
