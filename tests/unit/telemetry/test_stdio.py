"""What is exported of a client on pipes, with a handshake and without, and of calls in process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from django_mcp import MCPServer
from django_mcp.protocol.json import decode, encode
from django_mcp.transports.stdio.driver import Pipe
from tests.support.telemetry import SERVER, find_points, find_spans
from tests.support.wire import V2025_11_25, V2026_07_28, message

LIMIT_S = 10.0


class Client:
    def __init__(self, writing: int, reading: int) -> None:
        self._writing, self._reading = writing, reading

    async def send(self, sent: dict[str, Any]) -> dict[str, Any]:
        os.write(self._writing, encode(sent) + b"\n")
        line = b""
        async with asyncio.timeout(LIMIT_S):
            while not line.endswith(b"\n") or b'"id"' not in line:
                if line.endswith(b"\n"):
                    line = b""
                line += await asyncio.to_thread(os.read, self._reading, 1)
        answer: dict[str, Any] = decode(line)
        return answer

    def notify(self, method: str) -> None:
        os.write(self._writing, encode({"jsonrpc": "2.0", "method": method}) + b"\n")


@asynccontextmanager
async def connected(server: MCPServer) -> AsyncIterator[Client]:
    (server_reads, client_writes), (client_reads, server_writes) = os.pipe(), os.pipe()
    pipe = Pipe(server.engine, server_reads, server_writes, None, asyncio.Event())
    serving = asyncio.ensure_future(pipe.run())
    try:
        yield Client(client_writes, client_reads)
    finally:
        os.close(client_writes)
        async with asyncio.timeout(LIMIT_S):
            await serving
        os.close(client_reads)


@pytest.mark.parametrize("revision", [V2025_11_25, V2026_07_28], ids=lambda each: each.name)
async def test_a_call_on_a_pipe(server: MCPServer, revision: Any):
    async with connected(server) as client:
        if not revision.is_stateless:
            params = {"protocolVersion": revision.name, "capabilities": {}}
            params["clientInfo"] = {"name": "tests", "version": "1"}
            await client.send(message("initialize", params, revision=revision))
            client.notify("notifications/initialized")
        call = message("tools/call", {"name": "find_orders"}, revision=revision, id="a")
        answer = await client.send(call)
        unknown = await client.send(message("tools/nonsense", revision=revision, id="b"))

    assert "result" in answer
    assert unknown["error"]["code"] == -32601
    attributes = {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "find_orders",
        "mcp.protocol.version": revision.name,
        "network.transport": "pipe",
        "django_mcp.outcome": "done",
    }
    [span] = find_spans(server.name, "tools/call find_orders")
    found = dict(span.attributes or {})
    assert found.pop(SERVER) == server.name
    assert found == {**attributes, "jsonrpc.request.id": "a"}
    points = find_points("mcp.server.operation.duration", server.name)
    assert attributes in [each for each, _ in points]
    [span] = find_spans(server.name, "_OTHER")
    assert (span.attributes or {})["rpc.response.status_code"] == "-32601"
    assert "error.type" not in (span.attributes or {})


async def test_a_pipe_with_a_handshake_is_a_session(server: MCPServer):
    async with connected(server) as client:
        params = {"protocolVersion": V2025_11_25.name, "capabilities": {}}
        params["clientInfo"] = {"name": "tests", "version": "1"}
        await client.send(message("initialize", params, revision=V2025_11_25))
        client.notify("notifications/initialized")
        await client.send(message("ping", revision=V2025_11_25, id=2))
        assert find_points("mcp.server.session.duration", server.name) == []

    [(attributes, point)] = find_points("mcp.server.session.duration", server.name)
    assert attributes == {"mcp.protocol.version": V2025_11_25.name, "network.transport": "pipe"}
    assert point.count == 1


async def test_a_call_in_process_has_no_transport(server: MCPServer):
    await server.acall_tool("find_orders")

    [span] = find_spans(server.name, "tools/call find_orders")
    assert "network.transport" not in (span.attributes or {})
    assert (span.attributes or {})["mcp.protocol.version"] == V2026_07_28.name
