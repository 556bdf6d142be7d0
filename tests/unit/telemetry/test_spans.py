"""The spans of messages, in revisions with sessions and without."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from django_mcp import MCPServer
from django_mcp.telemetry.attributes import shorten
from django_mcp.transports.http.consumer import MCPConsumer
from tests.support.http.harness import GONE, Conversation, http_scope, part, talk
from tests.support.telemetry import SERVER, find_spans
from tests.support.wire import (
    V2025_03_26,
    V2025_11_25,
    V2026_07_28,
    WireClient,
    headers_for,
    message,
)
from tests.unit.telemetry.conftest import make_server

ERAS = pytest.mark.parametrize("revision", [V2025_11_25, V2026_07_28], ids=lambda each: each.name)
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def only(spans: list[ReadableSpan]) -> ReadableSpan:
    assert len(spans) == 1, [span.name for span in spans]
    return spans[0]


def read(span: ReadableSpan) -> dict[str, Any]:
    return {key: value for key, value in (span.attributes or {}).items() if key != SERVER}


async def send(
    server: MCPServer, revision: Any, method: str, params: dict[str, Any] | None = None
) -> tuple[WireClient, dict[str, Any]]:
    client = WireClient(server, revision)
    _, body = await client.send(method, params)
    return client, body


def find_session(server: MCPServer) -> str | None:
    sessions = list(server.engine.hub.sessions.values())
    keys = [session.key for session in sessions if session.server_name == server.name]
    return shorten(keys[0]) if keys else None


@ERAS
async def test_a_call_of_a_tool(server: MCPServer, revision: Any):
    _client, body = await send(server, revision, "tools/call", {"name": "find_orders"})

    assert "result" in body
    span = only(find_spans(server.name, "tools/call find_orders"))
    assert span.kind is SpanKind.SERVER
    assert span.status.status_code is StatusCode.UNSET
    session = find_session(server)
    assert (session is None) is revision.is_stateless
    assert read(span) == {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "find_orders",
        "mcp.protocol.version": revision.name,
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "django_mcp.outcome": "done",
        "jsonrpc.request.id": str(body["id"]),
        **({} if session is None else {"mcp.session.id": session}),
    }


@ERAS
@pytest.mark.parametrize(
    ("method", "params", "name", "more"),
    [
        ("tools/list", {}, "tools/list", {}),
        (
            "prompts/get",
            {"name": "apology", "arguments": {"order": "5"}},
            "prompts/get apology",
            {"gen_ai.prompt.name": "apology"},
        ),
        (
            "resources/read",
            {"uri": "order://7"},
            "resources/read",
            {"django_mcp.resource.name": "order"},
        ),
    ],
)
async def test_other_methods(
    server: MCPServer, revision: Any, method: str, params: Any, name: str, more: dict[str, str]
):
    _client, body = await send(server, revision, method, params)

    assert "result" in body
    found = read(only(find_spans(server.name, name)))
    assert found["mcp.method.name"] == method
    assert found["django_mcp.outcome"] == "done"
    names = {"gen_ai.prompt.name", "gen_ai.tool.name", "gen_ai.operation.name"}
    names.add("django_mcp.resource.name")
    assert {key: value for key, value in found.items() if key in names} == more
    assert "mcp.resource.uri" not in found


@ERAS
@pytest.mark.parametrize(
    ("method", "params", "name", "code", "is_error"),
    [
        ("tools/nonsense", {}, "_OTHER", "-32601", False),
        ("tools/call", {"name": "made_up"}, "tools/call _OTHER", "-32602", False),
        ("tools/call", {"name": "hidden"}, "tools/call _OTHER", "-32602", False),
        ("prompts/get", {"name": "made_up"}, "prompts/get _OTHER", "-32602", False),
        ("resources/read", {"uri": "x://y"}, "resources/read", None, False),
    ],
)
async def test_faults_of_the_caller_are_no_errors(
    server: MCPServer,
    revision: Any,
    method: str,
    params: Any,
    name: str,
    code: str | None,
    is_error: bool,
):
    _client, body = await send(server, revision, method, params)

    span = only(find_spans(server.name, name))
    found = read(span)
    assert found["rpc.response.status_code"] == (code or str(body["error"]["code"]))
    assert found["rpc.response.status_code"] == str(body["error"]["code"])
    assert "error.type" not in found
    assert found["django_mcp.outcome"] == "refused"
    assert span.status.status_code is StatusCode.UNSET
    assert "made_up" not in str(found)
    assert "nonsense" not in str(found)


@ERAS
@pytest.mark.parametrize(
    ("tool", "outcome", "status"),
    [
        ("refuse", "failed", StatusCode.UNSET),
        ("break_down", "fault", StatusCode.ERROR),
        ("sleep", "timeout", StatusCode.ERROR),
    ],
)
async def test_results_that_are_errors(
    server: MCPServer, revision: Any, tool: str, outcome: str, status: StatusCode
):
    _client, body = await send(server, revision, "tools/call", {"name": tool})

    assert body["result"]["isError"] is True
    span = only(find_spans(server.name, f"tools/call {tool}"))
    found = read(span)
    assert found["error.type"] == "tool_error"
    assert found["django_mcp.outcome"] == outcome
    assert "rpc.response.status_code" not in found
    assert span.status.status_code is status
    assert span.status.description is None
    assert span.events == ()
    assert "secret" not in str(found)
    reference = found.get("django_mcp.error.reference")
    assert (reference is not None) is (tool == "break_down")
    assert reference is None or reference in body["result"]["content"][0]["text"]


async def test_an_internal_error_is_an_error(server: MCPServer, monkeypatch: pytest.MonkeyPatch):
    @server.resource("broken://x")
    def broken() -> str:
        raise RuntimeError

    _client, body = await send(server, V2026_07_28, "resources/read", {"uri": "broken://x"})

    assert body["error"]["code"] == -32603
    span = only(find_spans(server.name, "resources/read"))
    assert read(span)["error.type"] == "-32603"
    assert read(span)["rpc.response.status_code"] == "-32603"
    assert span.status.status_code is StatusCode.ERROR


async def test_a_wrong_header_is_an_error_by_its_code(server: MCPServer):
    client = WireClient(server, V2026_07_28)

    _, body = await client.send("tools/list", mcp_method="tools/call")

    found = read(only(find_spans(server.name, "tools/list")))
    assert found["rpc.response.status_code"] == str(body["error"]["code"])
    assert found["error.type"] == str(body["error"]["code"]) == "-32020"


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"jsonrpc":"2.0"}'])
async def test_what_is_no_message(server: MCPServer, body: bytes):
    client = WireClient(server, V2026_07_28)

    reply = await client.post(body, {"content-type": "application/json"})

    code = json.loads(reply.body or b"")["error"]["code"]
    span = only(find_spans(server.name, "_OTHER"))
    found = read(span)
    assert found["mcp.method.name"] == "_OTHER"
    assert found["rpc.response.status_code"] == str(code)
    assert "error.type" not in found
    assert span.status.status_code is StatusCode.UNSET


async def test_notifications_and_a_handshake(server: MCPServer):
    client = WireClient(server, V2025_11_25)

    await client.open()

    initialize, initialized = find_spans(server.name)
    assert initialize.name == "initialize"
    assert read(initialize)["mcp.session.id"] == find_session(server)
    assert initialized.name == "notifications/initialized"
    found = read(initialized)
    assert found["mcp.session.id"] == find_session(server)
    assert found["mcp.protocol.version"] == V2025_11_25.name
    assert "jsonrpc.request.id" not in found
    # What gives access to the session is in none.
    assert client.session_id is not None
    assert client.session_id not in str([read(initialize), found])


async def test_a_notification_continues_the_trace_of_its_client(server: MCPServer):
    client = WireClient(server, V2025_11_25)
    await client.open()
    params = {"requestId": 5, "_meta": {"traceparent": PARENT}}
    sent = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
    session = {"mcp-session-id": client.session_id or ""}

    await client.post(
        json.dumps(sent).encode(), {**session, "mcp-protocol-version": V2025_11_25.name}
    )

    span = only(find_spans(server.name, "notifications/cancelled"))
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == PARENT[36:52]
    assert read(span)["django_mcp.outcome"] == "done"


async def test_an_unknown_notification_is_other(server: MCPServer):
    client = WireClient(server, V2025_11_25)
    await client.open()
    headers = {
        "mcp-session-id": client.session_id or "",
        "mcp-protocol-version": V2025_11_25.name,
    }

    await client.post(b'{"jsonrpc":"2.0","method":"notifications/made_up"}', headers)

    assert [span.name for span in find_spans(server.name)][-1] == "_OTHER"


async def test_each_message_of_a_batch_has_a_span(server: MCPServer):
    client = WireClient(server, V2025_03_26)
    await client.open()
    batch = [
        {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "find_orders"}},
        {"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": {"name": "refuse"}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}},
    ]

    reply = await client.post(
        json.dumps(batch).encode(),
        {"mcp-session-id": client.session_id or "", "mcp-protocol-version": V2025_03_26.name},
    )

    assert reply.status == 200
    found = {span.name: read(span).get("jsonrpc.request.id") for span in find_spans(server.name)}
    assert found["tools/call find_orders"] == "7"
    assert found["tools/call refuse"] == "8"
    assert "notifications/cancelled" in found


async def test_a_question_to_the_client(server: MCPServer):
    params = {
        "name": "ask",
        "_meta": {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}},
    }

    _client, body = await send(server, V2026_07_28, "tools/call", params)

    assert body["result"]["resultType"] == "input_required"
    assert read(only(find_spans(server.name, "tools/call ask")))["django_mcp.outcome"] == "asked"


async def test_the_client_is_the_parent_and_the_span_around_is_linked(server: MCPServer):
    tracer = trace.get_tracer("http")

    with tracer.start_as_current_span("POST /mcp") as around:
        params = {"name": "find_orders", "_meta": {"traceparent": PARENT}}
        await send(server, V2026_07_28, "tools/call", params)

    span = only(find_spans(server.name))
    assert span.parent is not None
    assert f"{span.parent.trace_id:032x}" == PARENT[3:35]
    assert f"{span.parent.span_id:016x}" == PARENT[36:52]
    assert [link.context for link in span.links] == [around.get_span_context()]


@pytest.mark.parametrize("meta", [{}, {"traceparent": "nonsense"}, {"baggage": "user=5"}])
async def test_without_a_trace_of_the_client_the_span_around_is_the_parent(
    server: MCPServer, meta: dict[str, Any]
):
    tracer = trace.get_tracer("http")

    with tracer.start_as_current_span("POST /mcp") as around:
        params = {"name": "find_orders", "_meta": meta}
        await send(server, V2026_07_28, "tools/call", params)

    span = only(find_spans(server.name))
    assert span.parent == around.get_span_context()
    assert span.links == ()


async def test_handlers_run_in_the_span(server: MCPServer):
    inside: list[int] = []

    @server.tool
    async def inline() -> None:
        inside.append(trace.get_current_span().get_span_context().span_id)

    @server.tool
    def threaded() -> None:
        inside.append(trace.get_current_span().get_span_context().span_id)

    for name in ("inline", "threaded"):
        await send(
            server, V2026_07_28, "tools/call", {"name": name, "_meta": {"traceparent": PARENT}}
        )

    own = [span.context.span_id for span in find_spans(server.name) if span.context is not None]
    assert inside == own
    assert not trace.get_current_span().get_span_context().is_valid


async def post(server: MCPServer, request: dict[str, Any], revision: Any) -> Any:
    app = MCPConsumer.as_asgi(server=server)
    headers = {"host": "localhost", **headers_for(request, revision)}
    return await talk(app, http_scope(headers=headers), part(json.dumps(request).encode()))


async def test_over_asgi_the_version_of_http_is_known(server: MCPServer):
    request = message("tools/call", {"name": "find_orders"}, revision=V2026_07_28)

    talked = await post(server, request, V2026_07_28)

    assert talked.status == 200
    found = read(only(find_spans(server.name)))
    assert found["network.protocol.version"] == "1.1"
    assert found["network.protocol.name"] == "http"
    assert "client.address" not in found
    assert "192.0.2.1" not in str(found)


@pytest.mark.parametrize(("given", "told"), [("2", "2"), ("2.0", "2"), ("9.7", None), (None, None)])
async def test_only_known_versions_of_http_are_told(
    server: MCPServer, given: str | None, told: str | None
):
    request = message("tools/list", revision=V2026_07_28)
    headers = {"host": "localhost", **headers_for(request, V2026_07_28)}
    scope = {**http_scope(headers=headers), "http_version": given}

    await talk(MCPConsumer.as_asgi(server=server), scope, part(json.dumps(request).encode()))

    assert read(only(find_spans(server.name))).get("network.protocol.version") == told


async def test_a_session_over_asgi(server: MCPServer):
    params = {
        "protocolVersion": V2025_11_25.name,
        "capabilities": {},
        "clientInfo": {"name": "tests", "version": "1"},
    }
    opened = await post(server, message("initialize", params, revision=V2025_11_25), V2025_11_25)
    token = opened.headers["mcp-session-id"]
    request = message("tools/call", {"name": "find_orders"}, revision=V2025_11_25)
    headers = {"host": "localhost", **headers_for(request, V2025_11_25), "mcp-session-id": token}

    app = MCPConsumer.as_asgi(server=server)
    talked = await talk(app, http_scope(headers=headers), part(json.dumps(request).encode()))

    assert talked.status == 200
    initialize, call = map(read, find_spans(server.name))
    assert initialize["mcp.session.id"] == call["mcp.session.id"] == find_session(server)
    assert call == {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "find_orders",
        "mcp.protocol.version": V2025_11_25.name,
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "network.protocol.version": "1.1",
        "django_mcp.outcome": "done",
        "jsonrpc.request.id": "1",
        "mcp.session.id": find_session(server),
    }


def register_waiting(server: MCPServer) -> asyncio.Event:
    began = asyncio.Event()

    @server.tool
    async def wait() -> None:
        began.set()
        await asyncio.Event().wait()

    return began


async def test_a_call_whose_client_has_gone_was_cancelled(server: MCPServer):
    began = register_waiting(server)
    request = message("tools/call", {"name": "wait"}, revision=V2026_07_28)
    headers = {"host": "localhost", **headers_for(request, V2026_07_28)}
    app = MCPConsumer.as_asgi(server=server)
    talking = Conversation(app, http_scope(headers=headers), part(json.dumps(request).encode()))
    await began.wait()

    talking.put(GONE)
    await talking.end()

    span = only(find_spans(server.name))
    assert read(span)["error.type"] == "cancelled"
    assert read(span)["django_mcp.outcome"] == "cancelled"
    assert span.status.status_code is StatusCode.UNSET


async def test_a_call_that_its_client_cancels(server: MCPServer):
    began = register_waiting(server)
    client = WireClient(server, V2025_11_25)
    await client.open()
    calling = asyncio.ensure_future(client.send("tools/call", {"name": "wait"}))
    await began.wait()
    sent = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
    session = {"mcp-session-id": client.session_id or ""}
    headers = {**session, "mcp-protocol-version": V2025_11_25.name}

    await client.post(json.dumps(sent).encode(), headers)
    _, body = await calling

    found = read(only(find_spans(server.name, "tools/call wait")))
    assert found["rpc.response.status_code"] == str(body["error"]["code"]) == "-32800"
    assert found["django_mcp.outcome"] == "cancelled"
    assert only(find_spans(server.name, "tools/call wait")).status.status_code is StatusCode.UNSET


async def test_too_many_requests_are_no_fault_of_the_server(native: Any):
    server = make_server(throttle={"address": "1/h", "principal": "1/h"})
    for _ in range(2):
        request = message("tools/call", {"name": "find_orders"}, revision=V2026_07_28)
        await post(server, request, V2026_07_28)

    [_, refused] = find_spans(server.name)
    found = read(refused)
    assert found["rpc.response.status_code"] == found["error.type"] == "429"
    assert found["gen_ai.tool.name"] == "_OTHER"
    assert refused.status.status_code is StatusCode.UNSET


DETAILS = ["arguments", "client_address", "resource_uri", "results", "session_id"]


async def test_details_are_recorded_where_they_are_named(native: Any):
    native.DJANGO_MCP = {**native.DJANGO_MCP, "TELEMETRY_DETAILS": DETAILS}
    server = make_server()
    for method, params in (
        ("tools/call", {"name": "find_orders", "arguments": {"query": "x" * 9000}}),
        ("prompts/get", {"name": "apology", "arguments": {"order": "5"}}),
        ("resources/read", {"uri": "order://7"}),
    ):
        await post(server, message(method, params, revision=V2026_07_28), V2026_07_28)
    client, _ = await send(server, V2025_11_25, "tools/call", {"name": "find_orders"})

    tool, prompt, resource, initialize, *_rest = map(read, find_spans(server.name))
    assert tool["client.address"] == "192.0.2.1"
    assert tool["client.port"] == 4711
    assert tool["gen_ai.tool.call.arguments"].startswith('{"query":"xxx')
    assert len(tool["gen_ai.tool.call.arguments"]) == 4096
    assert tool["gen_ai.tool.call.result"].startswith('{"content":[{"type":"text","text":"orders x')
    assert len(tool["gen_ai.tool.call.result"]) == 4096
    assert prompt["gen_ai.prompt.variable.order"] == "5"
    assert "gen_ai.prompt.variable.tone" not in prompt
    assert resource["mcp.resource.uri"] == "order://7"
    keys = [
        session.key
        for session in server.engine.hub.sessions.values()
        if session.server_name == server.name
    ]
    assert [initialize["mcp.session.id"]] == keys
    assert client.session_id not in keys


async def test_no_detail_is_recorded_by_default(server: MCPServer):
    for method, params in (
        ("tools/call", {"name": "find_orders", "arguments": {"query": "private"}}),
        ("prompts/get", {"name": "apology", "arguments": {"order": "private"}}),
        ("resources/read", {"uri": "order://private"}),
    ):
        talked = await post(server, message(method, params, revision=V2026_07_28), V2026_07_28)
        assert b"private" in talked.body

    spans = find_spans(server.name)
    assert len(spans) == 3
    assert "private" not in str([read(span) for span in spans])
