"""Spans: one for each message of a client, and one for each run of a task."""

from __future__ import annotations

import time
from typing import NamedTuple

from opentelemetry import context as contexts
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from django_mcp.process import PerProcess
from django_mcp.protocol.errors import REQUEST_CANCELLED, TOO_MANY_REQUESTS
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.trace_context import find_trace
from django_mcp.telemetry.attributes import SCOPE, Attributes, find_common, find_content, find_own
from django_mcp.telemetry.later import Later
from django_mcp.telemetry.operation import CALLERS_FAULTS, Observer, Operation

_NO_FAULTS = CALLERS_FAULTS | {REQUEST_CANCELLED, TOO_MANY_REQUESTS}
"""Codes with which a span is not marked as an error."""

_W3C = TraceContextTextMapPropagator()


class _Ended(NamedTuple):
    """A span that has ended, with what it gets in the thread that ends it."""

    span: Span
    end_ns: int
    name: str
    attributes: Attributes
    is_error: bool


def _finish(ended: _Ended) -> None:
    span = ended.span
    span.update_name(ended.name)
    span.set_attributes(ended.attributes)
    if ended.is_error:
        span.set_status(Status(StatusCode.ERROR))
    span.end(ended.end_ns)


finishing: PerProcess[Later[_Ended]] = PerProcess(
    lambda: Later("django-mcp-spans", _finish, trace.get_tracer_provider)
)
"""Ends spans: the processor of a site may export each of them at once, and wait for that."""


class Spans(Observer):
    """Makes the spans of operations."""

    def __init__(self, details: frozenset[str]) -> None:
        self._details = details
        self._tracer = trace.get_tracer(*SCOPE)

    def begin(self, operation: Operation) -> None:
        """Start a span, and make it current. Samplers get the method, and not what is known only later."""
        name, kind, parent = operation.method, SpanKind.SERVER, contexts.get_current()
        attributes: Attributes = {"mcp.method.name": name}
        links: list[Link] | None = None
        if operation.is_task:
            name, kind, attributes = "execute_tool", SpanKind.INTERNAL, {}
            parent, links = _find_call(operation.carried, parent)
        elif operation.message is not None:
            meta = operation.message.params.get("_meta")
            if type(meta) is dict and ("traceparent" in meta or "baggage" in meta):
                parent, links = _find_client(meta, parent)
        span = self._tracer.start_span(name, parent, kind, attributes, links)
        if span.is_recording():
            operation.span = span
        operation.attached = contexts.attach(trace.set_span_in_context(span, parent))

    def opened(self, operation: Operation) -> None:
        """End the span of a stream, which may stay open for an hour."""
        if operation.span is not None:
            self._leave(operation, operation.span)

    def end(self, operation: Operation) -> None:
        """End the span, unless it ended when its stream was opened."""
        if operation.attached is not None:
            contexts.detach(operation.attached)
        if operation.span is not None and not operation.is_opened:
            self._leave(operation, operation.span)

    def carry(self) -> JSONObject | None:
        """See `Observer.carry`."""
        carrier: dict[str, str] = {}
        _W3C.inject(carrier)
        return {**carrier} or None

    def _leave(self, operation: Operation, span: Span) -> None:
        operation.settle()
        attributes = find_common(operation)
        attributes |= find_own(operation, self._details)
        if self._details:
            attributes |= find_content(operation, self._details)
        is_error = operation.outcome in ("fault", "timeout") or (
            operation.code is not None and operation.code not in _NO_FAULTS
        )
        ended = _Ended(span, time.time_ns(), _name(operation, attributes), attributes, is_error)
        (finishing.current or finishing.get()).put(ended)


def _name(operation: Operation, attributes: Attributes) -> str:
    what = "execute_tool" if operation.is_task else operation.method
    target = attributes.get("gen_ai.tool.name", attributes.get("gen_ai.prompt.name"))
    return what if target is None else f"{what} {target}"


def _find_client(meta: JSONObject, around: Context) -> tuple[Context, list[Link] | None]:
    """Return the context that the client sent, and a link to the span around the call, such as that of HTTP."""
    carrier = find_trace(meta)
    if not carrier:
        return around, None
    sent = propagate.extract(carrier, around)
    ambient = trace.get_current_span(around).get_span_context()
    is_parent = trace.get_current_span(sent).get_span_context() is not ambient
    return sent, [Link(ambient)] if is_parent and ambient.is_valid else None


def _find_call(carried: JSONObject | None, around: Context) -> tuple[Context, list[Link] | None]:
    """Return the context of the run of a task, and the link to its call.

    Around it is the span of a queue's worker, if there is one. The span of the call may have ended long ago,
    so it is no parent.
    """
    if not isinstance(carried, dict):
        return around, None
    call = trace.get_current_span(_W3C.extract(carried, Context())).get_span_context()
    if not call.is_valid:
        return around, None
    ambient = trace.get_current_span(around).get_span_context()
    is_of_call = ambient.span_id == call.span_id and ambient.trace_id == call.trace_id
    return Context() if is_of_call else around, [Link(call)]
