"""The trace context that a client sends, passed to OpenTelemetry if that is installed.

Spans that are opened while a handler runs then belong to the client's trace.
Source: 2026-07-28 basic, `_meta`; W3C Trace Context, Baggage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

TRACE_KEYS = ("traceparent", "tracestate", "baggage")

MAX_TRACE_CHARS = 8192
"""Longer values are not passed on. The minimum that W3C Baggage requires to support."""


def find_trace(meta: Mapping[str, Any]) -> dict[str, str]:
    """Return the trace context in a request's `_meta`, unchecked; empty when there is none."""
    found = {key: meta[key] for key in TRACE_KEYS if key in meta}
    return {
        key: value
        for key, value in found.items()
        if type(value) is str and len(value) <= MAX_TRACE_CHARS
    }


def attach_trace(meta: Mapping[str, Any]) -> Callable[[], None] | None:
    """Make the client's trace context current; return a function that undoes that.

    Returns:
        None when there is no such context, or OpenTelemetry is not installed.
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
