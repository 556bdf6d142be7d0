"""The guard: checks a request's headers, with the hosts and origins that the site trusts, before its body is read.

The first check that fails gives the response, a JSON-RPC error without an id. The rule for hosts is Django's
own (`ALLOWED_HOSTS`), which a consumer has to apply itself. The rule for origins protects servers on the user's machine or network from the pages of other sites: a
page may call its own site, a page on this machine may call a server on this machine, and all other
origins must be listed in `DJANGO_MCP["ALLOWED_ORIGINS"]`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache

from django.conf import settings as site_settings
from django.http.request import split_domain_port, validate_host

from django_mcp.conf import settings
from django_mcp.process import reset_on
from django_mcp.protocol.headers import Headers, admits_event_stream, admits_json, is_json
from django_mcp.server.exchange.exchange import Reply
from django_mcp.transports.http.narrowing import MAX_NAMES_BYTES, TOOLSETS_HEADER
from django_mcp.transports.http.replies import RawHeaders, error_reply, too_large

ANY_ORIGIN = "*"
"""As a listed origin: pages of all sites may call, without cookies."""

HTTPS_ONLY = "This site is served over https only"

_HTTPS_SETTINGS = (
    "SECURE_SSL_REDIRECT; behind a proxy that ends TLS, Django also needs SECURE_PROXY_SSL_HEADER"
)

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s,]+", re.IGNORECASE)
_WEB_ORIGIN = re.compile(r"(https?)://([a-z0-9._-]+|\[[a-f0-9:.]+\])(?::([0-9]{1,5}))?")
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_DEBUG_HOSTS = (".localhost", "127.0.0.1", "[::1]")
"""The hosts that Django allows if `DEBUG` is on and `ALLOWED_HOSTS` is empty."""

VARY: RawHeaders = ((b"vary", b"Origin"),)

_EXPOSED = (
    b"access-control-expose-headers",
    b"Mcp-Session-Id, WWW-Authenticate, X-Request-ID",
)

_METHODS = b"GET, POST, DELETE, OPTIONS"

_REQUEST_HEADERS = (
    "Authorization, Content-Type, Accept, Mcp-Session-Id, MCP-Protocol-Version, Mcp-Method,"
    " Mcp-Name, Last-Event-ID, X-Request-ID, X-MCP-Toolsets, X-MCP-Readonly"
)
"""The headers that clients send (2026-07-28 basic/transports, and our own); `*` leaves out `Authorization`."""

MAX_AGE_S = 7200
"""How long a browser may cache a preflight response; Chromium's maximum."""

MAX_PARAM_HEADERS = 64
"""How many `Mcp-Param-*` headers one preflight may request."""

_PARAM_HEADER = re.compile(r"mcp-param-[!#$%&'*+.^_`|~0-9a-z-]+", re.IGNORECASE)

MAX_HEADERS = 128
"""Header lines of one request; a tool call mirrors its arguments in some."""

MAX_HEADER_BYTES = 32 * 1024
"""Names and values of all headers of one request together; nginx allows as much."""

MAX_KNOWN = 512
"""Combinations of headers whose result is cached."""

MAX_KNOWN_BYTES = 1024
"""Longer combinations are not cached, so that the cache stays small."""

MAX_LENGTH_DIGITS = 15
"""A `Content-Length` of more digits is over any limit, and is not parsed."""

_NAMES = (b"host", b"origin", b"content-type", b"accept", b"content-encoding")

