"""A server exports what it has measured by its end, which most servers reach by a signal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.support.sites import running
from tests.support.wire import V2025_11_25, V2026_07_28, headers_for, message

SITE = "tests.support.site.telemetry"


def post(url: str, sent: dict[str, Any], revision: Any, **more: str) -> dict[str, str]:
    """Send a message, and return the headers of its response."""
    headers = {**headers_for(sent, revision), **more}
    with urlopen(Request(url, json.dumps(sent).encode(), headers)) as response:
        assert response.status == 200
        return {key.lower(): value for key, value in response.headers.items()}


@pytest.mark.parametrize("server", ["uvicorn", "granian", "hypercorn"])
def test_what_was_measured_is_exported_when_a_server_stops(server: str, tmp_path: Path):
    with running(SITE, server, log=tmp_path / "log") as site:
        call = message("tools/call", {"name": "find_orders"}, revision=V2026_07_28)
        post(site.url, call, V2026_07_28)
        params = {"protocolVersion": V2025_11_25.name, "capabilities": {}}
        params["clientInfo"] = {"name": "tests", "version": "1"}
        opened = post(site.url, message("initialize", params, revision=V2025_11_25), V2025_11_25)
        session = {"mcp-session-id": opened["mcp-session-id"]}
        call = message("tools/call", {"name": "find_orders"}, revision=V2025_11_25)
        post(site.url, call, V2025_11_25, **session)
        site.stop()

    lines = (tmp_path / "log").read_text().splitlines()
    exported = [json.loads(line) for line in lines if line.startswith("{")]
    spans = [each for each in exported if each.get("name") == "tools/call find_orders"]
    versions = [span["attributes"]["mcp.protocol.version"] for span in spans]
    assert versions == [V2026_07_28.name, V2025_11_25.name]
    assert all(span["attributes"]["network.protocol.version"] == "1.1" for span in spans)
    names = {
        metric["name"]
        for each in exported
        for resource in each.get("resource_metrics", ())
        for scope in resource["scope_metrics"]
        for metric in scope["metrics"]
    }
    assert {"mcp.server.operation.duration", "django_mcp.result.size"} <= names
    assert opened["mcp-session-id"] not in "\n".join(lines)
