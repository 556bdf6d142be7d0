"""The metrics of operations, sessions, streams, refusals and sign-ins, and what 10,000 made-up names leave."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.test import RequestFactory

from django_mcp import MCPServer
from django_mcp.auth.authenticator import Authenticator
from django_mcp.auth.authenticators import APIKeyAuthenticator
from django_mcp.auth.principal import Principal
from django_mcp.execution.threads import find_pool_states
from django_mcp.models.sessions import Session as SessionRow
from django_mcp.protocol.json import encode
from django_mcp.telemetry.metrics import BYTES, SECONDS
from django_mcp.transports.http.consumer import MCPConsumer
from django_mcp.transports.http.view import MCPView
from tests.support.http.harness import GONE, Conversation, http_scope, part, talk, until
from tests.support.telemetry import find_points, find_spans
from tests.support.wire import V2025_11_25, V2026_07_28, WireClient, headers_for, message
from tests.unit.telemetry.conftest import make_server

ERAS = pytest.mark.parametrize("revision", [V2025_11_25, V2026_07_28], ids=lambda each: each.name)
OPERATIONS = "mcp.server.operation.duration"


def find_calls(server: MCPServer) -> list[tuple[dict[str, Any], Any]]:
    points = find_points(OPERATIONS, server.name)
    return [each for each in points if each[0]["mcp.method.name"] == "tools/call"]


@ERAS
async def test_the_duration_of_an_operation(server: MCPServer, revision: Any):
    client = WireClient(server, revision)
    for _ in range(3):
        await client.call("find_orders")

    [(attributes, point)] = find_calls(server)
    assert attributes == {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "find_orders",
        "mcp.protocol.version": revision.name,
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "django_mcp.outcome": "done",
    }
    assert point.count == 3
    assert 0 < point.sum < 60
    assert tuple(point.explicit_bounds) == SECONDS
    spans = find_spans(server.name, "tools/call find_orders")
    taken_s = [((span.end_time or 0) - (span.start_time or 0)) / 1e9 for span in spans]
    assert point.sum == pytest.approx(sum(taken_s), abs=0.005 * len(spans))


@ERAS
async def test_the_ends_of_operations(server: MCPServer, revision: Any):
    client = WireClient(server, revision)
    for name in ("refuse", "break_down", "sleep", "hidden"):
        await client.send("tools/call", {"name": name})

    told = ("gen_ai.tool.name", "error.type", "rpc.response.status_code", "django_mcp.outcome")
    found = [tuple(attributes.get(key) for key in told) for attributes, _ in find_calls(server)]
    assert sorted(found, key=str) == sorted(
        [
            ("refuse", "tool_error", None, "failed"),
            ("break_down", "tool_error", None, "fault"),
            ("sleep", "tool_error", None, "timeout"),
            ("_OTHER", None, "-32602", "refused"),
        ],
        key=str,
    )


async def test_the_size_of_results(server: MCPServer):
    client = WireClient(server, V2026_07_28)
    _, body = await client.send("tools/call", {"name": "find_orders"})

    [(attributes, point)] = find_points("django_mcp.result.size", server.name)
    assert "result" in body
    assert attributes == {"mcp.method.name": "tools/call", "gen_ai.tool.name": "find_orders"}
    assert point.count == 1
    assert 0 < point.sum < 400
    assert tuple(point.explicit_bounds) == BYTES


async def test_made_up_names_are_one_series(server: MCPServer):
    client = WireClient(server, V2026_07_28)
    for number in range(10_000):
        status, _ = await client.send("tools/call", {"name": f"made_up_{number}"})
        assert status in (200, 400)
        if number % 1000 == 0:
            find_points(OPERATIONS, server.name)

    [(attributes, point)] = find_calls(server)
    assert attributes["gen_ai.tool.name"] == "_OTHER"
    assert point.count == 10_000


async def test_made_up_methods_are_one_series(server: MCPServer):
    client = WireClient(server, V2026_07_28)
    for number in range(20):
        await client.send(f"tools/made_up_{number}")

    [(attributes, point)] = find_points(OPERATIONS, server.name)
    assert attributes["mcp.method.name"] == "_OTHER"
    assert point.count == 20


async def test_calls_that_run_are_counted(server: MCPServer):
    ends = asyncio.Event()

    @server.tool
    async def wait() -> None:
        await ends.wait()

    def running() -> list[int]:
        return [point.value for _, point in find_points("django_mcp.calls.running", server.name)]

    client = WireClient(server, V2026_07_28)
    call = asyncio.ensure_future(client.call("wait"))
    await until(lambda: running() == [1])
    ends.set()
    await call

    assert running() == [0]


async def test_a_session_has_a_duration(server: MCPServer):
    client = WireClient(server, V2025_11_25)
    await client.open()
    assert find_points("mcp.server.session.duration", server.name) == []

    sessions = server.engine.hub.sessions.values()
    keys = [session.key for session in sessions if session.server_name == server.name]
    await server.aclose_sessions(keys)

    [(attributes, point)] = find_points("mcp.server.session.duration", server.name)
    assert attributes == {
        "mcp.protocol.version": V2025_11_25.name,
        "network.transport": "tcp",
        "network.protocol.name": "http",
    }
    assert point.count == 1


def listen(server: MCPServer) -> Conversation:
    request = message(
        "subscriptions/listen",
        {"notifications": {"toolsListChanged": True}},
        revision=V2026_07_28,
    )
    headers = {"host": "localhost", **headers_for(request, V2026_07_28)}
    return Conversation(
        MCPConsumer.as_asgi(server=server), http_scope(headers=headers), part(encode(request))
    )


async def test_a_stream_is_one_span_when_it_opens_and_one_duration_at_its_end(server: MCPServer):
    stream = listen(server)
    await stream.until_sent(2)

    [span] = find_spans(server.name)
    assert span.name == "subscriptions/listen"
    assert (span.attributes or {})["mcp.protocol.version"] == V2026_07_28.name
    assert find_points(OPERATIONS, server.name) == []
    [(attributes, point)] = find_points("django_mcp.streams.open", server.name)
    assert (attributes, point.value) == ({"django_mcp.stream.kind": "listen"}, 1)
    assert [each.value for _, each in find_points("django_mcp.calls.running", server.name)] == [0]

    [opened] = find_spans(server.name)
    stream.put(GONE)
    await stream.end()

    assert find_spans(server.name) == [span]
    span_s = ((opened.end_time or 0) - (opened.start_time or 0)) / 1e9
    [(attributes, point)] = find_points(OPERATIONS, server.name)
    assert attributes["mcp.method.name"] == "subscriptions/listen"
    assert attributes["django_mcp.outcome"] == "done"
    assert not {"error.type", "rpc.response.status_code"} & attributes.keys()
    assert point.count == 1
    assert point.sum > span_s
    [(attributes, point)] = find_points("django_mcp.stream.duration", server.name)
    assert (attributes, point.count) == ({"django_mcp.stream.kind": "listen"}, 1)
    assert [each.value for _, each in find_points("django_mcp.streams.open", server.name)] == [0]


async def test_refusals_and_sign_ins_are_counted(native: Any):
    server = make_server(public=False, authenticators=[APIKeyAuthenticator])
    app = MCPConsumer.as_asgi(server=server)
    request = message("tools/list", revision=V2026_07_28)
    headers = {"host": "localhost", **headers_for(request, V2026_07_28)}

    talked = await talk(app, http_scope(headers=headers), part(b"{}"))

    assert talked.status == 401
    [(attributes, point)] = find_points("django_mcp.refusals", server.name)
    assert attributes["http.response.status_code"] == 401
    assert point.value == 1
    [(attributes, point)] = find_points("django_mcp.sign_ins", server.name)
    assert (attributes, point.value) == ({"django_mcp.outcome": "refused"}, 1)


async def test_the_pools_are_observed(server: MCPServer):
    @server.tool
    def threaded() -> str:
        return ""

    await WireClient(server, V2026_07_28).call("threaded")

    for name in ("django_mcp.calls.queued", "django_mcp.pool.busy", "django_mcp.pool.limit"):
        found = {each["django_mcp.pool.name"]: point.value for each, point in find_points(name)}
        assert set(found) == ({"handlers", "tasks"} if find_pool_states() else set())


async def test_accepted_and_anonymous_requests_are_counted(native: Any):
    server = make_server(authenticators=[accept])
    app = MCPConsumer.as_asgi(server=server)
    request = message("tools/list", revision=V2026_07_28)

    for more in ({}, {"x-user": "5"}):
        headers = {"host": "localhost", **headers_for(request, V2026_07_28), **more}
        await talk(app, http_scope(headers=headers), part(encode(request)))

    points = find_points("django_mcp.sign_ins", server.name)
    found = {attributes["django_mcp.outcome"]: point.value for attributes, point in points}
    assert found == {"anonymous": 1, "accepted": 1}


class AcceptUsers(Authenticator):
    def authenticate(self, exchange: Any) -> Principal | None:
        given = exchange.headers.get("x-user")
        return None if given is None else Principal(key=f"tests:{given}")


accept = AcceptUsers()


@pytest.mark.django_db(transaction=True)
async def test_a_session_in_the_database_has_a_duration(native: Any):
    native.DJANGO_MCP = {**native.DJANGO_MCP, "SESSION_STORE": "model"}
    server = make_server()
    await WireClient(server, V2025_11_25).open()

    keys = [row.pk.hex async for row in SessionRow.objects.filter(server=server.name)]
    await server.aclose_sessions(keys)

    [(attributes, point)] = find_points("mcp.server.session.duration", server.name)
    assert attributes["mcp.protocol.version"] == V2025_11_25.name
    assert 0 <= point.sum < 60


async def test_the_plain_view_tells_the_version_of_http(server: MCPServer):
    request = message("tools/call", {"name": "find_orders"}, revision=V2026_07_28)
    more: dict[str, Any] = {
        f"HTTP_{key.upper().replace('-', '_')}": value
        for key, value in headers_for(request, V2026_07_28).items()
        if key != "content-type"
    }
    given = RequestFactory().post(
        "/mcp", encode(request), content_type="application/json", HTTP_HOST="localhost", **more
    )

    response = await MCPView(server)(given)

    assert response.status_code == 200
    [(attributes, _)] = find_calls(server)
    assert attributes["network.protocol.version"] == "1.1"
