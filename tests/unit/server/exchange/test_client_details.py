"""Storage of clientInfo and client capabilities: known fields, up to 8 KiB."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp.extensions.tasks.core.ports import ports_of
from django_mcp.protocol.revisions import Revision
from django_mcp.protocol.sanitize import MAX_CLIENT_BYTES
from django_mcp.server.handlers.context import Context
from tests.support.server.plain import MCPServer
from tests.support.server.streams import StreamClient
from tests.support.server.tasks import Modern, make_server
from tests.support.wire import HANDSHAKE, META, V2026_07_28, WireClient

ICON = {"src": "data:image/png;base64," + "A" * 10_000}


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("tests")

    @server.tool
    def describe(ctx: Context[Any]) -> dict[str, Any]:
        return {"info": ctx.client_info, "capabilities": ctx.client_capabilities}

    return server


@pytest.fixture(params=HANDSHAKE)
def client(server: MCPServer, request: pytest.FixtureRequest) -> WireClient:
    return WireClient(server, request.param)


def introduction(revision: Revision, info: Any, capabilities: Any) -> dict[str, Any]:
    return {"protocolVersion": revision.name, "clientInfo": info, "capabilities": capabilities}


async def initialize(client: WireClient, info: Any, capabilities: Any) -> None:
    status, _ = await client.send("initialize", introduction(client.revision, info, capabilities))
    assert status == 200
    # Over stdio there is no session id, but the connection is initialized.
    client.session_id = client.session_id or "pipe"
    await client.ready()


async def test_a_session_stores_only_known_client_info_fields(client: WireClient) -> None:
    experimental = {"anything": {"at": ["all"]}}
    await initialize(
        client,
        {"name": "c", "version": "1", "title": "C", "unknown": "x" * 100_000},
        {"roots": {}, "experimental": experimental, "unknown": ["y" * 100_000]},
    )

    kept = (await client.call("describe"))["content"][0]["text"]

    assert "unknown" not in kept
    assert '"anything"' in kept
    assert '"title"' in kept


async def test_a_session_drops_client_icons_before_rejecting_the_handshake(
    client: WireClient,
) -> None:
    info = {"name": "c", "version": "1", "icons": [ICON]}
    await initialize(client, info, {})

    assert '"icons"' not in (await client.call("describe"))["content"][0]["text"]


@pytest.mark.parametrize(
    ("info", "capabilities"),
    [
        ({"name": "x" * 9000, "version": "1", "icons": [ICON]}, {}),
        ({"name": "c", "version": "1"}, {"experimental": {"x": "y" * 9000}}),
        ({"name": "c", "version": "1"}, {"extensions": {"x/y": {"z": ["y" * 9000]}}}),
    ],
)
async def test_a_handshake_with_over_8_kib_of_client_details_is_rejected(
    client: WireClient, info: Any, capabilities: Any
) -> None:
    params = introduction(client.revision, info, capabilities)
    status, error = await client.error("initialize", params)

    assert (status, error["code"]) == (200, -32602)
    assert str(MAX_CLIENT_BYTES) in error["message"]
    assert client.session_id is None


async def test_a_stateless_call_may_send_over_8_kib_of_client_details(server: MCPServer) -> None:
    client = WireClient(server, V2026_07_28)
    large = {META + "clientInfo": {"name": "x" * 9000, "version": "1"}}

    assert "x" * 9000 in (await client.call("describe", _meta=large))["content"][0]["text"]


async def test_a_listen_stream_rejects_over_8_kib_of_client_details(
    server: MCPServer,
) -> None:
    client = StreamClient(server, V2026_07_28)
    info = {"name": "c", "version": "1", "unknown": "x" * 100_000}
    wanted = {"notifications": {"toolsListChanged": True}}

    status, error = await client.error(
        "subscriptions/listen", {**wanted, "_meta": {META + "clientInfo": {"name": "x" * 9000}}}
    )
    assert (status, error["code"]) == (200, -32602)
    assert str(MAX_CLIENT_BYTES) in error["message"]

    stream = client.begin("subscriptions/listen", {**wanted, "_meta": {META + "clientInfo": info}})
    await stream.sink.message()
    (kept,) = server.engine.hub.streams.values()
    assert kept.client_info == {"name": "c", "version": "1"}
    stream.leave()


async def test_a_task_rejects_over_8_kib_of_client_details() -> None:
    server, gate = make_server()
    client = Modern(server)
    info = {"name": "c", "version": "1", "unknown": "x" * 100_000}

    status, error = await client.error(
        "tools/call", {"name": "wait", "_meta": {META + "clientInfo": {"name": "x" * 9000}}}
    )
    assert (status, error["code"]) == (200, -32602)
    assert not gate.has_begun.is_set()

    made = await client.raw("tools/call", {"name": "wait", "_meta": {META + "clientInfo": info}})
    task = (await ports_of(server.engine).store.find([made["taskId"]]))[made["taskId"]]
    assert task.call["client_info"] == {"name": "c", "version": "1"}
    assert META + "clientInfo" not in task.call["meta"]
    gate.may_go_on.set()
