"""What a client wants to see of a server: the toolsets that the path and the headers of its request name.

They narrow this one request and grant nothing. A name that the client cannot see is ignored, as one that does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django_mcp.protocol.headers import Headers
from django_mcp.server.exchange.visibility import Narrowing

TOOLSETS_HEADER = b"x-mcp-toolsets"
READ_ONLY_HEADER = b"x-mcp-readonly"

TOOLSETS_VARIABLE = "mcp_toolsets"
"""The variable of the URL with the names; handlers do not get it."""

MAX_NAMES_BYTES = 1024
"""Bytes of the names in the path, and of those in the header, with the commas."""

NAMES_PATTERN = rf"[A-Za-z0-9_.,-]{{1,{MAX_NAMES_BYTES}}}"
"""What the path of an endpoint can name; other paths lead nowhere."""

_OFF = frozenset({"", "0", "false", "no", "off"})
"""Values with which a client does not ask for reading only. All others count, since it may rely on that."""


def find_narrowing(headers: Headers, url_kwargs: Mapping[str, Any]) -> Narrowing | None:
    """Return what a request narrows its server to; None: nothing."""
    toolsets = _read_names(url_kwargs.get(TOOLSETS_VARIABLE, ""))
    named = _read_names(headers.get(TOOLSETS_HEADER.decode()) or "")
    if named is not None:
        toolsets = named if toolsets is None else toolsets & named
    read_only = (headers.get(READ_ONLY_HEADER.decode()) or "").lower() not in _OFF
    return Narrowing(toolsets, read_only) if read_only or toolsets is not None else None


def _read_names(text: str) -> frozenset[str] | None:
    """Return the names of a list; None if it has none, as if it had not been sent."""
    return frozenset(filter(None, map(str.strip, text.split(",")))) or None
