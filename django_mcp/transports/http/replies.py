"""Replies of the transport in the form of HTTP, above all refusals, and the log of all refused requests."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from django_mcp.log import logger
from django_mcp.protocol.errors import (
    FAULT,
    INVALID_PARAMS,
    INVALID_REQUEST,
    UNSUPPORTED_PROTOCOL_VERSION,
    Refusal,
)
from django_mcp.server.exchange.exchange import Reply, refusal_reply
from django_mcp.server.exchange.quotas import network_of

RawHeader = tuple[bytes, bytes]
RawHeaders = tuple[RawHeader, ...]
"""Headers in ASGI's form: names in lower case, values in latin-1."""

STREAM_HEADERS: RawHeaders = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    # nginx then passes events on without buffering (2026-07-28 basic/transports).
    (b"x-accel-buffering", b"no"),
)

JSON_TYPE = (b"content-type", b"application/json")
HTML_TYPE = (b"content-type", b"text/html; charset=utf-8")
# Caches may keep 405 and 404 unless told otherwise (RFC 9110, 15.1).
_NO_STORE = (b"cache-control", b"no-store")
_EMPTY = (b"content-length", b"0")

ASGIApp: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]
"""Takes the scope, receive and send."""

MAX_LINES = 60
MAX_OWN_LINES = 30
PERIOD_S = 60.0
"""Lines in a period, of all clients and of one address, so that no client fills the log."""

MAX_REASON_CHARS = 300
MAX_PATH_CHARS = 200
MAX_NAME_CHARS = 50
MAX_REVISION_CHARS = 10
"""Of a client's texts in one line."""


def error_reply(status: int, message: str, headers: RawHeaders = ()) -> Reply:
    """Return an error reply to a request whose message was not read: no id, code -32600."""
    return refusal_reply(Refusal(code=INVALID_REQUEST, message=message, headers=headers), status)


def too_large(limit_bytes: int) -> Reply:
    """Return the reply to a body over the limit (RFC 9110, 15.5.14)."""
    return error_reply(413, f"The body may have at most {limit_bytes} bytes")


def internal_error() -> Reply:
    """Return the reply to an internal error: status 500, code -32603, no detail."""
    return refusal_reply(FAULT, 500)


def whole_headers(
    reply: Reply, extra: RawHeaders = (), content_type: RawHeader = JSON_TYPE
) -> list[RawHeader]:
    """Return the headers of a reply that is sent whole; `extra` are those for the request's origin.

    Each reply has a length, so that no server sends an empty body in chunks; 204 must not have one
    (RFC 9110, 8.6).
    """
    body = reply.body
    if body is not None:
        length = (b"content-length", b"%d" % len(body))
        return [content_type, length, _NO_STORE, *extra, *reply.headers]
    if reply.status == 204:
        return [*extra, *reply.headers]
    return [_EMPTY, *extra, *reply.headers]


async def not_found(_scope: Any, _receive: Any, send: Any) -> None:
    """Answer that nothing is there."""
    await send({"type": "http.response.start", "status": 404, "headers": [_EMPTY]})
    await send({"type": "http.response.body", "body": b""})


async def reject_websocket(_scope: Any, receive: Any, send: Any) -> None:
    """Reject a WebSocket before it opens; the client gets HTTP 403."""
    await receive()
    await send({"type": "websocket.close", "code": 1008})


class RefusalLog:
    """Logs refusals up to a limit, and how many were left out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Start a new period."""
        self._until_s = self._clock() + PERIOD_S
        self._lines: Counter[str] = Counter()
        self._left_out = 0

    def write(self, reply: Reply, *, method: str, path: str, address: str | None) -> None:
        """Log a reply if it refuses the request.

        Neither headers nor the query are logged, which may hold credentials.
        """
        # An internal error has been logged with its traceback.
        if reply.status < 400 or reply.status == 500 or reply.is_dispensable:
            return
        # Clients without a session regularly find out by a 405 that they get no stream. What made the
        # server unavailable has been logged where it was noticed.
        is_usual = reply.status == 405 or reply.status > 500
        level = logging.INFO if is_usual else logging.WARNING
        network = network_of(address or "")
        if not (logger.isEnabledFor(level) and self._has_room(network)):
            return
        reason = ". ".join(filter(None, (_find_reason(reply.refusal), reply.note)))
        client = _inline(address or "an unknown address", MAX_NAME_CHARS)
        logger.log(
            level,
            "Refused %s %s from %s with %d: %s",
            _inline(method, MAX_NAME_CHARS),
            _inline(path, MAX_PATH_CHARS),
            client,
            reply.status,
            _inline(reason, MAX_REASON_CHARS),
        )
        if self._lines.total() == MAX_LINES:
            logger.warning("More refused requests are not logged for up to %d s", PERIOD_S)
        elif self._lines[network] == MAX_OWN_LINES:
            text = "More refused requests from %s are not logged for up to %d s"
            logger.warning(text, client, PERIOD_S)

    def _has_room(self, network: str) -> bool:
        if self._clock() >= self._until_s:
            left_out = self._left_out
            self.reset()
            if left_out:
                logger.warning("%d more refused requests were not logged", left_out)
        if self._lines.total() >= MAX_LINES or self._lines[network] >= MAX_OWN_LINES:
            self._left_out += 1
            return False
        self._lines[network] += 1
        return True


refusals = RefusalLog()
"""The log of this process."""


def _find_reason(refusal: Refusal | None) -> str:
    if refusal is None:
        return "no reason was given"
    message = str(refusal.message)
    if refusal.code == INVALID_PARAMS:
        # What follows a colon may quote arguments, which may be secret.
        return message.partition(":")[0]
    if refusal.code == UNSUPPORTED_PROTOCOL_VERSION and isinstance(refusal.data, dict):
        # It comes from a header, which is a date or a mistake.
        return f"{message}: {_inline(str(refusal.data.get('requested')), MAX_REVISION_CHARS)}"
    return message


def _inline(text: str, limit: int) -> str:
    """Return a text on one line, without control characters, cut to a length."""
    shown = text if len(text) <= limit else f"{text[:limit]}…"
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in shown)
