from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_mcp.protocol.errors import METHOD_NOT_FOUND
from django_mcp.protocol.headers import Headers
from django_mcp.protocol.json import decode, encode
from django_mcp.protocol.revisions import REVISIONS, Revision
from django_mcp.server.exchange.channel import Channel
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.handlers.context import Context
from tests.support.server.plain import MCPServer
from tests.support.server.streams import LIMIT_S, StreamClient
from tests.support.wire import (
    HANDSHAKE,
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
    WireClient,
    message,
)

by_name = pytest.mark.parametrize("revision", HANDSHAKE)


@by_name
async def test_initialize_returns_version_capabilities_and_server_info(
    server: MCPServer, revision: Revision
) -> None:
    result = await WireClient(server, revision).result(
        "initialize",
        {
            "protocolVersion": revision.name,
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        },
    )

    assert result["protocolVersion"] == revision.name
    assert result["capabilities"] == {"logging": {}}
    assert result["serverInfo"]["name"] == "tests"
    assert result["serverInfo"]["version"] == "1.2.3"
    assert result["instructions"] == "Be kind."


@pytest.mark.parametrize("asked", ["1900-01-01", V2026_07_28.name, ""])
async def test_an_unknown_version_gets_the_newest_handshake_revision(
    server: MCPServer, asked: str
) -> None:
    result = await WireClient(server, V2025_11_25).result(
        "initialize",
        {
            "protocolVersion": asked,
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        },
    )

    assert result["protocolVersion"] == V2025_11_25.name


async def test_server_info_has_only_fields_the_revision_knows(server: MCPServer) -> None:
    keys = {}
    for revision in HANDSHAKE:
        params = {"protocolVersion": revision.name, "capabilities": {}}
        result = await WireClient(server, revision).send("initialize", params)
        keys[revision.name] = set(result[1]["result"]["serverInfo"])

    assert keys[V2024_11_05.name] == keys[V2025_03_26.name] == {"name", "version"}
    assert keys[V2025_06_18.name] == {"name", "version", "title"}
    assert keys[V2025_11_25.name] == {"name", "version", "title", "description"}


async def test_discover_returns_versions_capabilities_and_server_info(newest: WireClient) -> None:
    result = await newest.result("server/discover")

    assert result["supportedVersions"] == [V2026_07_28.name]
    assert result["resultType"] == "complete"
    assert result["instructions"] == "Be kind."
    assert (result["ttlMs"], result["cacheScope"]) == (0, "private")
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"] == {
        "name": "tests",
        "version": "1.2.3",
        "title": "Tests",
        "description": "d",
    }


async def test_server_info_can_be_left_out_of_results() -> None:
    quiet = MCPServer("tests", has_server_info=False)

    assert "_meta" not in await WireClient(quiet, V2026_07_28).result("server/discover")


async def test_capabilities_follow_the_registered_entries(
    server: MCPServer, client: WireClient
) -> None:
    assert (await client.error("tools/list"))[1]["code"] == -32601
    assert (await client.error("prompts/list"))[1]["code"] == -32601
    assert (await client.error("resources/list"))[1]["code"] == -32601
    assert (await client.error("completion/complete"))[1]["code"] == -32601

    server.register_tool(name="t", input_schema={"type": "object"}, handler=lambda arguments: "x")
    assert (await client.result("tools/list"))["tools"][0]["name"] == "t"
    server.remove_tool("t")
    assert (await client.error("tools/list"))[1]["code"] == -32601


@pytest.mark.http_only("a pipe can")
async def test_a_transport_without_streaming_has_no_logging_capability(server: MCPServer) -> None:
    silent = WireClient(server, V2026_07_28, streams=False)

    assert (await silent.result("server/discover"))["capabilities"] == {}
    assert (await WireClient(server, V2025_11_25, streams=False).error("logging/setLevel"))[1][
        "code"
    ] == -32601


@by_name
async def test_ping_returns_an_empty_result(server: MCPServer, revision: Revision) -> None:
    assert await WireClient(server, revision).result("ping") == {}


async def test_a_persistent_connection_goes_through_its_lifecycle(server: MCPServer) -> None:
    connection = ConnectionState()

    async def say(method: str, params: dict | None = None) -> dict:
        text = encode(message(method, params, revision=V2024_11_05)).decode()
        return decode(await server.handle_raw(text, connection=connection))

    assert "error" in await say("tools/list")
    assert (await say("ping"))["result"] == {}
    await say("initialize", {"protocolVersion": V2025_06_18.name, "capabilities": {"roots": {}}})

    assert connection.revision is V2025_06_18
    assert connection.client_capabilities == {"roots": {}}
    assert (
        await server.handle_raw(
            '{"jsonrpc":"2.0","method":"notifications/initialized"}', connection=connection
        )
        == ""
    )
    assert connection.is_initialized


