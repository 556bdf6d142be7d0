"""HTTP forms of a reply: errors that precede the server, response headers, and ASGI applications that refuse."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from django_mcp.protocol.errors import FAULT, INVALID_REQUEST, Refusal
from django_mcp.server.exchange.exchange import Reply, refuse

RawHeaders = tuple[tuple[bytes, bytes], ...]
"""Headers in ASGI's form: names in lower case, values in latin-1."""

STREAM_HEADERS: RawHeaders = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    # nginx then passes events on without buffering (2026-07-28 basic/transports).
    (b"x-accel-buffering", b"no"),
)

_JSON_TYPE = (b"content-type", b"application/json")
# Caches may keep 405 and 404 unless told otherwise (RFC 9110, 15.1).
_NO_STORE = (b"cache-control", b"no-store")
_EMPTY = (b"content-length", b"0")


def error_reply(status: int, message: str, headers: RawHeaders = ()) -> Reply:
    """Return an error reply to a request whose message was not read: no id, code -32600."""
    return refuse(Refusal(code=INVALID_REQUEST, message=message, headers=headers), status)


def too_large(limit_bytes: int) -> Reply:
    """Return the reply to a body over the limit (RFC 9110, 15.5.14)."""
    return error_reply(413, f"The body may have at most {limit_bytes} bytes")


def internal_error() -> Reply:
    """Return the reply to an internal error: status 500, code -32603, no detail."""
    return refuse(FAULT, 500)


def json_headers(reply: Reply, extra: RawHeaders = ()) -> list[tuple[bytes, bytes]]:
    """Return the headers of a reply that is sent whole; `extra` are those for the request's origin.

    Each reply has a length, so that no server sends an empty body in chunks; 204 must not have one
    (RFC 9110, 8.6).
    """
    body = reply.body
    if body is not None:
        length = (b"content-length", b"%d" % len(body))
        return [_JSON_TYPE, length, _NO_STORE, *extra, *reply.headers]
    if reply.status == 204:
        return [*extra, *reply.headers]
    return [_EMPTY, *extra, *reply.headers]


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
