"""What `TELEMETRY` and `ACCESS_LOG` add to a call, in microseconds of processor time.

    python -m tests.benchmarks.telemetry [--calls 2000] [--rounds 15]

Each setting has a server of its own, whose async tool is called without a transport, in turns. "path" is the time
of the thread with the event loop, and "all" that of the process, with the threads that end spans and pass values on. The
medians of the differences to "off" in each round are printed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import statistics
import time
from typing import Any

from django.conf import settings

settings.configure(
    SECRET_KEY="benchmark",
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "channels", "django_mcp"],
    DATABASES={},
    USE_TZ=True,
    ROOT_URLCONF="django_mcp.urls",
    DJANGO_MCP={"PUBLIC": True, "SESSION_STORE": "memory", "TASK_STORE": "memory"},
)

import django  # noqa: E402

django.setup()

from django.test.utils import override_settings  # noqa: E402
from opentelemetry import metrics, trace  # noqa: E402
from opentelemetry.sdk.metrics import MeterProvider  # noqa: E402
from opentelemetry.sdk.metrics.export import InMemoryMetricReader  # noqa: E402
from opentelemetry.sdk.trace import TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON  # noqa: E402

from django_mcp import MCPServer  # noqa: E402
from django_mcp.protocol.headers import Headers  # noqa: E402
from django_mcp.protocol.json import encode  # noqa: E402
from django_mcp.server.exchange.exchange import Exchange  # noqa: E402
from django_mcp.telemetry.access_log import AccessLog, writing  # noqa: E402
from django_mcp.telemetry.metrics import Metrics, recording  # noqa: E402
from django_mcp.telemetry.operation import Observer, Watching  # noqa: E402
from django_mcp.telemetry.spans import Spans, finishing  # noqa: E402
from tests.support.ports import use_ports  # noqa: E402
from tests.support.wire import V2026_07_28, headers_for, message  # noqa: E402

REQUEST = message("tools/call", {"name": "echo", "arguments": {"text": "x"}}, revision=V2026_07_28)
BODY = encode(REQUEST)
HEADERS = [
    (key.encode(), value.encode()) for key, value in headers_for(REQUEST, V2026_07_28).items()
]


def make_server(name: str, telemetry: str, observers: list[Observer] | None = None) -> Any:
    server = MCPServer(name, public=True)

    @server.tool
    async def echo(text: str) -> str:
        return text

    # The engine stays as it is when the settings change back.
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "TELEMETRY": telemetry}):
        if observers is not None:
            use_ports(server, instrument=Watching(observers))
        return server.engine


def sampled(sampler: Any) -> Spans:
    spans = Spans(frozenset())
    spans._tracer = TracerProvider(sampler=sampler, shutdown_on_exit=False).get_tracer("benchmark")
    return spans


async def take(engine: Any, calls: int) -> tuple[float, float]:
    path, all_, reply = time.thread_time(), time.process_time(), None
    for _ in range(calls):
        reply = await engine.answer(Exchange(body=BODY, headers=Headers(HEADERS)))
    path = time.thread_time() - path
    assert reply is not None
    assert b'"text":"x"' in (reply.body or b"")
    for queue in (finishing, recording, writing):
        if queue.current is not None:
            queue.current.flush()
    return path / calls * 1e6, (time.process_time() - all_) / calls * 1e6


async def main(calls: int, rounds: int) -> None:
    metrics.set_meter_provider(MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False))
    trace.set_tracer_provider(TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False))
    access = logging.getLogger("django_mcp.access")
    access.addHandler(logging.NullHandler())
    access.setLevel(logging.INFO)
    access.propagate = False
    servers = {
        "off": make_server("off", "off"),
        "off again": make_server("off-again", "off"),
        "propagate": make_server("propagate", "propagate"),
        "no observer": make_server("none", "native", []),
        "metrics": make_server("metrics", "native", [Metrics()]),
        "spans, not sampled": make_server("unsampled", "native", [sampled(ALWAYS_OFF)]),
        "spans, sampled": make_server("sampled", "native", [sampled(ALWAYS_ON)]),
        "native, not sampled": make_server("both", "native", [sampled(ALWAYS_OFF), Metrics()]),
        "access log": make_server("access", "off", [AccessLog()]),
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in servers}
    for engine in servers.values():
        await take(engine, 200)
    # As an ASGI process does after its first response, see GC_FREEZE.
    gc.collect()
    gc.freeze()
    for _ in range(rounds):
        for name, engine in servers.items():
            taken[name].append(await take(engine, calls))
    base = taken["off"]
    print(f"{'':22}{'path, us':>10}{'all, us':>10}")
    print(
        f"{'a call, off':22}"
        + "".join(f"{statistics.median(c):10.1f}" for c in zip(*base, strict=True))
    )
    for name, found in taken.items():
        if name == "off":
            continue
        added = [
            statistics.median(mine[i] - off[i] for mine, off in zip(found, base, strict=True))
            for i in (0, 1)
        ]
        print(f"{name:22}" + "".join(f"{each:+10.1f}" for each in added))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    asyncio.run(main(given.calls, given.rounds))
