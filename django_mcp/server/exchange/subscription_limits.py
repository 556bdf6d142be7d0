"""Limits on the resource URIs that one session, stream or pipe is subscribed to."""

from __future__ import annotations

from collections.abc import Collection

from django_mcp.protocol.errors import INVALID_PARAMS, Refusal

__all__ = ["MAX_URIS", "MAX_URIS_BYTES", "MAX_URI_BYTES", "check_uris"]

MAX_URIS = 1000
MAX_URI_BYTES = 4096
MAX_URIS_BYTES = 256 * 1024
"""Number of URIs, bytes of one URI, and bytes of all of them together. Our own limits."""


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
