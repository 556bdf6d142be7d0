"""The views for HTTP+SSE in a URLconf; the ASGI wrapper replaces them with the consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asgiref.sync import markcoroutinefunction
from django.http import HttpRequest, HttpResponse

from django_mcp.protocol.errors import INVALID_REQUEST, Refusal
from django_mcp.protocol.messages import encode_error

if TYPE_CHECKING:
    from django_mcp.server.server import MCPServer

__all__ = ["LegacyView"]


class LegacyView:
    """Report that HTTP+SSE needs ASGI routing, where there is none.

    Attributes:
        server: the server of the endpoint.
        takes_messages: whether it is the URL that clients post to.
    """

    csrf_exempt = True
    login_required = False

    def __init__(self, server: MCPServer, *, takes_messages: bool) -> None:
        self.server = server
        self.takes_messages = takes_messages
        markcoroutinefunction(self)

    async def __call__(self, request: HttpRequest, **url_kwargs: Any) -> HttpResponse:
        """Return status 501."""
        refusal = Refusal(
            code=INVALID_REQUEST, message="HTTP+SSE is served by django_mcp_application only"
        )
        return HttpResponse(
            encode_error(None, refusal), status=501, content_type="application/json"
        )
