"""The access log."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from django_mcp import MCPServer
from tests.support.telemetry import flush
from tests.support.wire import V2025_11_25, V2026_07_28, WireClient
from tests.unit.telemetry.conftest import make_server

LINE_BREAK = "made_up\n2026-11-30 INFO forged"


def read(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    flush()
    return [
        dict(record.__dict__["mcp"])
        for record in caplog.records
        if record.name == "django_mcp.access"
    ]


class Person:
    is_authenticated = True
    key = "user:5"


@pytest.fixture
def logged(settings: Any, caplog: pytest.LogCaptureFixture) -> MCPServer:
    settings.DJANGO_MCP = {
        **settings.DJANGO_MCP,
        "ACCESS_LOG": True,
        "MIDDLEWARE": ["django_mcp.middleware.RequestIDMiddleware"],
    }
    caplog.set_level(logging.INFO, "django_mcp.access")
    return make_server()


@pytest.mark.parametrize("telemetry", ["off", "propagate", "native"])
async def test_each_message_has_a_line(
    logged: MCPServer, settings: Any, caplog: pytest.LogCaptureFixture, telemetry: str
):
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "TELEMETRY": telemetry}
    client = WireClient(logged, V2026_07_28, principal=Person())

    await client.send("tools/call", {"name": "find_orders"}, x_request_id="abc-1")

    [fields] = read(caplog)
    assert fields.pop("duration_ms") > 0
    assert fields.pop("started_s") > 1e9
    assert fields == {
        "server": logged.name,
        "request": "abc-1",
        "principal": "user:5",
        "method": "tools/call",
        "name": "find_orders",
        "outcome": "done",
        "code": None,
    }
    [record] = [each for each in caplog.records if each.name == "django_mcp.access"]
    assert record.getMessage().startswith("tools/call find_orders done in ")
    assert record.getMessage().endswith(" ms by user:5 [abc-1]")


async def test_no_client_writes_a_line_of_its_own(
    logged: MCPServer, caplog: pytest.LogCaptureFixture
):
    client = WireClient(logged, V2025_11_25)
    await client.send("tools/call", {"name": LINE_BREAK})
    await client.send(f"tools/{LINE_BREAK}")
    await client.send("tools/call", {"name": "hidden"})

    found = [(each["method"], each["name"], each["outcome"]) for each in read(caplog)]
    assert found[-3:] == [
        ("tools/call", "_OTHER", "refused"),
        ("_OTHER", "-", "refused"),
        ("tools/call", "_OTHER", "refused"),
    ]
    assert "forged" not in caplog.text


async def test_a_logger_that_discards_the_lines_is_reported_once(
    logged: MCPServer, caplog: pytest.LogCaptureFixture
):
    """As Django's own logging does, where `LOGGING` says nothing about it."""
    caplog.set_level(logging.WARNING, "django_mcp.access")
    client = WireClient(logged, V2026_07_28)

    for _ in range(2):
        await client.send("tools/call", {"name": "find_orders"})

    assert read(caplog) == []
    told = [each for each in caplog.messages if "ACCESS_LOG" in each]
    assert len(told) == 1
    assert "LOGGING" in told[0]


async def test_it_is_off_by_default(settings: Any, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "django_mcp.access")

    await WireClient(make_server(), V2026_07_28).call("find_orders")

    assert read(caplog) == []
