"""Public addresses of this site, from the settings or from a host that Django allows.

No URL contains anything else of a request: a forged `Host` or `X-Forwarded-Host` would send clients to
another authorization server.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest
from django.urls import get_script_prefix

from django_mcp.conf import settings
from django_mcp.log import LoggedKinds, logger
from django_mcp.protocol.names import SEGMENT

METADATA_PATH = "/.well-known/oauth-protected-resource"
"""The path of a resource's metadata, before the resource's own path (RFC 9728 section 3.1)."""

MAX_HOST_CHARS = 260
"""Of a name of the DNS with a port. `urlsplit` keeps what it has split."""

logged: Final = LoggedKinds(10)
"""Of origins that were logged."""

_DEFAULT_PORTS = {"http": 80, "https": 443}


def origin_of(request: HttpRequest) -> str:
    """Return the public scheme and host of this site, without a slash at the end.

    They are those of `DJANGO_MCP["PUBLIC_URL"]`, or else of the request.

    Raises:
        DisallowedHost: there is no `PUBLIC_URL`, and `ALLOWED_HOSTS` does not have the host, or no name is so long.
    """
    known = settings.PUBLIC_URL
    if known is None:
        host = request.get_host()
        if len(host) > MAX_HOST_CHARS:
            raise DisallowedHost(
                f"The host has {len(host)} characters, of at most {MAX_HOST_CHARS}"
            )
        known = f"{request.scheme}://{host}"
    return canonical_uri(known) or known


def resource_of(request: HttpRequest) -> str:
    """Return the canonical URI of a request's endpoint (RFC 8707, RFC 9728). Raises as `origin_of` does.

    A token is for the endpoint if it names exactly this URI.
    """
    # Under ASGI, `path` lacks the prefix of `FORCE_SCRIPT_NAME` if the proxy has taken it off.
    return origin_of(request) + get_script_prefix().rstrip("/") + resource_path(request.path_info)


def metadata_url_of(request: HttpRequest) -> str:
    """Return the URL of the metadata of a request's endpoint. Raises as `origin_of` does.

    With a script prefix it is below the prefix, since other requests do not reach this site.
    """
    prefix, origin = get_script_prefix().rstrip("/"), origin_of(request)
    is_given = settings.PUBLIC_URL is not None or origin.startswith("https:")
    forwarded = request.META.get("HTTP_X_FORWARDED_PROTO")
    if not is_given and forwarded == "https" and logged.add(origin):
        logger.warning(
            "Clients that sign in get addresses that begin with %s, though a proxy says that they use https. Set "
            "DJANGO_MCP['PUBLIC_URL'], or SECURE_PROXY_SSL_HEADER if the proxy always sets X-Forwarded-Proto itself.",
            origin,
        )
    return origin + prefix + METADATA_PATH + resource_path(request.path_info)


def resource_path(path: str) -> str:
    """Return the path of the resource that a request's path belongs to, without a slash at the end.

    The two paths of HTTP+SSE are one resource: clients compare it with that of the stream. A toolset may be
    called `messages` as well: the path with its name is a resource of its own.
    """
    path = path.rstrip("/")
    start, slash, last = path.rpartition("/")
    if last != "messages" or f"{start}/".endswith(SEGMENT):
        return path
    before, _, _toolsets = start.rpartition("/")
    is_of_toolsets = f"{before}/".endswith(f"/sse{SEGMENT}")
    return start if is_of_toolsets else f"{start}{slash}sse"


def canonical_uri(uri: str) -> str | None:
    """Return a resource's URI in the form in which URIs are compared; None: it is not valid.

    Scheme and host are in lower case, a default port and a slash at the end are left out. Fragments,
    users and white space are not valid (RFC 8707 section 2).
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
