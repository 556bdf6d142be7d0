"""What the setting `TELEMETRY` installs, and the checks of it."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import run_checks
from opentelemetry import trace

from django_mcp import MCPServer
from django_mcp.server.dispatch import OPERATIONS
from django_mcp.telemetry import setup
from django_mcp.telemetry.propagation import Propagation
from tests.support.telemetry import find_points, find_spans, install_sdk
from tests.support.wire import V2026_07_28, WireClient
from tests.unit.telemetry.conftest import make_server


def set_telemetry(settings: Any, **values: Any) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, **values}


async def test_off_installs_nothing(settings: Any):
    install_sdk()
    set_telemetry(settings, TELEMETRY="off")
    server = make_server()

    assert server.engine.ports.instrument is None
    assert server.engine.operations is OPERATIONS
    await WireClient(server, V2026_07_28).call("find_orders")
    assert find_spans(server.name) == []
    assert find_points("mcp.server.operation.duration", server.name) == []


def test_propagation_is_the_default(settings: Any):
    assert "TELEMETRY" not in settings.DJANGO_MCP
    assert isinstance(MCPServer("by-default").engine.ports.instrument, Propagation)


async def test_a_change_of_the_setting_takes_effect(settings: Any):
    install_sdk()
    server = make_server()
    await WireClient(server, V2026_07_28).call("find_orders")
    assert find_spans(server.name) == []

    set_telemetry(settings, TELEMETRY="native")
    await WireClient(server, V2026_07_28).call("find_orders")

    assert len(find_spans(server.name)) == 1


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"TELEMETRY": "all"}, "TELEMETRY"),
        ({"TELEMETRY": None}, "TELEMETRY"),
        ({"TELEMETRY_DETAILS": ["argument"]}, "TELEMETRY_DETAILS"),
        ({"TELEMETRY_DETAILS": "arguments"}, "TELEMETRY_DETAILS"),
        ({"ACCESS_LOG": "yes"}, "ACCESS_LOG"),
    ],
)
def test_a_wrong_value_is_an_error(settings: Any, values: dict[str, Any], told: str):
    set_telemetry(settings, **values)

    messages = [each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.E001"]

    assert [told in each.msg for each in messages] == [True]


@pytest.mark.parametrize(("mode", "count"), [("native", 1), ("propagate", 0), ("off", 0)])
def test_native_without_the_library_is_an_error(
    settings: Any, monkeypatch: pytest.MonkeyPatch, mode: str, count: int
):
    set_telemetry(settings, TELEMETRY=mode)
    monkeypatch.setattr(setup, "find_spec", lambda _name: None)

    messages = [each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.E016"]

    assert len(messages) == count
    assert all("[otel]" in (each.hint or "") for each in messages)


async def test_native_without_the_library_serves(settings: Any, monkeypatch: pytest.MonkeyPatch):
    set_telemetry(settings, TELEMETRY="native")
    monkeypatch.setattr(setup, "find_spec", lambda _name: None)
    server = make_server()

    result = await WireClient(server, V2026_07_28).call("find_orders")

    assert result["content"]


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("access_log", [False, True])
@pytest.mark.parametrize(
    ("mode", "trace_id", "span_id"),
    [
        ("off", "0" * 32, "0" * 16),
        ("propagate", PARENT[3:35], PARENT[36:52]),
        ("native", PARENT[3:35], None),
    ],
)
async def test_the_trace_in_which_a_handler_runs(
    settings: Any, mode: str, trace_id: str, span_id: str | None, access_log: bool
):
    install_sdk()
    set_telemetry(settings, TELEMETRY=mode, ACCESS_LOG=access_log)
    server = make_server()

    @server.tool
    def find_trace() -> str:
        context = trace.get_current_span().get_span_context()
        return f"{context.trace_id:032x} {context.span_id:016x}"

    params = {"name": "find_trace", "_meta": {"traceparent": PARENT}}
    result = await WireClient(server, V2026_07_28).result("tools/call", params)

    found = result["content"][0]["text"].split()
    own = [f"{span.context.span_id:016x}" for span in find_spans(server.name) if span.context]
    assert found == [trace_id, span_id or own[0]]
    assert len(own) == (mode == "native")
