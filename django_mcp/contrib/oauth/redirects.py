"""The redirect URIs to which an authorization code may be sent."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from django_mcp.conf import settings

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

_ANSWERS = frozenset({"code", "error", "iss", "state"})

_RUNS_OR_READS = frozenset(
    {
        "about",
        "blob",
        "chrome",
        "data",
        "file",
        "filesystem",
        "javascript",
        "vbscript",
        "view-source",
    }
)
"""Schemes that a browser handles itself instead of starting a program."""

WANTED = (
    "Redirects go over https, over http to a loopback address, or to an address of "
    "OAUTH_APP_REDIRECTS if the client has no secret; without code, error, iss or state."
)


def is_safe_redirect(uri: str) -> bool:
    """Return whether a code may be sent to a redirect URI.

    It may use https to any host, http to the local machine only (RFC 8252 section 7.3), or an
    address of a program that `OAUTH_APP_REDIRECTS` lists; without user, fragment, response
    parameters in its query, or characters that parsers read differently.
    """
    if not uri.isascii() or any(char <= " " or char in '\\#"<>\x7f' for char in uri):
        return False
    try:
        parts = urlsplit(uri)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return False
    if "@" in parts.netloc or "*" in parts.netloc or _looks_like_answer(parts.query):
        return False
    if parts.scheme == "https":
        return bool(host)
    if parts.scheme == "http":
        return is_loopback(host)
    return parts.scheme not in _RUNS_OR_READS and _is_listed(uri)


def is_own_scheme(uri: str) -> bool:
    """Return whether a redirect URI starts a program by a scheme of its own (RFC 8252 section 7.1).

    Any program of the machine can claim the scheme, so the client has to use PKCE.
    """
    return urlsplit(uri).scheme not in ("http", "https")


def _is_listed(uri: str) -> bool:
    bare = uri.partition("?")[0]
    if any(part in (".", "..") for part in bare.split("/")):
        return False
    return any(
        bare.startswith(entry) if entry.endswith("/") else bare == entry
        for entry in settings.OAUTH_APP_REDIRECTS
    )


def _looks_like_answer(query: str) -> bool:
    # A client that reads only the first or the last of two would accept the registered one.
    return any(name in _ANSWERS for name, _value in parse_qsl(query, keep_blank_values=True))


def is_loopback(host: str | None) -> bool:
    """Return whether a URI's host, without port and brackets, is the local machine."""
    return host in _LOOPBACK
