"""What is exported of clients of HTTP+SSE, whose messages and responses take different ways."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from django_mcp import MCPServer
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.server.streams.messenger import LocalBus
from django_mcp.telemetry.attributes import shorten
from django_mcp.transports import legacy_sse
from django_mcp.transports.legacy_sse import LegacyMessageConsumer, LegacyStreamConsumer
from tests.support.http.harness import GONE, Conversation, http_scope, part, talk, until
from tests.support.telemetry import SERVER, find_points, find_spans
from tests.support.wire import V2024_11_05, message
from tests.unit.telemetry.conftest import make_server

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OVER_HTTP = {
    "mcp.protocol.version": V2024_11_05.name,
    "network.transport": "tcp",
    "network.protocol.name": "http",
    "network.protocol.version": "1.1",
}


@pytest.fixture
def server(native: Any) -> MCPServer:
    return make_server(legacy_sse=True)


class Client:
    """A client with its stream open, as the test acts as the server of both URLs."""

    def __init__(self, server: MCPServer, stream: Conversation) -> None:
        self._server = server
        self.stream = stream
        self.query = stream.events[0].data.partition("?")[2]

    async def post(self, body: bytes, query: str | None = None) -> Conversation:
        query = self.query if query is None else query
        scope = http_scope(path="/messages", query_string=query.encode(), client=("192.0.2.7", 99))
        return await talk(LegacyMessageConsumer.as_asgi(server=self._server), scope, part(body))

    async def send(self, method: str, params: dict[str, Any] | None = None, id: Any = 1) -> Any:
        """Post a request, and return the response, which comes on the stream."""
        posted = await self.post(encode(message(method, params, revision=V2024_11_05, id=id)))
        assert (posted.status, posted.body) == (202, b"")
        return await self.response(id)

    async def response(self, id: Any) -> dict[str, Any]:
        found: list[dict[str, Any]] = []

        def has_come() -> bool:
            told = [json.loads(each.data) for each in self.stream.events if each.event == "message"]
            found[:] = [each for each in told if each["id"] == id]
            return bool(found)

        await until(has_come)
        return found[0]

    async def leave(self) -> None:
        self.stream.put(GONE)
        await self.stream.end()


@asynccontextmanager
async def connected(server: MCPServer) -> AsyncIterator[Client]:
    scope = http_scope("GET", {"accept": "text/event-stream"}, path="/sse")
    stream = Conversation(LegacyStreamConsumer.as_asgi(server=server), scope, part())
    await stream.until_sent(2)
    client = Client(server, stream)
    params = {"protocolVersion": V2024_11_05.name, "capabilities": {}}
    params["clientInfo"] = {"name": "tests", "version": "1"}
    await client.send("initialize", params, id="first")
    yield client
    if not stream.task.done():
        await client.leave()


def only(spans: list[ReadableSpan]) -> ReadableSpan:
    assert len(spans) == 1, [span.name for span in spans]
    return spans[0]


def read(span: ReadableSpan) -> dict[str, Any]:
    return {key: value for key, value in (span.attributes or {}).items() if key != SERVER}


def find_keys(server: MCPServer) -> list[str]:
    sessions = list(server.engine.hub.sessions.values())
    return [session.key for session in sessions if session.server_name == server.name]


async def test_a_call_has_a_span_and_a_duration(server: MCPServer):
    async with connected(server) as client:
        answer = await client.send("tools/call", {"name": "find_orders"}, id="a")
        [key] = find_keys(server)

    assert "result" in answer
    common = {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "find_orders",
        **OVER_HTTP,
        "django_mcp.outcome": "done",
    }
    session = {"mcp.session.id": shorten(key)}
    span = only(find_spans(server.name, "tools/call find_orders"))
    assert span.kind is SpanKind.SERVER
    assert span.status.status_code is StatusCode.UNSET
    assert read(span) == {**common, **session, "jsonrpc.request.id": "a"}
    handshake = only(find_spans(server.name, "initialize"))
    assert read(handshake) == {
        "mcp.method.name": "initialize",
        **OVER_HTTP,
        **session,
        "jsonrpc.request.id": "first",
        "django_mcp.outcome": "done",
    }
    operations = find_points("mcp.server.operation.duration", server.name)
    assert [point.count for attributes, point in operations if attributes == common] == [1]
    [(attributes, size)] = find_points("django_mcp.result.size", server.name)
    assert attributes == {"mcp.method.name": "tools/call", "gen_ai.tool.name": "find_orders"}
    assert size.count == 1
    # What gives access to the stream is in none.
    token = client.query.partition("=")[2]
    assert token
    assert token not in str([read(each) for each in find_spans(server.name)])


async def test_a_call_is_a_part_of_the_request_that_brings_it(server: MCPServer):
    tracer = trace.get_tracer("http")
    with tracer.start_as_current_span("GET /sse"):
        connection = connected(server)
        client = await connection.__aenter__()
    with tracer.start_as_current_span("POST /messages") as around:
        await client.send("tools/call", {"name": "find_orders"}, id=2)
        params = {"name": "refuse", "_meta": {"traceparent": PARENT}}
        await client.send("tools/call", params, id=3)
    await connection.__aexit__(None, None, None)

    plain = only(find_spans(server.name, "tools/call find_orders"))
    assert plain.parent == around.get_span_context()
    assert plain.links == ()
    sent = only(find_spans(server.name, "tools/call refuse"))
    assert sent.parent is not None
    assert f"{sent.parent.span_id:016x}" == PARENT[36:52]
    assert [link.context for link in sent.links] == [around.get_span_context()]


class QueueBus(LocalBus):
    """Receives what it has sent, in a task of its own, as if another process had sent it."""

    is_shared = True

    def __init__(self) -> None:
        self._sent: asyncio.Queue[JSONObject] = asyncio.Queue()
        self.may_deliver = asyncio.Event()

    def start(self, receive: Callable[[JSONObject], None]) -> None:
        self._receiving = asyncio.create_task(self._receive(receive))

    async def _receive(self, receive: Callable[[JSONObject], None]) -> None:
        while True:
            sent = await self._sent.get()
            await self.may_deliver.wait()
            receive(sent)

    async def send(self, *messages: JSONObject) -> None:
        for each in messages:
            self._sent.put_nowait(each)

    async def stop(self) -> None:
        self._receiving.cancel()


async def test_a_call_that_another_process_passes_on_is_a_part_of_no_other_request(
    server: MCPServer, monkeypatch: pytest.MonkeyPatch
):
    bus = QueueBus()
    monkeypatch.setattr(server.engine.hub, "bus", bus)
    with trace.get_tracer("http").start_as_current_span("GET /sse"):
        connection = connected(server)
        client = await connection.__aenter__()
    with monkeypatch.context() as patch:
        patch.setattr(legacy_sse, "_connections", {})
        body = encode(message("tools/call", {"name": "find_orders"}, revision=V2024_11_05, id=2))
        assert (await client.post(body)).status == 202
    bus.may_deliver.set()
    await client.response(2)
    await connection.__aexit__(None, None, None)
    await bus.stop()

    span = only(find_spans(server.name, "tools/call find_orders"))
    assert (span.parent, span.links) == (None, ())
    assert read(span)["network.protocol.version"] == "1.1"


@pytest.mark.parametrize(
    ("tool", "outcome", "error_type", "status"),
    [
        ("refuse", "failed", "tool_error", StatusCode.UNSET),
        ("break_down", "fault", "tool_error", StatusCode.ERROR),
        ("made_up", "refused", None, StatusCode.UNSET),
    ],
)
async def test_the_ends_of_calls(
    server: MCPServer, tool: str, outcome: str, error_type: str | None, status: StatusCode
):
    async with connected(server) as client:
        await client.send("tools/call", {"name": tool}, id=2)

    name = "_OTHER" if tool == "made_up" else tool
    span = only(find_spans(server.name, f"tools/call {name}"))
    assert read(span)["django_mcp.outcome"] == outcome
    assert read(span).get("error.type") == error_type
    assert read(span).get("rpc.response.status_code") == (None if error_type else "-32602")
    assert span.status.status_code is status


async def test_a_notification(server: MCPServer):
    async with connected(server) as client:
        sent = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await client.post(encode(sent))).status == 202
        await until(lambda: bool(find_spans(server.name, "notifications/initialized")))
        [key] = find_keys(server)

    found = read(only(find_spans(server.name, "notifications/initialized")))
    assert found == {
        "mcp.method.name": "notifications/initialized",
        **OVER_HTTP,
        "mcp.session.id": shorten(key),
        "django_mcp.outcome": "done",
    }


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"jsonrpc":"2.0"}'])
async def test_what_is_no_message(server: MCPServer, body: bytes):
    async with connected(server) as client:
        posted = await client.post(body)
        [key] = find_keys(server)

    code = str(json.loads(posted.body)["error"]["code"])
    assert posted.status == 400
    span = only(find_spans(server.name, "_OTHER"))
    assert read(span) == {
        "mcp.method.name": "_OTHER",
        **OVER_HTTP,
        "mcp.session.id": shorten(key),
        "rpc.response.status_code": code,
        "django_mcp.outcome": "refused",
    }
    [(attributes, point)] = find_points("django_mcp.refusals", server.name)
    assert attributes == {"http.response.status_code": 400, "rpc.response.status_code": code}
    assert point.value == 1


async def test_a_message_for_no_stream_is_a_refusal(server: MCPServer):
    async with connected(server) as client:
        body = encode(message("ping", revision=V2024_11_05))
        assert (await client.post(body, "session_id=forged")).status == 404

    assert find_spans(server.name, "ping") == []
    [(attributes, _point)] = find_points("django_mcp.refusals", server.name)
    assert attributes["http.response.status_code"] == 404


async def test_a_connection_has_a_duration_and_its_calls_end_with_it(server: MCPServer):
    began = asyncio.Event()

    @server.tool
    async def wait() -> None:
        began.set()
        await asyncio.Event().wait()

    def count(name: str) -> list[int]:
        return [point.value for _, point in find_points(name, server.name)]

    async with connected(server) as client:
        body = encode(message("tools/call", {"name": "wait"}, revision=V2024_11_05, id=2))
        assert (await client.post(body)).status == 202
        await began.wait()
        assert count("django_mcp.calls.running") == [1]
        [(attributes, point)] = find_points("django_mcp.streams.open", server.name)
        assert (attributes, point.value) == ({"django_mcp.stream.kind": "sse"}, 1)
        assert find_points("mcp.server.session.duration", server.name) == []
        await client.leave()
        await until(lambda: count("django_mcp.calls.running") == [0])

    span = only(find_spans(server.name, "tools/call wait"))
    assert read(span)["django_mcp.outcome"] == "cancelled"
    assert span.status.status_code is StatusCode.UNSET
    assert count("django_mcp.streams.open") == [0]
    [(attributes, point)] = find_points("django_mcp.stream.duration", server.name)
    assert (attributes, point.count) == ({"django_mcp.stream.kind": "sse"}, 1)
    [(attributes, point)] = find_points("mcp.server.session.duration", server.name)
    assert attributes == {
        "mcp.protocol.version": V2024_11_05.name,
        "network.transport": "tcp",
        "network.protocol.name": "http",
    }
    assert point.count == 1


async def test_details_are_those_of_the_request_with_the_message(native: Any):
    details = ["client_address", "session_id", "arguments", "results"]
    native.DJANGO_MCP = {**native.DJANGO_MCP, "TELEMETRY_DETAILS": details}
    server = make_server(legacy_sse=True)
    async with connected(server) as client:
        call = {"name": "find_orders", "arguments": {"query": "5"}}
        await client.send("tools/call", call, id=2)
        keys = find_keys(server)

    found = read(only(find_spans(server.name, "tools/call find_orders")))
    assert (found["client.address"], found["client.port"]) == ("192.0.2.7", 99)
    assert [found["mcp.session.id"]] == keys
    assert found["gen_ai.tool.call.arguments"] == '{"query":"5"}'
    assert "orders 5" in found["gen_ai.tool.call.result"]
