"""Reject WebSocket upgrades, which MCP does not use."""

from __future__ import annotations

from typing import Any

__all__ = ["refuse_websocket"]


async def refuse_websocket(_scope: Any, receive: Any, send: Any) -> None:
    """Reject a WebSocket before it opens; the client gets HTTP 403."""
    await receive()
    await send({"type": "websocket.close", "code": 1008})
