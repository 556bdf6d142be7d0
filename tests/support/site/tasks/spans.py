"""The provider of OpenTelemetry of a process, as docs/howto/telemetry.md shows, with a file for its spans."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult


class FileExporter(SpanExporter):
    """Writes spans to a file of this process."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        lines = [span.to_json(indent=None) for span in spans]
        with Path(os.environ["TASKS_FOLDER"], f"spans-{os.getpid()}").open("a") as file:
            print(*lines, sep="\n", file=file)
        return SpanExportResult.SUCCESS


def set_provider(**_kwargs: Any) -> None:
    """Export the spans of this process at its end: no batch is due before."""
    if os.environ.get("TASKS_TELEMETRY") != "native":
        return
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(FileExporter(), schedule_delay_millis=3_600_000))
    trace.set_tracer_provider(provider)
