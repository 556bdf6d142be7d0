"""Check `Accept` and `Content-Type` of an MCP endpoint.

A header is rejected only if it certainly excludes the endpoint's responses; the transport chooses
the status.
"""

from __future__ import annotations

import re
from functools import lru_cache

_JSON = ("application", "json")
_EVENT_STREAM = ("text", "event-stream")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_UTF_8_NAMES = frozenset({"utf-8", "utf8"})
# Longer values are not cached, so that a client cannot fill the memory.
_LONGEST_CACHED_CHARS = 512


def admits_json(accept: str | None) -> bool:
    """Return whether an `Accept` value allows `application/json`.

    An absent or blank header, and `*/*`, allow everything; parameters other than `q` are ignored;
    the most specific range decides, and `q=0` excludes.

    Source: RFC 9110 section 12.5.1; a violation has no prescribed status (2026-07-28).
    """
    return _admitted(accept)[0]


def admits_event_stream(accept: str | None) -> bool:
    """Return whether an `Accept` value allows `text/event-stream`; see `admits_json`."""
    return _admitted(accept)[1]


def is_json(content_type: str | None) -> bool:
    """Return whether a `Content-Type` value is JSON in UTF-8.

    That is `application/json` with no charset or `charset=utf-8`; other parameters are ignored. An
    absent header is not.

    Source: RFC 8259 sections 8.1 and 11.
    """
    if content_type == "application/json":
        return True
    if content_type is None:
        return False
    if len(content_type) > _LONGEST_CACHED_CHARS:
        return _check_content_type(content_type)
    return _cached_content_type(content_type)


def _admitted(accept: str | None) -> tuple[bool, bool]:
    if accept is None:
        return True, True
    if len(accept) > _LONGEST_CACHED_CHARS:
        return _check_accept(accept)
    return _cached_accept(accept)


def _check_accept(accept: str) -> tuple[bool, bool]:
    ranges = [_media_range(element) for element in _split(accept, ",")]
    ranges = [found for found in ranges if found[0]]
    return _is_admitted(_JSON, ranges), _is_admitted(_EVENT_STREAM, ranges)


def _check_content_type(content_type: str) -> bool:
    media_type, *parameters = _split(content_type, ";")
    if media_type.strip(" \t").lower() != "application/json":
        return False
    return all(
        value.lower() in _UTF_8_NAMES
        for name, value in map(_parameter, parameters)
        if name == "charset"
    )


_cached_accept = lru_cache(maxsize=256)(_check_accept)
_cached_content_type = lru_cache(maxsize=256)(_check_content_type)


def _is_admitted(media_type: tuple[str, str], ranges: list[tuple[str, str, bool]]) -> bool:
    if not ranges:
        return True
    main, sub = media_type
    for wanted in ((main, sub), (main, "*"), ("*", "*")):
        verdicts = [is_wanted for *found, is_wanted in ranges if tuple(found) == wanted]
        if verdicts:
            return any(verdicts)
    return False


def _media_range(element: str) -> tuple[str, str, bool]:
    """Return main type, subtype and whether `q` is above zero; both types empty for a blank."""
    name, *parameters = _split(element, ";")
    main, slash, sub = name.strip(" \t").lower().partition("/")
    if main == "*" and not slash:
        # Java's URLConnection has sent a bare star for decades.
        sub = "*"
    is_wanted = not any(
        name == "q" and value and not value.strip("0.")
        for name, value in map(_parameter, parameters)
    )
    return main, sub, is_wanted


def _parameter(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip(" \t").lower(), value.strip(" \t").strip('"')


def _split(text: str, separator: str) -> list[str]:
    """Split at separators outside of quoted strings."""
    return _QUOTED.sub(lambda quoted: quoted[0].replace(separator, "\0"), text).split(separator)
