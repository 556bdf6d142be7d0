"""Push on a Django site: the hub that its servers share, the ways between processes, upkeep, signals."""

from __future__ import annotations

from django_mcp.server.clients import SessionHandle, StreamHandle

__all__ = ["SessionHandle", "StreamHandle"]
