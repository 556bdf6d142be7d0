"""The trace context of W3C that a client sends in `_meta`.

Sources: W3C Trace Context sections 3.2.2 and 3.3.1, W3C Baggage section 3.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

MAX_CHARS: Final = 8192
"""Longer values do not count. The minimum that W3C Baggage requires to support."""

MAX_BLANKS: Final = 16
"""Spaces and tabs in a row; values with more do not count. To find a delimiter takes time with their square, here and
in OpenTelemetry."""

_BLANKS: Final = re.compile(rf"[ \t]{{{MAX_BLANKS + 1}}}")

_PARENT: Final = re.compile(
    r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[\x21-\x7e]{0,400})?"
)

_DELIMITER: Final = re.compile(r"[ \t]*,[ \t]*")

MAX_STATES: Final = 32
MAX_STATE_CHARS: Final = 512
"""The spans that wait to be exported keep it. Source: W3C Trace Context section 3.3.1.5, the minimum to propagate."""

_STATE: Final = re.compile(
    r"([a-z][_0-9a-z*/-]{0,255}|[a-z0-9][_0-9a-z*/-]{0,240}@[a-z][_0-9a-z*/-]{0,13})"
    r"=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)

MAX_BAGGAGE: Final = 64
MAX_BAGGAGE_CHARS: Final = 4096
_KEY: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_VALUE: Final = r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]+"
# A text matches it in one way only: the time would grow exponentially with two.
_BAGGAGE: Final = re.compile(
    rf"{_KEY}=({_VALUE})?(;[ \t]*{_KEY}[ \t]*(=[ \t]*({_VALUE}[ \t]*)?)?)*"
)


def find_trace(meta: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of a trace context in a request's `_meta` that are well-formed.

    OpenTelemetry logs parts of others as they are, so a client could write lines of the site's log.
    """
    trace = {key: meta[key] for key in _CHECKS if key in meta}
    return {
        key: value
        for key, value in trace.items()
        if type(value) is str
        and len(value) <= MAX_CHARS
        and _BLANKS.search(value) is None
        and _CHECKS[key](value)
    }


def _is_parent(value: str) -> bool:
    return _PARENT.fullmatch(value) is not None


def _is_state(value: str) -> bool:
    if len(value) > MAX_STATE_CHARS:
        return False
    members = _DELIMITER.split(value)
    return len(members) <= MAX_STATES and all(map(_STATE.fullmatch, members))


def _is_baggage(value: str) -> bool:
    members = _DELIMITER.split(value)
    return len(members) <= MAX_BAGGAGE and all(
        len(member) <= MAX_BAGGAGE_CHARS and _BAGGAGE.fullmatch(member) for member in members
    )


_CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    "traceparent": _is_parent,
    "tracestate": _is_state,
    "baggage": _is_baggage,
}
