"""Addresses of this site as clients know them, out of settings or of a host that Django allows.

Nothing else of a request ends up in a URL that we give out: a forged `Host` or `X-Forwarded-Host`
would send clients to somebody else's authorization server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from django.urls import get_script_prefix

from django_mcp.conf import settings

if TYPE_CHECKING:
    from django.http import HttpRequest

__all__ = ["METADATA_PATH", "canonical_uri", "metadata_url_of", "origin_of", "resource_of"]

METADATA_PATH = "/.well-known/oauth-protected-resource"
"""Where the metadata of a protected resource is, its own path appended (RFC 9728 section 3.1)."""

_DEFAULT_PORTS = {"http": 80, "https": 443}


def origin_of(request: HttpRequest) -> str:
    """Return the scheme and host under which clients know this site, without a slash at the end.

    It is `DJANGO_MCP["PUBLIC_URL"]`, else what the request came to.

    Raises:
        DisallowedHost: there is no `PUBLIC_URL`, and `ALLOWED_HOSTS` does not have the host.
    """
    known = settings.PUBLIC_URL
    if known is None:
        known = f"{request.scheme}://{request.get_host()}"
    return canonical_uri(known) or known


def resource_of(request: HttpRequest) -> str:
    """Return the canonical URI of the endpoint that a request came to (RFC 8707, RFC 9728).

    Tokens are for it when they name it exactly. Raises as `origin_of` does.
    """
    return origin_of(request) + request.path.rstrip("/")


def metadata_url_of(request: HttpRequest) -> str:
    """Return where the metadata of that endpoint is. Raises as `origin_of` does.

    Below a script prefix it stays below it, where requests for it reach this site.
    """
    prefix = get_script_prefix().rstrip("/")
    return origin_of(request) + prefix + METADATA_PATH + request.path_info.rstrip("/")


def canonical_uri(uri: str) -> str | None:
    """Return the one form of a resource's URI by which others are compared; None: it is none.

    Scheme and host are in lower case, a default port and a slash at the end are left out. A
    fragment, a user and white space make it no URI of a resource (RFC 8707 section 2).
    """
    if not uri.isascii() or any(char <= " " or char in '#\\"<>\x7f' for char in uri):
        return None
    try:
        parts = urlsplit(uri)
        scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
    except ValueError:
        return None
    if scheme not in _DEFAULT_PORTS or not host or "@" in parts.netloc:
        return None
    host = f"[{host}]" if ":" in host else host
    authority = host if port in (None, _DEFAULT_PORTS[scheme]) else f"{host}:{port}"
    query = f"?{parts.query}" if parts.query else ""
    return f"{scheme}://{authority}{parts.path.rstrip('/')}{query}"
