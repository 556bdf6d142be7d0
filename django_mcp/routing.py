"""Routes for sites that mount the servers in a Channels `URLRouter` themselves.

For example::

    URLRouter([*mcp_routes(), *mcp_routes(staff_server, "staff/"), re_path("", django_application)])

The URLconf then has to have the servers at the same paths, for `reverse()` and the checks.
`django_mcp_application` needs none of this: it reads the URLconf.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from django.urls import re_path

from django_mcp.endpoints.browser_page import render_page
from django_mcp.endpoints.urlconf import serve_health
from django_mcp.protocol.names import SEGMENT
from django_mcp.servers import MCPServer, choose_server
from django_mcp.transports.http.narrowing import NAMES_PATTERN, TOOLSETS_VARIABLE
from django_mcp.transports.http.view import MCPView


def mcp_routes(server: MCPServer | None = None, prefix: str = "") -> list[Any]:
    """Return the routes of one server: its endpoint and its health.

    Args:
        server: by default the default server.
        prefix: the part before `mcp` in the path, such as `"staff/"`.
    """
    start = re.escape(prefix)
    # Channels routes to ASGI applications as Django routes to views.
    health: Any = serve_health
    served = choose_server(server)
    endpoint: Any = MCPView(served, make_page=partial(render_page, served)).serve
    names = f"(?P<{TOOLSETS_VARIABLE}>{NAMES_PATTERN})"
    return [
        re_path(f"^{start}mcp/?$", endpoint),
        re_path(f"^{start}mcp{SEGMENT}{names}/?$", endpoint),
        re_path(f"^{start}mcp/health/?$", health),
    ]
