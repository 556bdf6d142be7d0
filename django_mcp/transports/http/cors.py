"""CORS for pages the site trusts: the answer to a preflight, and the headers on every other."""

from __future__ import annotations

import re

from django_mcp.server.exchange.exchange import Reply
from django_mcp.transports.http.replies import RawHeaders

__all__ = ["cors_headers", "preflight"]

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
"""What clients send (2026-07-28 basic/transports); `*` would not cover `Authorization`."""

MAX_AGE_S = 7200
"""How long a browser may rely on a preflight; Chromium takes no more."""

MAX_PARAM_HEADERS = 64
"""How many `Mcp-Param-*` headers one preflight may ask for."""

_PARAM_HEADER = re.compile(r"mcp-param-[!#$%&'*+.^_`|~0-9a-z-]+", re.IGNORECASE)


def cors_headers(origin: str, *, with_credentials: bool) -> RawHeaders:
    """Return what lets a page of `origin`, which is trusted, read the response.

    The origin is named, never `*`, so that a cache between them has to keep responses apart.
    """
    headers = ((b"access-control-allow-origin", origin.encode("latin-1")), *VARY, _EXPOSED)
    if with_credentials:
        return (*headers, (b"access-control-allow-credentials", b"true"))
    return headers


def preflight(asked: str, trusted: RawHeaders) -> Reply:
    """Answer an OPTIONS request of a trusted origin, whose `cors_headers` are added later.

    `asked` is the value of `Access-Control-Request-Headers`. The names of the `Mcp-Param-*` headers are the tools' business, so those asked for are
    granted: a browser page may send them, which says nothing of their values.
    """
    if not trusted:
        return Reply(204, None, ((b"allow", _METHODS),))
    names = (name.strip(" \t") for name in asked.split(",", 1000)[:1000])
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
