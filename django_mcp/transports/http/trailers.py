"""Trailers: header lines after a chunked body, which some servers add to those of the head.

A proxy in front of the site checks the head, so nothing in a trailer may count as a credential.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from django_mcp.server.exchange.exchange import Reply
from django_mcp.transports.http.replies import error_reply

TRANSFER_ENCODING = b"transfer-encoding"

_HARMLESS = frozenset(
    (
        b"accept",
        b"accept-encoding",
        b"accept-language",
        b"connection",
        b"content-type",
        b"expect",
        b"mcp-method",
        b"mcp-name",
        b"mcp-protocol-version",
        b"te",
        b"trailer",
        TRANSFER_ENCODING,
        b"user-agent",
    )
)
"""Headers that give no rights, wherever they are."""

_AMBIGUOUS = error_reply(
    411,
    "Send Content-Length, or Transfer-Encoding after all other headers: this server cannot tell the "
    "headers after it from trailers",
    ((b"connection", b"close"),),
)


def keeps_apart(send: Any) -> bool:
    """Return whether the server that made `send` is known not to mix trailers and headers.

    That is uvicorn with h11, and Daphne. uvicorn with httptools mixes them. Behind a middleware the server
    is not known.
    """
    if type(send) is partial and send.args:
        return callable(getattr(send.args[0], "registerProducer", None))
    kind = type(getattr(send, "__self__", None))
    return kind.__module__ == "uvicorn.protocols.http.h11_impl"


def refuse_trailers(lines: Sequence[tuple[bytes, bytes]]) -> Reply | None:
    """Return the refusal of a chunked request whose trailers may be among its header lines, or None.

    Trailers come after all lines of the head, which has the first `Transfer-Encoding`. So the lines before it
    are not trailers.
    """
    names = [name.lower() for name, _value in lines]
    behind = names[names.index(TRANSFER_ENCODING) :]
    return None if _HARMLESS.issuperset(behind) else _AMBIGUOUS
