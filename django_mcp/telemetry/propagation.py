"""Propagation: handlers continue the trace of their client. This package makes no spans of its own."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.trace_context import find_trace
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.operations import Instrument, Operations, Outcome

T = TypeVar("T")


class Propagation(Instrument):
    """Makes the trace of a request's `_meta` current while it runs, if OpenTelemetry is installed."""

    def watch(self, plain: Operations) -> Operations:
        """See `Instrument.watch`."""
        plain_run = plain.run

        def run(
            call: Any, derived: Any, kept: ConnectionState | None
        ) -> Coroutine[Any, Any, Outcome]:
            meta = call.meta
            # A `tracestate` without a parent means nothing.
            if "traceparent" in meta or "baggage" in meta:
                return _within(meta, plain_run(call, derived, kept))
            return plain_run(call, derived, kept)

        def run_task(
            call: Any, carried: JSONObject | None, work: Coroutine[Any, Any, Outcome]
        ) -> Coroutine[Any, Any, Outcome]:
            return _within(call.meta, plain.run_task(call, carried, work))

        return replace(plain, run=run, run_task=run_task)


def _within(meta: Mapping[str, Any], work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
    """Return some work within the trace of a request's `_meta`, or as it is if that has none."""
    # What is held while a stream is open is well-formed, and so is small.
    carrier = find_trace(meta)
    library = _load_library() if carrier else None
    return work if library is None else _with_trace(carrier, *library, work)


async def _with_trace(
    carrier: Mapping[str, str], propagate: Any, context: Any, work: Coroutine[Any, Any, T]
) -> T:
    token = context.attach(propagate.extract(carrier, context.get_current()))
    try:
        return await work
    finally:
        context.detach(token)


@cache
def _load_library() -> tuple[Any, Any] | None:
    try:
        return import_module("opentelemetry.propagate"), import_module("opentelemetry.context")
    except ImportError:
        return None
