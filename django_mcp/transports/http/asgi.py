"""ASGI applications that serve nothing: for paths where nothing is, and for WebSockets, which MCP does not use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

ASGIApp: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]
"""Takes the scope, receive and send."""

_NO_CONTENT = [(b"content-length", b"0")]


async def not_found(_scope: Any, _receive: Any, send: Any) -> None:
    """Answer that nothing is there."""
    await send({"type": "http.response.start", "status": 404, "headers": _NO_CONTENT})
    await send({"type": "http.response.body", "body": b""})


async def reject_websocket(_scope: Any, receive: Any, send: Any) -> None:
    """Reject a WebSocket before it opens; the client gets HTTP 403."""
    await receive()
    await send({"type": "websocket.close", "code": 1008})
