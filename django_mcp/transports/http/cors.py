"""CORS for trusted origins: preflight responses, and the headers of all other responses."""

from __future__ import annotations

import re

from django_mcp.server.exchange.exchange import Reply
from django_mcp.transports.http.replies import RawHeaders

VARY: RawHeaders = ((b"vary", b"Origin"),)

_EXPOSED = (
    b"access-control-expose-headers",
    b"Mcp-Session-Id, WWW-Authenticate, X-Request-ID",
)
_METHODS = b"GET, POST, DELETE, OPTIONS"
_REQUEST_HEADERS = (
    "Authorization, Content-Type, Accept, Mcp-Session-Id, MCP-Protocol-Version, Mcp-Method,"
    " Mcp-Name, Last-Event-ID, X-Request-ID"
)
"""The headers that clients send (2026-07-28 basic/transports); `*` leaves out `Authorization`."""

MAX_AGE_S = 7200
"""How long a browser may cache a preflight response; Chromium's maximum."""

MAX_PARAM_HEADERS = 64
"""How many `Mcp-Param-*` headers one preflight may request."""

_PARAM_HEADER = re.compile(r"mcp-param-[!#$%&'*+.^_`|~0-9a-z-]+", re.IGNORECASE)


def cors_headers(origin: str, *, with_credentials: bool) -> RawHeaders:
    """Return the headers that let a page of the trusted `origin` read the response.

    They name the origin, never `*`, so that caches keep the responses apart.
    """
    headers = ((b"access-control-allow-origin", origin.encode("latin-1")), *VARY, _EXPOSED)
    if with_credentials:
        return (*headers, (b"access-control-allow-credentials", b"true"))
    return headers


def preflight(requested: str, trusted: RawHeaders) -> Reply:
    """Return the response to an OPTIONS request of a trusted origin, without its `cors_headers`.

    `requested` is the value of `Access-Control-Request-Headers`. Tools define the names of the
    `Mcp-Param-*` headers, so all that are requested are allowed.
    """
    if not trusted:
        return Reply(204, None, ((b"allow", _METHODS),))
    names = (name.strip(" \t") for name in requested.split(",", 1000)[:1000])
    params = [name for name in names if _PARAM_HEADER.fullmatch(name)][:MAX_PARAM_HEADERS]
    granted = ", ".join([_REQUEST_HEADERS, *params])
    return Reply(
        204,
        None,
        (
            (b"access-control-allow-methods", _METHODS),
            (b"access-control-allow-headers", granted.encode("ascii")),
            (b"access-control-max-age", b"%d" % MAX_AGE_S),
        ),
    )