async def test_two_stateless_requests_on_stdio_share_no_state(server: MCPServer) -> None:
    connection = ConnectionState()
    text = encode(message("server/discover", revision=V2026_07_28)).decode()

    answer = decode(await server.handle_raw(text, connection=connection))

    assert answer["result"]["supportedVersions"] == [V2026_07_28.name]
    assert connection.revision is None


@pytest.mark.http_only("it is told by headers")
async def test_a_server_may_support_only_some_revisions() -> None:
    modern = MCPServer("tests", revisions=[V2026_07_28.name])
    legacy = MCPServer("tests", revisions=[V2025_06_18.name, V2025_11_25.name])

    status, error = await WireClient(modern, V2025_11_25).error(
        "initialize", {"protocolVersion": V2025_11_25.name}
    )
    assert (status, error["code"]) == (400, -32020)
    assert V2026_07_28.name in error["message"]
    status, error = await WireClient(legacy, V2026_07_28).error("server/discover")
    assert (status, error["code"]) == (400, -32600)


async def test_streams_and_sessions_are_rejected_in_stateless_mode(server: MCPServer) -> None:
    for reply in (
        await server.engine.open_stream(Exchange()),
        await server.engine.end_session(Exchange()),
    ):
        assert reply.status == 405
        assert dict(reply.headers)[b"allow"] == b"POST, OPTIONS"


@pytest.mark.http_only("a pipe has no verbs")
async def test_a_server_without_a_handshake_has_no_streams_and_no_sessions() -> None:
    """Only POST is served if no revision opens with `initialize`."""
    modern = MCPServer("tests", revisions=[V2026_07_28.name])

    for entry in (modern.engine.open_stream, modern.engine.end_session):
        reply = await entry(Exchange(headers=Headers(()), channel=Channel(can_stream=True)))
        assert reply.status == 405
        assert dict(reply.headers)[b"allow"] == b"POST, OPTIONS"


@pytest.mark.http_only("a pipe has no verbs")
@pytest.mark.parametrize(
    ("version", "is_buffered", "allowed"),
    [
        (V2026_07_28.name, False, b"POST, OPTIONS"),
        (V2025_11_25.name, True, b"POST, DELETE, OPTIONS"),
        (V2025_11_25.name, False, b"GET, POST, DELETE, OPTIONS"),
    ],
)
async def test_allow_lists_only_supported_methods(
    version: str, is_buffered: bool, allowed: bytes
) -> None:
    headers = Headers([(b"mcp-protocol-version", version.encode())])
    exchange = Exchange(headers=headers, channel=Channel(is_buffered=is_buffered))

    reply = await MCPServer("tests").engine.open_stream(exchange)

    assert reply.status == 405
    assert dict(reply.headers)[b"allow"] == allowed


async def test_notifications_get_no_response(client: WireClient) -> None:
    for method in ("notifications/cancelled", "notifications/unknown", "tools/list"):
        body = encode({"jsonrpc": "2.0", "method": method, "params": {}})
        reply = await client.post(body, {"mcp-protocol-version": client.revision.name})
        assert (reply.status, reply.body) == (202, None)


async def test_a_stray_response_is_dropped_or_rejected(client: WireClient) -> None:
    body = encode({"jsonrpc": "2.0", "id": 9, "result": {}})

    reply = await client.post(body, {"mcp-protocol-version": client.revision.name})

    assert reply.status == (400 if client.revision is V2026_07_28 else 202)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", marks=pytest.mark.http_only("blank lines are no messages")),
        b"{",
        b"\xff",
        b"[]",
        b"5",
        b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
    ],
)
async def test_an_invalid_message_is_rejected_without_an_id(
    client: WireClient, body: bytes
) -> None:
    reply = await client.post(body, {"mcp-protocol-version": client.revision.name})

    assert reply.status == 400
    assert reply.body is not None
    answer = decode(reply.body)
    assert answer["error"]["code"] in (-32700, -32600)
    assert "id" not in answer


@pytest.mark.http_only("the header chooses the revision here: test_process of stdio")
async def test_batches_are_answered_in_revisions_that_have_them(server: MCPServer) -> None:
    batch = [
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        7,
        {"jsonrpc": "2.0", "id": "b", "method": "no/such"},
    ]
    for revision in REVISIONS:
        client = WireClient(server, revision)
        reply = await client.post(encode(batch), {"mcp-protocol-version": revision.name})
        assert reply.body is not None
        answer = decode(reply.body)
        if revision is V2025_03_26:
            assert reply.status == 200
            assert [each.get("id") for each in answer] == [1, None, "b"]
            assert answer[0]["result"] == {}
            assert answer[2]["error"]["code"] == -32601
        else:
            assert (reply.status, answer["error"]["code"]) == (400, -32600)
    quiet = await WireClient(server, V2025_03_26).post(encode(batch[1:2]), {})
    assert (quiet.status, quiet.body) == (202, None)


