"""OpenTelemetry is loaded for traces only, and not needed."""

from __future__ import annotations

import subprocess
import sys

from tests.architecture.sources import ROOT


def test_opentelemetry_is_optional_and_loaded_only_for_traces():
    code = """
import asyncio, sys
from tests.support.server.plain import MCPServer
from tests.support.ports import use_ports
from django_mcp.telemetry.propagation import Propagation
server = MCPServer("tests")
use_ports(server, instrument=Propagation())
server.register_tool(lambda: "done", name="t")
def call(meta):
    params = {"name": "t", "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer = asyncio.run(server.handle(message))
    assert answer["result"]["content"][0]["text"] == "done", answer
call({"progressToken": 1})
assert not any(name.startswith("opentelemetry") for name in sys.modules)
sys.modules["opentelemetry"] = None  # as if it were not installed
call({"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr


def test_without_the_setting_the_library_is_not_imported():
    code = """
import sys
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django_mcp"], DJANGO_MCP={"PUBLIC": True, "SESSION_STORE": "memory"},
    DATABASES={}, ROOT_URLCONF="django_mcp.urls",
)
import django
django.setup()
import asyncio
from django_mcp.servers import default_server
asyncio.run(default_server.handle({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))
assert not any(name.startswith("opentelemetry") for name in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