_NO_NUMBER = error_reply(400, "Content-Length must be one whole number")


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
        requires_https, http_paths: the site redirects requests over http (`SECURE_SSL_REDIRECT`) but for
            these paths (`SECURE_REDIRECT_EXEMPT`). Here they are refused, so that no client goes on
            sending its credentials unencrypted.
    """

    hosts: Collection[str]
    origins: frozenset[str] = frozenset()
    allows_credentials: bool = False
    host_header: str | None = None
    scheme_header: str | None = None
    secure_value: str = ""
    requires_https: bool = False
    http_paths: tuple[re.Pattern[str], ...] = ()

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

    def admits_http(self, headers: Headers, scheme: str, path: str) -> bool:
        """Return whether a request is over https, or its path may be requested over http."""
        return self.find_scheme(headers, scheme) == "https" or any(
            path_pattern.search(path.lstrip("/")) for path_pattern in self.http_paths
        )


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
    return SiteRules(
        hosts=site_settings.ALLOWED_HOSTS or (_DEBUG_HOSTS if site_settings.DEBUG else ()),
        origins=frozenset(settings.ALLOWED_ORIGINS),
        allows_credentials=settings.CORS_ALLOW_CREDENTIALS,
        host_header="x-forwarded-host" if site_settings.USE_X_FORWARDED_HOST else None,
        scheme_header=name and name.removeprefix("HTTP_").replace("_", "-").lower(),
        secure_value=secure_value,
        requires_https=site_settings.SECURE_SSL_REDIRECT,
        http_paths=tuple(map(re.compile, site_settings.SECURE_REDIRECT_EXEMPT)),
    )


def preflight(requested: str, trusted: RawHeaders) -> Reply:
    """Return the response to an OPTIONS request of a trusted origin, without the headers of its origin.

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


@dataclass(frozen=True, kw_only=True, slots=True)
class HeaderCheck:
    """The guard's result for a request.

    Attributes:
        reply: the response, if the request goes no further: an error, or a preflight response.
        may_stream: the client accepts server-sent events.
        must_stream: it accepts nothing else, or its method asks for a stream.
        headers: headers for each response to this request, because of its origin.
    """

    reply: Reply | None = None
    may_stream: bool = False
    must_stream: bool = False
    headers: RawHeaders = ()


class Guard:
    """Checks requests against the current settings of the site; see `current_guard`.

    Clients send the same headers repeatedly, so a bounded number of results is cached.
    """

    def __init__(self, rules: SiteRules) -> None:
        self._rules = rules
        self._known: dict[tuple[str | bytes | None, ...], HeaderCheck] = {}
        sent = filter(None, (rules.host_header, rules.scheme_header))
        self._names = (*_NAMES, *(name.encode("latin-1") for name in sent))

    def examine(
        self, method: str, scheme: str, path: str, headers: Headers, max_body_bytes: int
    ) -> HeaderCheck:
        """Return the result for a request, whose scheme is as the server sees it."""
        # This runs for each request, so it works on bytes. Repeated headers are joined, which is right
        # for lists, and makes the others malformed.
        values = headers.by_name
        size = len(b"".join(values)) + len(b"".join(values.values()))
        if headers.line_count > MAX_HEADERS or size > MAX_HEADER_BYTES:
            return _TOO_MANY_HEADERS
        if TOOLSETS_HEADER in values and len(values[TOOLSETS_HEADER]) > MAX_NAMES_BYTES:
            return _TOO_MANY_TOOLSETS
        rules = self._rules
        if rules.requires_https and not rules.admits_http(headers, scheme, path):
            return HeaderCheck(reply=_forbid(HTTPS_ONLY, _HTTPS_SETTINGS))
        key = (method, scheme, *map(values.get, self._names))
        verdict = self._known.get(key)
        if verdict is None:
            verdict = _check(method, scheme, headers, rules)
            if sum(len(value) for value in key if value is not None) <= MAX_KNOWN_BYTES:
                if len(self._known) >= MAX_KNOWN:
                    self._known.clear()
                self._known[key] = verdict
        if verdict.reply is None and method == "POST":
            length = values.get(b"content-length")
            is_short = length is None or (len(length) <= MAX_LENGTH_DIGITS and length.isdigit())
            if not is_short or int(length or 0) > max_body_bytes:
                is_number = length is not None and length.isdigit()
                refusal = too_large(max_body_bytes) if is_number else _NO_NUMBER
                return HeaderCheck(reply=refusal, headers=verdict.headers)
        elif verdict.reply is None and method == "OPTIONS":
            requested = values.get(b"access-control-request-headers", b"").decode("latin-1")
            return HeaderCheck(reply=preflight(requested, verdict.headers), headers=verdict.headers)
        return verdict


