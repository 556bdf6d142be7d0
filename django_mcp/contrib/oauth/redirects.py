"""Which addresses a browser may be sent to with an authorization code."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

__all__ = ["is_loopback", "is_safe_redirect"]

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
"""Schemes that a browser does not hand to a program, but acts on itself."""


def is_safe_redirect(uri: str) -> bool:
    """Return whether a redirect URI is one that a code may be sent to, whoever registered it.

    Over https to a host, over http to this machine only (RFC 8252 section 7.3), or by a scheme of a
    program; without user, fragment, what an answer would say in its query, or characters that two
    parsers read differently.
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
    return bool(parts.scheme) and parts.scheme not in _RUNS_OR_READS


def _looks_like_answer(query: str) -> bool:
    # A client that takes the first of two, or the last, would believe whoever registered it.
    return any(name in _ANSWERS for name, _value in parse_qsl(query, keep_blank_values=True))


def is_loopback(host: str | None) -> bool:
    """Return whether a host of a URI, without port and brackets, is this machine."""
    return host in _LOOPBACK
