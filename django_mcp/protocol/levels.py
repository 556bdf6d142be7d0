"""Log levels, least to most severe (RFC 5424, section 6.2.1, in the protocol's spelling)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

LogLevel: TypeAlias = Literal[
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"
]

LOG_LEVELS: dict[str, int] = {name: severity for severity, name in enumerate(get_args(LogLevel))}
"""Severity by name; a higher number is more severe."""

_ALIASES = {"warn": "warning", "fatal": "critical"}


def find_requested_level(capabilities: Mapping[str, Any]) -> str | None:
    """Return the lowest log level that a client's capabilities request, if any.

    It is `experimental.logLevel`: a name in any case, or an object with it as `level`, since the
    schema has objects there. An unknown name is ignored. Not from the specification.
    """
    experimental = capabilities.get("experimental")
    wish = experimental.get("logLevel") if isinstance(experimental, Mapping) else None
    if isinstance(wish, Mapping):
        wish = wish.get("level")
    if not isinstance(wish, str):
        return None
    name = _ALIASES.get(wish.lower(), wish.lower())
    return name if name in LOG_LEVELS else None
