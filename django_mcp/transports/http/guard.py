"""The guard: checks a request's headers before its body is read.

It checks host, origin, preflight, method, media types, content coding and declared size, in this
order. The first check that fails gives the response, a JSON-RPC error without an id. The guard
does not read the message, and contains no protocol rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from django.conf import settings as site_settings
from django.http.request import split_domain_port

from django_mcp.process import reset_on
from django_mcp.protocol.headers import Headers, admits_event_stream, admits_json, is_json
from django_mcp.server.exchange.exchange import Reply
from django_mcp.transports.http.cors import VARY, cors_headers, preflight
from django_mcp.transports.http.replies import RawHeaders, error_reply, too_large
from django_mcp.transports.http.sites import SETTINGS_READ, SiteRules, read_rules

MAX_HEADERS = 128
"""Header lines of one request; a tool call mirrors its arguments in some. Our own limit."""

MAX_HEADER_BYTES = 32 * 1024
"""Names and values of all headers of one request together; nginx allows as much."""

MAX_KNOWN = 512
"""Combinations of headers whose result is cached."""

MAX_KNOWN_BYTES = 1024
"""Longer combinations are not cached, so that the cache stays small."""

MAX_LENGTH_DIGITS = 15
"""A `Content-Length` of more digits is over any limit, and is not parsed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Clearance:
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


_NAMES = (b"host", b"origin", b"content-type", b"accept", b"content-encoding")


class Guard:
    """Checks requests against the current settings of the site; see `current_guard`.

    Clients send the same headers repeatedly, so a bounded number of results is cached.
    """

    def __init__(self, rules: SiteRules) -> None:
        self._rules = rules
        self._known: dict[tuple[object, ...], Clearance] = {}
        self._names: tuple[bytes, ...] = _NAMES
        for name in (rules.host_header, rules.scheme_header):
            if name is not None:
                self._names = (*self._names, name.encode("latin-1"))

    def examine(self, method: str, scheme: str, headers: Headers, max_body_bytes: int) -> Clearance:
        """Return the result for a request.

        Args:
            method: the HTTP method, in upper case.
            scheme: `http` or `https`, as the server sees it.
            headers: all of them, repeated ones joined: right for lists, malformed for the others.
            max_body_bytes: the limit on the body, compared with `Content-Length`.
        """
        # This runs for each request, so it works on bytes.
        values = headers.by_name
        size = len(b"".join(values)) + len(b"".join(values.values()))
        if headers.line_count > MAX_HEADERS or size > MAX_HEADER_BYTES:
            return _TOO_MANY_HEADERS
        key = (method, scheme, *map(values.get, self._names))
        found = self._known.get(key)
        if found is None:
            found = _check(method, scheme, headers, self._rules)
            self._remember(key, found)
        if found.reply is None and method == "POST":
            length = values.get(b"content-length")
            is_short = length is None or (len(length) <= MAX_LENGTH_DIGITS and length.isdigit())
            if not is_short or int(length or 0) > max_body_bytes:
                refusal = _reject_length(length or b"", max_body_bytes)
                return Clearance(reply=refusal, headers=found.headers)
        elif found.reply is None and method == "OPTIONS":
            requested = values.get(b"access-control-request-headers", b"").decode("latin-1")
            return Clearance(reply=preflight(requested, found.headers), headers=found.headers)
        return found

    def _remember(self, key: tuple[object, ...], found: Clearance) -> None:
        if sum(len(value) for value in key if isinstance(value, bytes | str)) > MAX_KNOWN_BYTES:
            return
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known[key] = found


def _check(method: str, scheme: str, headers: Headers, rules: SiteRules) -> Clearance:
    host, origin, accept = rules.find_host(headers), headers.get("origin"), headers.get("accept")
    refusal = _check_host(host, rules)
    if refusal is not None:
        return Clearance(reply=refusal)
    cors: RawHeaders = ()
    if origin is not None:
        # There is a host, or the request would have been rejected already.
        if not rules.is_origin(origin, host or "", rules.find_scheme(headers, scheme)):
            return Clearance(reply=_reject_origin(origin), headers=VARY)
        cors = cors_headers(origin, with_credentials=rules.may_send_cookies(origin))
    refusal = _check_kind(method, headers)
    if refusal is not None:
        return Clearance(reply=refusal, headers=cors)
    may_stream = admits_event_stream(accept)
    return Clearance(
        may_stream=may_stream,
        must_stream=may_stream and (method == "GET" or not admits_json(accept)),
        headers=cors,
    )


def _check_host(host: str | None, rules: SiteRules) -> Reply | None:
    # Two Host headers arrive joined by a comma, which a host may not contain.
    domain = split_domain_port(host)[0] if host is not None else ""
    if not domain:
        return error_reply(400, "One well-formed Host header is needed")
    if not rules.is_host(domain):
        return _forbid(f"This site is not {domain[:200]}", "ALLOWED_HOSTS")
    return None


def _reject_origin(origin: str) -> Reply:
    message = f"Pages of the origin {origin[:200]} may not call this server"
    return _forbid(message, 'DJANGO_MCP["ALLOWED_ORIGINS"]')


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


def _reject_length(length: bytes, max_body_bytes: int) -> Reply:
    if not length.isdigit():
        return error_reply(400, "Content-Length must be one whole number")
    return too_large(max_body_bytes)


_TOO_MANY_HEADERS = Clearance(
    reply=error_reply(
        431, f"At most {MAX_HEADERS} headers, of {MAX_HEADER_BYTES} bytes together, are read"
    )
)


@cache
def current_guard() -> Guard:
    """Return the guard for the current settings."""
    return Guard(read_rules())


reset_on(current_guard.cache_clear, settings=SETTINGS_READ)
