"""The SDK of OpenTelemetry in this process, with exporters in memory, and what they have got of one server."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from django_mcp.telemetry import access_log, spans
from django_mcp.telemetry import metrics as own_metrics

SERVER = "django_mcp.server.name"

_numbers = itertools.count(1)


@cache
def install_sdk() -> tuple[InMemorySpanExporter, InMemoryMetricReader]:
    """Set the providers of this process, which can be set once."""
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([reader], shutdown_on_exit=False))
    return exporter, reader


def new_name() -> str:
    """Return a name that no other server of this process has, since what was measured is never forgotten."""
    return f"telemetry-{next(_numbers)}"


def flush() -> None:
    """Have everything recorded by now."""
    for queue in (spans.finishing, own_metrics.recording, access_log.writing):
        if queue.current is not None:
            queue.current.flush()


def find_spans(server: str, name: str | None = None) -> list[ReadableSpan]:
    """Return the ended spans of a server, in the order of their beginnings."""
    flush()
    ended = install_sdk()[0].get_finished_spans()
    own = [span for span in ended if (span.attributes or {}).get(SERVER) == server]
    return sorted(
        (span for span in own if name in (None, span.name)), key=lambda span: span.start_time or 0
    )


def find_points(name: str, server: str | None = None) -> list[tuple[dict[str, Any], Any]]:
    """Return the attributes and the data point of each series of a metric, those of a server or all."""
    flush()
    data = install_sdk()[1].get_metrics_data()
    found = []
    for resource in () if data is None else data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                if metric.name == name:
                    found += [(dict(p.attributes or {}), p) for p in metric.data.data_points]
    return [
        ({key: value for key, value in attributes.items() if server is None or key != SERVER}, p)
        for attributes, p in found
        if server is None or attributes.get(SERVER) == server
    ]


def find_metrics() -> dict[str, Any]:
    """Return every metric that was exported, by name."""
    flush()
    data = install_sdk()[1].get_metrics_data()
    return {
        metric.name: metric
        for resource in (() if data is None else data.resource_metrics)
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
