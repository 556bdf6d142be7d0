"""Chunked bodies under WSGI, which Django takes for empty ones since they have no `Content-Length`."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest

from django_mcp.server.exchange.exchange import Reply
from django_mcp.server.options import Options
from django_mcp.transports.http.replies import error_reply

READ_BYTES = 64 * 1024

_NEEDS_LENGTH = error_reply(411, "Send Content-Length: this server does not read chunked bodies")
_UNREADABLE = error_reply(400, "The body could not be read")


def is_chunked_wsgi(request: HttpRequest) -> bool:
    """Return whether a request is chunked and came over WSGI."""
    return "HTTP_TRANSFER_ENCODING" in request.META and not isinstance(request, ASGIRequest)


def read_chunked(request: HttpRequest, options: Options) -> bytes | Reply:
    """Return the body, or an error reply.

    At most one piece more than `MAX_BODY_BYTES` is read, within `BODY_TIMEOUT_S` where the server gives its
    socket away, as gunicorn does.
    """
    environ = request.META
    if not environ.get("wsgi.input_terminated"):
        return _NEEDS_LENGTH
    is_late = threading.Event()
    timer = threading.Timer(options.body_timeout_s, _stop_reading, (environ, is_late))
    timer.daemon = True
    timer.start()
    body = bytearray()
    try:
        while len(body) <= options.max_body_bytes:
            part: bytes = environ["wsgi.input"].read(READ_BYTES)
            if not part:
                break
            body += part
    except Exception:  # noqa: BLE001 - each server has errors of its own for malformed chunks
        if not is_late.is_set():
            return _UNREADABLE
    finally:
        timer.cancel()
    if is_late.is_set():
        return error_reply(408, f"The body was not complete after {options.body_timeout_s:g} s")
    # A body over the limit is refused by what reads it next.
    return bytes(body)


def _stop_reading(environ: dict[str, Any], is_late: threading.Event) -> None:
    """Let the read that waits for the client end as if the client had closed the connection."""
    sock = environ.get("gunicorn.socket")
    if isinstance(sock, socket.socket):
        is_late.set()
        with suppress(OSError):
            # Not the method of a TLS socket, which would end its encryption as well.
            socket.socket.shutdown(sock, socket.SHUT_RD)
