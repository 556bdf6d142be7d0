"""How a reply looks in HTTP: refusals made at the door, and the headers of what goes out."""

from __future__ import annotations

import logging

from django_mcp.protocol.errors import FAULT, INVALID_REQUEST, Refusal
from django_mcp.protocol.messages import encode_error
from django_mcp.server.exchange.exchange import Reply

__all__ = ["STREAM_HEADERS", "RawHeaders", "fault", "json_headers", "noted", "refuse"]

logger = logging.getLogger("django_mcp")

RawHeaders = tuple[tuple[bytes, bytes], ...]
"""Headers as ASGI has them: names in lower case, values latin-1."""

STREAM_HEADERS: RawHeaders = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    # Tells nginx to pass events on as they come (2026-07-28 basic/transports).
    (b"x-accel-buffering", b"no"),
)

_JSON_TYPE = (b"content-type", b"application/json")
# 405 and 404 may be kept by caches unless they are told not to (RFC 9110, 15.1).
_NO_STORE = (b"cache-control", b"no-store")
_EMPTY = (b"content-length", b"0")


def refuse(status: int, message: str, headers: RawHeaders = ()) -> Reply:
    """Return the refusal of a request whose message was not read: an error without id, -32600."""
    refusal = Refusal(code=INVALID_REQUEST, message=message)
    return Reply(status, encode_error(None, refusal), headers)


def noted(reply: Reply) -> Reply:
    """Return a reply made at the door, and log it if it is a refusal: no error, but worth a line."""
    if reply.status >= 400:
        # The body is JSON in bytes, so that nothing a client wrote can forge a line.
        logger.info("Refused a request with %d: %r", reply.status, reply.body)
    return reply


def fault() -> Reply:
    """Return what is told of a failure of ours: status 500, error -32603, no detail."""
    return Reply(500, encode_error(None, FAULT))


def json_headers(reply: Reply, extra: RawHeaders = ()) -> list[tuple[bytes, bytes]]:
    """Return the headers of a reply that is sent whole; `extra` are those of the request's origin.

    Each has a length, so that no server has to cut an empty body into chunks; 204 must not
    (RFC 9110, 8.6).
    """
    body = reply.body
    if body is not None:
        length = (b"content-length", b"%d" % len(body))
        return [_JSON_TYPE, length, _NO_STORE, *extra, *reply.headers]
    if reply.status == 204:
        return [*extra, *reply.headers]
    return [_EMPTY, *extra, *reply.headers]
