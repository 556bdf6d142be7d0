"""The hosts and origins that a site trusts, by its settings, and the CORS headers for these origins."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from django.conf import settings as site_settings
from django.http.request import split_domain_port, validate_host

from django_mcp.conf import settings
from django_mcp.protocol.headers import Headers
from django_mcp.server.exchange.exchange import Reply
from django_mcp.transports.http.replies import RawHeaders

SETTINGS_READ = frozenset(
    {"ALLOWED_HOSTS", "DEBUG", "DJANGO_MCP", "SECURE_PROXY_SSL_HEADER", "USE_X_FORWARDED_HOST"}
)
"""The names of the settings that `read_rules` reads."""

ANY_ORIGIN = "*"
"""As a listed origin: pages of all sites may call, without cookies."""

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s,]+", re.IGNORECASE)
_WEB_ORIGIN = re.compile(r"(https?)://([a-z0-9._-]+|\[[a-f0-9:.]+\])(?::([0-9]{1,5}))?")
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_DEBUG_HOSTS = (".localhost", "127.0.0.1", "[::1]")
"""The hosts that Django allows if `DEBUG` is on and `ALLOWED_HOSTS` is empty."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteRules:
    """The settings of a site that restrict hosts and origins.

    Attributes:
        hosts: `ALLOWED_HOSTS`, or Django's defaults for development.
        origins: those listed, as a browser writes them.
        allows_credentials: pages of listed origins may send cookies.
        host_header: the header in which a proxy sends the original host (`USE_X_FORWARDED_HOST`).
        scheme_header, secure_value: the header in which a proxy sends the scheme, and its value for
            https (`SECURE_PROXY_SSL_HEADER`). Both headers are named in lower case.
    """

    hosts: Collection[str]
    origins: frozenset[str] = frozenset()
    allows_credentials: bool = False
    host_header: str | None = None
    scheme_header: str | None = None
    secure_value: str = ""

    def is_host(self, host: str) -> bool:
        """Return whether a well-formed `Host`, in lower case and without a port, is this site's."""
        return validate_host(host, self.hosts)

    def is_origin(self, origin: str, host: str, scheme: str) -> bool:
        """Return whether a page of `origin` may call the site at `host` by `scheme`.

        `null` never may: it is the origin of all sandboxed pages and local files.
        """
        if origin in self.origins and origin != ANY_ORIGIN:
            return True
        if ANY_ORIGIN in self.origins and _ORIGIN.fullmatch(origin):
            return True
        match = _WEB_ORIGIN.fullmatch(origin.lower())
        if match is None:
            return False
        own_scheme, domain, port = match.groups()
        asked_domain, asked_port = split_domain_port(host)
        if is_loopback(domain):
            return is_loopback(asked_domain)
        default = _DEFAULT_PORTS[own_scheme]
        # A page loaded over TLS is trusted at least as much as one that was not, and the server may
        # not see that a proxy ends TLS. The reverse would let a forged page in.
        return (
            domain == asked_domain
            and (port or default) == (asked_port or default)
            and own_scheme in (scheme, "https")
        )

    def find_host(self, headers: Headers) -> str | None:
        """Return the host that the client asked for, which a proxy may have sent."""
        sent = headers.get(self.host_header) if self.host_header is not None else None
        return headers.get("host") if sent is None else sent

    def find_scheme(self, headers: Headers, scheme: str) -> str:
        """Return the scheme that a proxy sent, else the one that the server sees."""
        sent = headers.get(self.scheme_header) if self.scheme_header is not None else None
        if sent is None:
            return scheme
        return "https" if sent.split(",", 1)[0].strip() == self.secure_value else "http"

    def may_send_cookies(self, origin: str) -> bool:
        """Return whether pages of an origin may send cookies; only listed origins ever may."""
        return self.allows_credentials and origin in self.origins


def is_loopback(domain: str) -> bool:
    """Return whether a domain, in lower case, always means the local machine."""
    return (
        domain in ("localhost", "[::1]")
        or domain.endswith(".localhost")
        or re.fullmatch(r"127(\.[0-9]{1,3}){3}", domain) is not None
    )


def read_rules() -> SiteRules:
    """Return the rules of this site, from its settings."""
    name, secure_value = site_settings.SECURE_PROXY_SSL_HEADER or (None, "")
    hosts: Collection[str] = site_settings.ALLOWED_HOSTS
    if site_settings.DEBUG and not hosts:
        hosts = _DEBUG_HOSTS
    return SiteRules(
        hosts=hosts,
        origins=frozenset(settings.ALLOWED_ORIGINS),
        allows_credentials=settings.CORS_ALLOW_CREDENTIALS,
        host_header="x-forwarded-host" if site_settings.USE_X_FORWARDED_HOST else None,
        scheme_header=name and name.removeprefix("HTTP_").replace("_", "-").lower(),
        secure_value=secure_value,
    )


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
