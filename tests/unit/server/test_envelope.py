"""Rules for every message: required capabilities, and ignored members."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from django_mcp.protocol.json import decode, encode
from django_mcp.protocol.revisions import REVISIONS, Revision
from django_mcp.server.exchange.call import CannotAsk, Suspended
from django_mcp.server.handlers.context import Context
from tests.support.server.plain import MCPServer
from tests.support.server.streams import StreamClient
from tests.support.wire import (
    HANDSHAKE,
    META,
    V2025_11_25,
    V2026_07_28,
    WireClient,
    headers_for,
    message,
)

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("tests")

    @server.tool
    async def greet(ctx: Context[Any], name: str = "you") -> str:
        await ctx.ainfo("greeting")
        return f"hello {name}"

    @server.tool
    async def fail(ctx: Context[Any], name: str = "") -> str:
        await ctx.aerror("about to fail")
        raise ValueError("the password is canary")

    @server.resource("stock://{sku}")
    def stock(sku: str) -> str:
        return sku

    return server


@pytest.fixture(params=REVISIONS)
def client(server: MCPServer, request: pytest.FixtureRequest) -> StreamClient:
    return StreamClient(server, request.param)


async def test_unknown_members_are_ignored(client: StreamClient) -> None:
    """They may be in the params, in `_meta`, beside them and in what is declared."""
    unknown: dict[str, Any] = {"x": [1, {"y": None}], "z": "é"}
    meta = {**unknown, "com.example/k": 1}
    params = {"name": "greet", "arguments": {"name": "Bo"}, **unknown, "_meta": meta}
    assert (await client.result("tools/call", params))["content"][0]["text"] == "hello Bo"

    listed = await client.result("tools/list", {**unknown, "_meta": meta})
    assert [tool["name"] for tool in listed["tools"]] == ["greet", "fail"]

    request = message("tools/list", unknown, revision=client.revision, id="beside")
    headers = headers_for(request, client.revision)
    if client.session_id is not None:
        headers["mcp-session-id"] = client.session_id
    reply = await client.post(encode({**request, **unknown}), headers)
    assert "result" in decode(reply.body or b"")


async def test_client_info_does_not_change_behaviour(server: MCPServer) -> None:
    said: list[Any] = [
        None,
        {"name": "admin", "version": "1"},
        {"name": "tests", "version": "9" * 1000, "title": "é", "x": []},
        {"name": 5},
        "root",
    ]
    answers = []
    for info in said:
        meta = {META + "clientInfo": info} if info is not None else {}
        client = StreamClient(server, V2026_07_28)
        for method, params in (
            ("server/discover", {}),
            ("tools/list", {}),
            ("tools/call", {"name": "greet", "arguments": {}}),
            ("tools/call", {"name": "unknown"}),
        ):
            answers.append(await client.send(method, {**params, "_meta": meta}))

    for place in range(4):
        assert all(answer == answers[place] for answer in answers[place::4])


@pytest.mark.http_only("an id in flight is used once on a pipe")
async def test_request_ids_may_be_shared_between_clients_and_reused(server: MCPServer) -> None:
    """Two concurrent clients use the same id, and one client uses an id again."""
    begun = asyncio.Semaphore(0)
    may_go = asyncio.Event()

    @server.tool
    async def wait(word: str) -> str:
        begun.release()
        await may_go.wait()
        return word

    clients = [StreamClient(server, V2026_07_28) for _ in range(2)]
    calls = [
        client.call_tool("wait", {"word": word})
        for client, word in zip([*clients, clients[0]], "abc", strict=True)
    ]
    async with asyncio.timeout(5):
        for _ in calls:
            await begun.acquire()
    may_go.set()
    answers = [await call.answer() for call in calls]
    again = await clients[0].call_tool("wait", {"word": "d"}).answer()

    assert [answer["id"] for answer in answers] == ["call"] * 3
    texts = [answer["result"]["content"][0]["text"] for answer in (*answers, again)]
    assert texts == ["a", "b", "c", "d"]


async def test_clients_only_receive_log_messages_of_handlers(
    client: StreamClient, caplog: pytest.LogCaptureFixture
) -> None:
    """A failure is logged by the server, and not sent to the client."""
    meta = {META + "logLevel": "debug"}
    if client.revision is not V2026_07_28:
        await client.result("logging/setLevel", {"level": "debug"})
    _, body = await client.send("tools/call", {"name": "fail", "_meta": meta})
    told = [each["params"] for each in client.sink.messages if "level" in each["params"]]

    assert told == [{"level": "error", "data": "about to fail"}]
    assert "canary" not in str(body)
    assert "canary" in caplog.text


async def test_trace_context_and_arguments_are_not_logged(
    client: StreamClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    meta = {"traceparent": PARENT, "tracestate": "a=canary", "baggage": "user=canary"}
    for name in ("greet", "fail", "unknown"):
        params = {"name": name, "arguments": {"name": "canary-argument"}, "_meta": meta}
        await client.send("tools/call", params)

    logged = [record for record in caplog.records if record.name.startswith("django_mcp")]
    assert logged
    assert not [each for each in logged if "canary-argument" in str(each.__dict__)]
    assert not [each for each in logged if PARENT in str(each.__dict__)]
    assert not [each for each in logged if "user=canary" in str(each.__dict__)]


@pytest.mark.http_only("on a pipe changes can be told whatever the mode")
@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_subscribe_is_unknown_without_resource_notifications(revision: Revision) -> None:
    """`subscribe` is not declared, and the methods are unknown."""
    server = MCPServer("tests", mode="stateless")
    server.resource("stock://{sku}", name="stock")(lambda sku: sku)
    client = WireClient(server, revision)
    params = {"protocolVersion": revision.name, "capabilities": {}}
    _, body = await client.send("initialize", params)

    assert body["result"]["capabilities"]["resources"] == {}
    for verb in ("subscribe", "unsubscribe"):
        status, error = await client.error(f"resources/{verb}", {"uri": "stock://a"})
        assert (status, error["code"]) == (200, -32601)


async def test_results_have_a_type_the_client_declared(server: MCPServer) -> None:
    """A client that declared nothing gets complete results from every tool."""

    @server.tool(task="allowed")
    async def long(ctx: Context[Any]) -> str:
        return "done"

    client = StreamClient(server, V2026_07_28)
    kinds = set()
    for method, params in (
        ("server/discover", {}),
        ("tools/list", {}),
        ("tools/call", {"name": "long", "task": {"ttl": 5}}),
        ("resources/read", {"uri": "stock://a"}),
        ("resources/list", {}),
    ):
        kinds.add((await client.result(method, params))["resultType"])

    assert kinds == {"complete"}


async def test_a_tool_works_without_the_extension_or_names_the_missing_one(
    server: MCPServer,
) -> None:
    """A text for everybody; a client of the extension finds the page as well."""
    page = "ui://shop/page"

    @server.tool(meta={"ui": {"resourceUri": page}})
    async def show() -> str:
        return "3 mugs"

    @server.resource(page, mime_type="text/html;profile=mcp-app", meta={"ui": {"csp": {}}})
    async def html() -> str:
        return "<p>3 mugs</p>"

    needed: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/ui": {}}}
    server.register_tool(show, name="only_shown", required_client_capabilities=needed)
    server.advertise_extension("io.modelcontextprotocol/ui")
    client = StreamClient(server, V2026_07_28)
    listed = {tool["name"]: tool for tool in (await client.result("tools/list"))["tools"]}
    read = (await client.result("resources/read", {"uri": page}))["contents"][0]
    status, error = await client.error("tools/call", {"name": "only_shown"})
    ui = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html"]}}}
    declared = {META + "clientCapabilities": ui}
    served = await client.result("tools/call", {"name": "only_shown", "_meta": declared})

    assert (await client.call("show"))["content"][0]["text"] == "3 mugs"
    assert listed["show"]["_meta"] == {"ui": {"resourceUri": page}}
    assert (read["mimeType"], read["text"]) == ("text/html;profile=mcp-app", "<p>3 mugs</p>")
    assert (status, error["code"]) == (400, -32021)
    assert error["data"] == {"requiredCapabilities": needed}
    assert served["content"][0]["text"] == "3 mugs"


async def test_no_deprecated_feature_is_used_by_default(server: MCPServer) -> None:
    """No log message, no root, no sampling, no context of other servers, no HTTP+SSE."""
    client = StreamClient(server, V2026_07_28)
    meta: dict[str, Any] = {META + "clientCapabilities": {"roots": {}, "sampling": {"context": {}}}}
    await client.result("tools/call", {"name": "greet", "arguments": {}, "_meta": meta})

    assert client.sink.messages == []
    assert server.engine.options.legacy_sse is False


async def test_client_requests_require_a_running_call(server: MCPServer) -> None:
    """What is left of a call has no way to the client any more."""
    client, left = await leave(server)
    with pytest.raises((Suspended, CannotAsk)):
        await left.alist_roots()
    answered = await left.aping_client(0.05)
    await client.result("ping")

    assert answered is None
    assert client.sink.messages == []


@pytest.mark.http_only("a pipe has no standalone stream")
async def test_a_standalone_stream_carries_no_client_requests(server: MCPServer) -> None:
    client, left = await leave(server)
    async with client.standalone() as stream:
        with pytest.raises((Suspended, CannotAsk)):
            await left.alist_roots()
        await left.aping_client(0.05)
        await client.result("ping")

        assert stream.sink.items.empty()


async def leave(server: MCPServer) -> tuple[StreamClient, Context[Any]]:
    """Return a client, and the context of one of its ended calls."""
    kept: list[Context[Any]] = []

    @server.tool
    async def end(ctx: Context[Any]) -> str:
        kept.append(ctx)
        return "ended"

    client = StreamClient(server, V2025_11_25)
    await client.open({"elicitation": {}, "roots": {}})
    await client.call("end")
    return client, kept[0]
