"""The application, with the providers of OpenTelemetry, as docs/howto/telemetry.md shows."""

import os

from django.core.asgi import get_asgi_application
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

from django_mcp.asgi import django_mcp_application

provider = TracerProvider()
provider.add_span_processor(
    BatchSpanProcessor(
        ConsoleSpanExporter(formatter=lambda span: span.to_json(indent=None) + os.linesep)
    )
)
trace.set_tracer_provider(provider)
exporter = ConsoleMetricExporter(formatter=lambda data: data.to_json(indent=None) + os.linesep)
metrics.set_meter_provider(MeterProvider([PeriodicExportingMetricReader(exporter)]))

application = django_mcp_application(get_asgi_application())
