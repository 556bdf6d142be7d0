"""Which hosts and origins a site trusts, by its settings.

The hosts are Django's own rule (`ALLOWED_HOSTS`), which a consumer has to apply itself. The
origins are what keeps web pages of strangers out of a server on the user's machine or network:
a page may call its own site, a page of this machine may call a server on this machine, and
everything else must be listed in `DJANGO_MCP["ALLOWED_ORIGINS"]`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from django.conf import settings as site_settings
from django.http.request import split_domain_port, validate_host

from django_mcp.conf import settings

__all__ = ["SETTINGS_READ", "SiteRules", "is_loopback", "read_rules"]

SETTINGS_READ = frozenset(
    {"ALLOWED_HOSTS", "DEBUG", "DJANGO_MCP", "SECURE_PROXY_SSL_HEADER", "USE_X_FORWARDED_HOST"}
)
"""The names of the settings that `read_rules` reads."""

ANY_ORIGIN = "*"
"""Listed as an origin: pages of every site may call, without their cookies."""

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s,]+", re.IGNORECASE)
_WEB_ORIGIN = re.compile(r"(https?)://([a-z0-9._-]+|\[[a-f0-9:.]+\])(?::([0-9]{1,5}))?")
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_DEBUG_HOSTS = (".localhost", "127.0.0.1", "[::1]")
"""What Django allows when `DEBUG` is on and `ALLOWED_HOSTS` is empty."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteRules:
    """What the settings of a site say about who may call.

    Attributes:
        hosts: `ALLOWED_HOSTS`, or Django's defaults for development.
        origins: those listed, as a browser writes them.
        allows_credentials: pages of listed origins may send cookies.
        host_header: where a proxy tells the host that was asked for (`USE_X_FORWARDED_HOST`).
        scheme_header, secure_value: where a proxy tells the scheme, and what it says when that
            is https (`SECURE_PROXY_SSL_HEADER`). Both headers are named in lower case.
    """

    hosts: Collection[str]
    origins: frozenset[str] = frozenset()
    allows_credentials: bool = False
    host_header: str | None = None
    scheme_header: str | None = None
    secure_value: str = ""

    def is_host(self, host: str) -> bool:
        """Tell whether a well-formed `Host`, lower case and without its port, is this site's."""
        return validate_host(host, self.hosts)

    def is_origin(self, origin: str, host: str, scheme: str) -> bool:
        """Tell whether a page of `origin` may call the site under `host` by `scheme`.

        `null` is never one: it is any sandboxed page and any local file.
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
        # A page got over TLS is trusted at least as much as one that was not, and a proxy that
        # ends TLS may keep that from us; the reverse would let a forged page in.
        return (
            domain == asked_domain
            and (port or default) == (asked_port or default)
            and own_scheme in (scheme, "https")
        )

    def read_scheme(self, told: str) -> str:
        """Return the scheme that a proxy tells of."""
        return "https" if told.split(",", 1)[0].strip() == self.secure_value else "http"

    def may_send_cookies(self, origin: str) -> bool:
        """Tell whether pages of an origin may send cookies: only listed ones, if any."""
        return self.allows_credentials and origin in self.origins


def is_loopback(domain: str) -> bool:
    """Tell whether a domain, lower case, always means the machine it is used on."""
    return (
        domain in ("localhost", "[::1]")
        or domain.endswith(".localhost")
        or re.fullmatch(r"127(\.[0-9]{1,3}){3}", domain) is not None
    )


def read_rules() -> SiteRules:
    """Return the rules of this site, from Django's settings and ours."""
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