@pytest.mark.http_only("the header chooses the revision here: test_process of stdio")
async def test_batch_members_run_concurrently_and_are_cancelled_separately() -> None:
    server = MCPServer("tests")
    meeting = asyncio.Barrier(2)

    @server.tool
    async def meet() -> str:
        await meeting.wait()
        return "met"

    @server.tool
    async def wait() -> str:
        await asyncio.Event().wait()
        return "?"

    def call(id: str, name: str) -> dict[str, Any]:
        params = {"name": name, "arguments": {}}
        return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}

    cancel = {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": "c"},
    }
    client = WireClient(server, V2025_03_26)
    await client.open()
    async with asyncio.timeout(10):
        batch = [call("a", "meet"), call("c", "wait"), cancel, call("b", "meet"), call("c", "meet")]
        reply = await client.post(
            encode(batch),
            {"mcp-protocol-version": V2025_03_26.name, "mcp-session-id": str(client.session_id)},
        )

    answers = decode(reply.body or b"")
    assert [each["id"] for each in answers] == ["a", "c", "b", "c"]
    assert [each["result"]["content"][0]["text"] for each in answers[::2]] == ["met", "met"]
    assert "error" in answers[1]
    assert answers[3]["error"]["code"] == -32600


@pytest.mark.http_only("the header chooses the revision here")
@pytest.mark.parametrize("is_batch", [False, True], ids=["alone", "in a batch"])
async def test_a_call_outlives_its_client_and_sends_it_nothing_more(is_batch: bool) -> None:
    server = MCPServer("tests", mode="stateless")
    has_begun, may_end, ended = asyncio.Event(), asyncio.Event(), []

    @server.tool
    async def work(ctx: Context[Any]) -> None:
        await ctx.aprogress(1)
        has_begun.set()
        await may_end.wait()
        await ctx.aprogress(2)
        ended.append(ctx.is_cancelled)

    params = {"name": "work", "_meta": {"progressToken": 1}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    client = StreamClient(server, V2025_03_26)
    headers = {"mcp-protocol-version": V2025_03_26.name}
    running = client.run(server.engine.answer, headers, encode([request] if is_batch else request))
    async with asyncio.timeout(LIMIT_S):
        await has_begun.wait()
        running.leave()
        may_end.set()
        await running.reply()

    assert ended == [False]
    assert [(await running.sink.message())["params"]["progress"]] == [1]
    assert running.sink.items.empty()


async def test_handle_accepts_a_parsed_message(server: MCPServer) -> None:
    assert await server.handle(message("ping", revision=V2025_11_25, id="x")) == {
        "jsonrpc": "2.0",
        "id": "x",
        "result": {},
    }
    assert await server.handle({"jsonrpc": "2.0", "method": "notifications/x"}) is None
    assert decode(await server.handle_raw("{"))["error"]["code"] == -32700


@pytest.mark.http_only("a pipe has no headers")
@pytest.mark.parametrize(
    "method", ["resources/subscribe", "resources/unsubscribe", "logging/setLevel"]
)
async def test_a_client_that_accepts_no_streams_is_told_what_to_accept(method: str) -> None:
    server = MCPServer("tests")

    @server.resource("shop://news")
    def news() -> str:
        return ""

    client = WireClient(server, V2025_11_25, streams=False)
    params = {"uri": "shop://news", "level": "info"}
    status, body = await client.send(method, params, accept="application/json")

    assert status == 406
    assert "Accept: application/json, text/event-stream" in body["error"]["message"]
    assert (await client.send(method, params))[1]["error"]["code"] == METHOD_NOT_FOUND


@pytest.mark.http_only("a pipe has no headers")
async def test_a_server_that_cannot_push_has_no_subscriptions_whatever_is_accepted() -> None:
    server = MCPServer("tests", mode="stateless")
    server.register_resource("shop://news", lambda: "", name="news")

    client = WireClient(server, V2025_11_25, streams=False)
    _, body = await client.send("resources/subscribe", {"uri": "x:y"}, accept="application/json")

    assert body["error"]["code"] == METHOD_NOT_FOUND


async def test_a_handler_can_read_which_log_messages_its_client_wants() -> None:
    server = MCPServer("tests", log_level="notice")

    @server.tool
    async def level(ctx: Context[Any]) -> str:
        return str(ctx.log_level)

    async def level_at(client: WireClient) -> str:
        result = await client.result("tools/call", {"name": "level"})
        return str(result["content"][0]["text"])

    old = WireClient(server, V2025_11_25)
    assert await level_at(old) == "notice"
    await old.result("logging/setLevel", {"level": "error"})
    assert await level_at(old) == "error"
    assert await level_at(WireClient(server, V2026_07_28)) == "None"
