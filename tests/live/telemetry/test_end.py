"""What a process has measured by its end is exported, and an exporter that blocks does not hold its end."""

from __future__ import annotations

import subprocess
import sys

from tests.architecture.sources import ROOT

LIMIT_S = 60

SITE = """
import asyncio, sys
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "channels", "django_mcp"],
    DJANGO_MCP={"PUBLIC": True, "SESSION_STORE": "memory", "TELEMETRY": "native"},
    DATABASES={}, ROOT_URLCONF="django_mcp.urls", USE_TZ=True,
)
import django
django.setup()
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
provider = TracerProvider()
provider.add_span_processor(PROCESSOR)
trace.set_tracer_provider(provider)
metrics.set_meter_provider(MeterProvider([PeriodicExportingMetricReader(ConsoleMetricExporter())]))
from django_mcp import tool
from django_mcp.servers import default_server
@tool
async def find_orders() -> str:
    return "done"
asyncio.run(default_server.acall_tool("find_orders"))
"""

BLOCKING = """
import threading
class Blocking(SpanProcessor):
    def on_end(self, span):
        threading.Event().wait()
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


def test_what_was_measured_is_exported_at_the_end_of_the_process():
    done = run(SITE.replace("PROCESSOR", "BatchSpanProcessor(ConsoleSpanExporter())"))

    assert done.returncode == 0, done.stderr
    assert '"name": "tools/call find_orders"' in done.stdout
    assert '"name": "mcp.server.operation.duration"' in done.stdout


def test_an_exporter_that_blocks_does_not_hold_the_end_of_the_process():
    done = run(
        SITE.replace("provider = ", BLOCKING + "provider = ").replace("PROCESSOR", "Blocking()")
    )

    assert done.returncode == 0, done.stderr
    assert '"name": "mcp.server.operation.duration"' in done.stdout