def _check(method: str, scheme: str, headers: Headers, rules: SiteRules) -> HeaderCheck:
    host, origin, accept = rules.find_host(headers), headers.get("origin"), headers.get("accept")
    # Two Host headers arrive joined by a comma, which a host may not contain.
    domain = split_domain_port(host)[0] if host is not None else ""
    if not domain:
        return HeaderCheck(reply=error_reply(400, "One well-formed Host header is needed"))
    if not validate_host(domain, rules.hosts):
        return HeaderCheck(reply=_forbid(f"This site is not {domain[:200]}", "ALLOWED_HOSTS"))
    cors: RawHeaders = ()
    if origin is not None:
        # There is a host, or the request would have been rejected already.
        if not rules.is_origin(origin, host or "", rules.find_scheme(headers, scheme)):
            message = f"Pages of the origin {origin[:200]} may not call this server"
            return HeaderCheck(
                reply=_forbid(message, 'DJANGO_MCP["ALLOWED_ORIGINS"]'), headers=VARY
            )
        # The origin is named, never `*`, so that caches keep the responses apart.
        cors = ((b"access-control-allow-origin", origin.encode("latin-1")), *VARY, _EXPOSED)
        # Only pages of listed origins may ever send cookies.
        if rules.allows_credentials and origin in rules.origins:
            cors = (*cors, (b"access-control-allow-credentials", b"true"))
    refusal = _check_kind(method, headers)
    if refusal is not None:
        return HeaderCheck(reply=refusal, headers=cors)
    may_stream = admits_event_stream(accept)
    return HeaderCheck(
        may_stream=may_stream,
        must_stream=may_stream and (method == "GET" or not admits_json(accept)),
        headers=cors,
    )


def _forbid(message: str, setting: str) -> Reply:
    # Strangers do not need to know how the site is configured.
    if site_settings.DEBUG:
        return error_reply(403, f"{message}: see {setting}")
    reply = error_reply(403, message)
    reply.note = f"See the setting {setting}"
    return reply


def _check_kind(method: str, headers: Headers) -> Reply | None:
    if method in ("GET", "DELETE", "OPTIONS"):
        return None
    if method != "POST":
        return error_reply(405, f"{method[:20]} is not a verb of this endpoint")
    if not is_json(headers.get("content-type")):
        return error_reply(415, "Content-Type must be application/json, in UTF-8")
    encoding = headers.get("content-encoding")
    if encoding is not None and encoding.lower() != "identity":
        # A few bytes can decompress to any size, so compressed bodies are not read.
        return error_reply(
            415, "Content-Encoding must be left out", ((b"accept-encoding", b"identity"),)
        )
    accept = headers.get("accept")
    if not (admits_json(accept) or admits_event_stream(accept)):
        return error_reply(406, "Accept must admit application/json or text/event-stream")
    return None


_TOO_MANY_HEADERS = HeaderCheck(
    reply=error_reply(
        431, f"At most {MAX_HEADERS} headers, of {MAX_HEADER_BYTES} bytes together, are read"
    )
)


_TOO_MANY_TOOLSETS = HeaderCheck(
    reply=error_reply(431, f"X-MCP-Toolsets must be at most {MAX_NAMES_BYTES} bytes")
)


@cache
def current_guard() -> Guard:
    """Return the guard for the current settings."""
    return Guard(read_rules())


_of_django = (
    "ALLOWED_HOSTS",
    "DEBUG",
    "MIDDLEWARE",
    "SECURE_PROXY_SSL_HEADER",
    "SECURE_REDIRECT_EXEMPT",
    "SECURE_SSL_REDIRECT",
    "USE_X_FORWARDED_HOST",
)
reset_on(current_guard.cache_clear, settings=("DJANGO_MCP", *_of_django))
