"""Limits on the resource URIs that one session, stream or pipe is subscribed to."""

from __future__ import annotations

from collections.abc import Collection

from django_mcp.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, Refusal
from django_mcp.server.exchange.quotas import Limits, Scope

__all__ = [
    "MAX_URIS",
    "MAX_URIS_BYTES",
    "MAX_URI_BYTES",
    "TOO_MANY_URIS",
    "URI_LIMITS",
    "check_uris",
]

MAX_URIS = 1000
MAX_URI_BYTES = 4096
MAX_URIS_BYTES = 256 * 1024
"""Number of URIs, bytes of one URI, and bytes of all of them together. Our own limits."""

URI_LIMITS = Limits(own_count=10_000, own_bytes=2560 * 1024, count=500_000, bytes=128 * 1024 * 1024)
"""URIs of all sessions that are kept together, and of all listening streams of a process. Our own limit."""

TOO_MANY_URIS = {
    Scope.OWN: Refusal(
        code=INVALID_PARAMS,
        message="You are subscribed to as many resources as you may be in all of your sessions and "
        "streams: unsubscribe from one, or close one of these",
    ),
    Scope.ALL: Refusal(
        code=INTERNAL_ERROR,
        message="The server keeps as many subscriptions as it can: try again later",
        status=503,
        headers=((b"retry-after", b"10"),),
    ),
}
"""What a client is told when it cannot be subscribed to one more."""


def check_uris(uris: Collection[str]) -> Refusal | None:
    """Return why a client cannot be subscribed to all of these URIs; None when it can."""
    if len(uris) > MAX_URIS:
        return _refuse(f"At most {MAX_URIS} resources can be subscribed to at a time")
    sizes = [len(uri.encode("utf-8", "surrogatepass")) for uri in uris]
    if sizes and max(sizes) > MAX_URI_BYTES:
        return _refuse(f"A URI can be subscribed to if it has at most {MAX_URI_BYTES} bytes")
    if sum(sizes) > MAX_URIS_BYTES:
        return _refuse(
            f"The URIs subscribed to at a time may have at most {MAX_URIS_BYTES} bytes together"
        )
    return None


def _refuse(message: str) -> Refusal:
    return Refusal(code=INVALID_PARAMS, message=message)
