"""Find a server of this site by the name in a page, a row or a request."""

from __future__ import annotations

from django.http import Http404

from django_mcp.models import CallRecord
from django_mcp.servers import MCPServer, find_server

KINDS = {
    CallRecord.Method.TOOL.value: ("tools",),
    CallRecord.Method.RESOURCE.value: ("resources", "templates"),
    CallRecord.Method.PROMPT.value: ("prompts",),
}
"""The kinds of entries that a method is for."""


def get_server(name: object) -> MCPServer:
    """Return the server of a name.

    Raises:
        Http404: there is none.
    """
    server = find_server(name)
    if server is None:
        raise Http404
    return server


def find_key(server_name: str, method: str, name: str) -> tuple[str, str] | None:
    """Return the kind and the key of the entry that a recorded call names; None: there is none."""
    server = find_server(server_name)
    if server is None:
        return None
    for kind in KINDS.get(method, ()):
        for key, entry in server.registry.registered(kind).items():
            if entry.name == name:
                return kind, key
    return None
