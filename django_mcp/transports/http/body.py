"""Read a request's body within a size limit and a timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from django_mcp.server.exchange.exchange import Reply
from django_mcp.server.exchange.timers import TaskTimers
from django_mcp.transports.http.replies import refuse

__all__ = ["Receive", "read_body", "too_large"]


Receive: TypeAlias = Callable[[], Awaitable[Any]]
"""The ASGI callable that gives the next message from the client."""


async def read_body(
    receive: Receive, limit_bytes: int, timeout_s: float, timers: TaskTimers
) -> bytes | Reply | None:
    """Return the whole body, or an error reply, or None if the client has disconnected.

    At most `limit_bytes` and one message are held in memory. A larger body is rejected as soon as
    the limit is passed (413), and an incomplete one after `timeout_s` (408).
    """
    deadline = timers.limit(timeout_s)
    try:
        message = await receive()
        # Nearly every body is one message.
        if message["type"] == "http.request" and not message.get("more_body"):
            body: bytes = message.get("body") or b""
            return body if len(body) <= limit_bytes else too_large(limit_bytes)
        return await _read_parts(receive, message, limit_bytes)
    except asyncio.CancelledError:
        if not deadline.is_ours():
            raise
        # The rest may still come, so the connection cannot be used again (RFC 9110, 15.5.9).
        return refuse(
            408, f"The body was not complete after {timeout_s:g} s", ((b"connection", b"close"),)
        )
    finally:
        deadline.cancel()


async def _read_parts(receive: Receive, message: Any, limit_bytes: int) -> bytes | Reply | None:
    body = bytearray()
    while message["type"] == "http.request":
        body += message.get("body") or b""
        if len(body) > limit_bytes:
            return too_large(limit_bytes)
        if not message.get("more_body"):
            return bytes(body)
        message = await receive()
    # `http.disconnect`, or a message that may not come here, which ends the request as well.
    return None


def too_large(limit_bytes: int) -> Reply:
    """Return the reply to a body over the limit (RFC 9110, 15.5.14)."""
    return refuse(413, f"The body may have at most {limit_bytes} bytes")
