"""A client's trace goes on in the handler, where OpenTelemetry is there to carry it."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry import baggage, trace

from django_mcp.server.handlers.context import Context
from django_mcp.telemetry.propagation import Propagation
from tests.support.ports import use_ports
from tests.support.server.plain import MCPServer
from tests.support.telemetry import install_sdk
from tests.support.wire import V2025_11_25, V2026_07_28, WireClient

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
META = {"traceparent": PARENT, "tracestate": "a=b", "baggage": "user=5"}


def seen() -> str:
    span = trace.get_current_span().get_span_context()
    return f"{span.trace_id:032x} {span.span_id:016x} {baggage.get_baggage('user')}"


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("tests")
    use_ports(server, instrument=Propagation())

    @server.tool
    async def inline(ctx: Context[Any]) -> str:
        return f"{seen()} {dict(ctx.trace_context)}"

    @server.tool
    def threaded() -> str:
        return seen()

    @server.tool
    def failing() -> str:
        raise RuntimeError

    return server


async def call(
    server: MCPServer, name: str, meta: dict[str, Any], revision: Any = V2026_07_28
) -> str:
    client = WireClient(server, revision)
    result = await client.result("tools/call", {"name": name, "_meta": meta})
    text: str = result["content"][0]["text"]
    return text


@pytest.mark.parametrize("revision", [V2025_11_25, V2026_07_28])
@pytest.mark.parametrize("name", ["inline", "threaded"])
async def test_a_handler_runs_within_the_clients_trace(server: MCPServer, name: str, revision: Any):
    text = await call(server, name, META, revision)

    assert text.startswith("0af7651916cd43dd8448eb211c80319c b7ad6b7169203331 5")
    assert name == "threaded" or text.endswith(str(META))


async def test_the_trace_ends_with_the_call(server: MCPServer):
    before = seen()

    for name in ("inline", "failing"):
        await call(server, name, META)

        assert seen() == before


FORGED = "x\n2026-11-29 ERROR django_mcp forged"


@pytest.mark.parametrize(
    "meta",
    [
        {"baggage": FORGED},
        {"baggage": f"user=5,{FORGED}"},
        {"baggage": f"user={FORGED}"},
        {"baggage": f"user=5;{FORGED}"},
        {"baggage": ",".join("x" * 4000)},
        {"baggage": ",".join(f"k{number}=1" for number in range(200))},
        {"baggage": f"user={'5' * 5000}"},
        {"baggage": "user=\u00e4"},
        {"traceparent": PARENT, "tracestate": FORGED},
        {"traceparent": PARENT, "tracestate": f"a=b,{FORGED}"},
        {"traceparent": PARENT, "tracestate": ",".join(f"k{number}=1" for number in range(40))},
        {"traceparent": f"{PARENT}-{FORGED}"},
        {"traceparent": PARENT + "-" + "x" * 600},
    ],
)
async def test_what_opentelemetry_would_log_of_a_client_is_not_passed_on(
    server: MCPServer, caplog: pytest.LogCaptureFixture, meta: dict[str, Any]
):
    text = await call(server, "inline", meta)

    assert [record for record in caplog.records if record.name.startswith("opentelemetry")] == []
    assert text.endswith(str({"traceparent": PARENT} if meta.get("traceparent") == PARENT else {}))


@pytest.mark.parametrize(("length", "is_passed_on"), [(512, True), (513, False)])
async def test_a_long_tracestate_is_ignored(server: MCPServer, length: int, is_passed_on: bool):
    """Spans that wait to be exported keep it, and there may be 10,000 of them."""
    first = "a=" + "x" * 254
    state = f"{first},b=" + "y" * (length - len(first) - 3)

    text = await call(server, "inline", {"traceparent": PARENT, "tracestate": state})

    assert len(state) == length
    assert (state in text) is is_passed_on
    assert text.startswith("0af7651916cd43dd8448eb211c80319c b7ad6b7169203331")


async def test_a_whole_trace_context_is_passed_on(server: MCPServer):
    given = {
        "traceparent": PARENT,
        "tracestate": "a=b, tenant@vendor=x y",
        "baggage": "shop=a%20b;ttl=5;secure , user=5",
    }

    text = await call(server, "inline", given)

    assert text.endswith(f" 5 {given}")


@pytest.mark.parametrize(
    "meta",
    [
        {},
        {"tracestate": "a=b"},
        {"traceparent": "nonsense"},
        {"traceparent": 5, "baggage": ["x"]},
        {"traceparent": PARENT * 1000},
        {"baggage": "%%%;;=,=" * 50},
    ],
)
async def test_an_invalid_traceparent_is_ignored(server: MCPServer, meta: dict[str, Any]):
    assert await call(server, "threaded", meta) == seen()


async def test_baggage_alone_leaves_the_trace_around_a_call(server: MCPServer):
    install_sdk()

    with trace.get_tracer("http").start_as_current_span("POST /mcp"):
        text = await call(server, "threaded", {"baggage": "user=5"})

        assert text == seen().replace("None", "5")
