"""Find a server of this site by the name in a page, a row or a request."""

from __future__ import annotations

from django.http import Http404

from django_mcp.servers import MCPServer, find_server

__all__ = ["get_server"]


def get_server(name: object) -> MCPServer:
    """Return the server of a name.

    Raises:
        Http404: there is none.
    """
    server = find_server(name)
    if server is None:
        raise Http404
    return server
