"""Trace context that a client sends along, handed to OpenTelemetry where that is installed.

The spans that a handler, or what it calls, opens then belong to the client's trace. No call pays for
it that brings no such context. Source: 2026-07-28 basic, `_meta`; W3C Trace Context, Baggage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

__all__ = ["TRACE_KEYS", "attach_trace", "find_trace"]

TRACE_KEYS = ("traceparent", "tracestate", "baggage")

MAX_TRACE_CHARS = 8192
"""Longer values are not passed on: the most that W3C Baggage asks anybody to bear."""


def find_trace(meta: Mapping[str, Any]) -> dict[str, str]:
    """Return the trace context in a request's `_meta`, as it came; empty when there is none."""
    found = {key: meta[key] for key in TRACE_KEYS if key in meta}
    return {
        key: value
        for key, value in found.items()
        if type(value) is str and len(value) <= MAX_TRACE_CHARS
    }


def attach_trace(meta: Mapping[str, Any]) -> Callable[[], None] | None:
    """Make the client's context the current one, and return what undoes that.

    Returns:
        None when it brought none, or nobody here would look at it.
    """
    carrier = find_trace(meta)
    library = _load_library() if carrier else None
    if library is None:
        return None
    propagate, context = library
    token = context.attach(propagate.extract(carrier))
    return lambda: context.detach(token)


@cache
def _load_library() -> tuple[Any, Any] | None:
    try:
        return import_module("opentelemetry.propagate"), import_module("opentelemetry.context")
    except ImportError:
        return None
