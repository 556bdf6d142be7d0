"""Sessions of the handshake revisions: opening, lookup, and end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_mcp.protocol.headers import Headers
from django_mcp.protocol.json import decode, encode
from django_mcp.protocol.revisions import Revision
from django_mcp.server.exchange.caller import Caller
from django_mcp.server.exchange.channel import Channel
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.server.exchange.session import Session
from django_mcp.server.exchange.session_data import NoSession
from django_mcp.server.handlers.context import Context
from django_mcp.sessions.core.memory import MemorySessions
from tests.support.ports import use_ports
from tests.support.server.plain import MCPServer
from tests.support.wire import (
    HANDSHAKE,
    V2025_03_26,
    V2025_11_25,
    V2026_07_28,
    WireClient,
    headers_for,
    message,
)


class Person:
    def __init__(self, key: str) -> None:
        self.key = key
        self.is_authenticated = True


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("tests")

    @server.tool
    def remember(ctx: Context[Any], word: str) -> list[str]:
        words: list[str] = [*ctx.session.get("words", []), word]
        ctx.session["words"] = words
        return words

    @server.tool
    def forget(ctx: Context[Any]) -> str:
        try:
            return str(ctx.session)
        except NoSession as error:
            return str(error)

    return server


@pytest.fixture(params=HANDSHAKE)
def client(server: MCPServer, request: pytest.FixtureRequest) -> WireClient:
    return WireClient(server, request.param)


def exchange_of(client: WireClient, **headers: str) -> Exchange:
    found = {"accept": "text/event-stream", "mcp-protocol-version": client.revision.name}
    if client.session_id is not None:
        found["mcp-session-id"] = client.session_id
    found.update({name.replace("_", "-"): value for name, value in headers.items()})
    return Exchange(
        headers=Headers([(k.encode(), v.encode()) for k, v in found.items()]),
        caller=Caller(principal=client.principal),
        channel=Channel(can_stream=True, sink=client.sink),
    )


@pytest.mark.http_only("a pipe has no session ids")
async def test_a_handshake_opens_a_session(client: WireClient) -> None:
    """Its id is visible ASCII, has 128 random bits or more, and differs each time."""
    await client.open()
    other = WireClient(client.server, client.revision)
    await other.open()

    assert client.session_id is not None
    assert other.session_id is not None
    assert client.session_id != other.session_id
    assert len(client.session_id) >= 22
    assert all(0x21 <= ord(char) <= 0x7E for char in client.session_id)


@pytest.mark.http_only("a pipe has no session ids")
async def test_a_rejected_handshake_opens_no_session(server: MCPServer) -> None:
    """An id is minted with a successful result only."""
    request = message("initialize", {"protocolVersion": 7}, revision=V2025_11_25)
    reply = await WireClient(server, V2025_11_25).post(
        encode(request), headers_for(request, V2025_11_25)
    )

    assert b"mcp-session-id" not in dict(reply.headers)
    assert await server.engine.ports.sessions.find("x" * 43) is None


@pytest.mark.http_only("a pipe has no session ids")
async def test_a_session_requires_its_id(client: WireClient) -> None:
    status, error = await client.error("tools/list", drop="mcp-session-id")

    assert status == 400
    assert "Mcp-Session-Id" in error["message"]


@pytest.mark.parametrize("token", ["x" * 43, "", "é", "y" * 5000, "../..", "0"])
@pytest.mark.http_only("a pipe has no session ids")
async def test_a_made_up_session_id_is_unknown(client: WireClient, token: str) -> None:
    await client.open()
    status, error = await client.error("tools/list", mcp_session_id=token)

    assert (status, error["code"]) == (404, -32001)


@pytest.mark.http_only("a pipe has no session ids")
async def test_another_principals_session_is_unknown(server: MCPServer) -> None:
    """The same error for everybody who did not open it."""
    owner = WireClient(server, V2025_11_25, principal=Person("ann"))
    await owner.open()
    replies = []
    for principal in (Person("bob"), WireClient(server, V2025_11_25).principal):
        thief = WireClient(server, V2025_11_25, principal=principal)
        thief.session_id = owner.session_id
        replies.append(await thief.error("tools/list"))
        replies.append(await thief.error("tools/list", mcp_session_id="x" * 43))
        for entry in (server.engine.open_stream, server.engine.end_session):
            refused = await entry(exchange_of(thief))
            assert refused.status == 404
            # Clients look for this very text.
            assert b'"code":-32001' in (refused.body or b"")

    assert all(reply == replies[0] for reply in replies)
    assert (await owner.result("tools/list"))["tools"]


@pytest.mark.http_only("a pipe has no session ids")
async def test_a_session_of_one_server_is_unknown_to_another() -> None:
    one, other = MCPServer("one"), MCPServer("other")
    use_ports(other, sessions=one.engine.ports.sessions)
    client = WireClient(one, V2025_11_25)
    await client.open()
    client.server = other
    status, _ = await client.error("ping")

    assert status == 404


@pytest.mark.http_only("the session of a pipe ends with the pipe")
async def test_a_client_ends_its_session(client: WireClient) -> None:
    await client.open()
    ended = await client.server.engine.end_session(exchange_of(client))
    status, _ = await client.error("tools/list")
    again = await client.server.engine.end_session(exchange_of(client))

    assert (ended.status, status, again.status) == (204, 404, 404)


@pytest.mark.http_only("the session of a pipe ends with the pipe")
async def test_ending_a_session_stops_its_calls(server: MCPServer) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    @server.tool
    async def sleep() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    client = WireClient(server, V2025_11_25)
    await client.open()
    call = asyncio.create_task(client.send("tools/call", {"name": "sleep", "arguments": {}}))
    await begun.wait()
    await server.engine.end_session(exchange_of(client))
    await asyncio.wait_for(stopped.wait(), 5)
    status, body = await call

    assert "error" in body
    assert status == 200


@pytest.mark.http_only("it is told by headers")
async def test_an_open_session_is_not_opened_again(client: WireClient) -> None:
    """A handshake with a live id is rejected; one with an ended id opens a new session."""
    await client.open()
    params = {
        "protocolVersion": client.revision.name,
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    assert client.session_id is not None
    first = client.session_id
    status, _ = await client.error("initialize", params, mcp_session_id=first)
    again, _ = await client.send("initialize", params, mcp_session_id="gone")

    assert (status, again) == (400, 200)
    assert client.session_id != first


@pytest.mark.http_only("it is told by headers")
async def test_the_negotiated_revision_stays(server: MCPServer) -> None:
    """Another supported version in the header changes nothing; a wrong one is 400."""
    client = WireClient(server, V2025_03_26)
    await client.open()
    _, body = await client.send("tools/list", mcp_protocol_version=V2025_11_25.name)
    status, _ = await client.error("tools/list", mcp_protocol_version="2999-01-01")

    assert "outputSchema" not in body["result"]["tools"][0]
    assert status == 400


@pytest.mark.http_only("it is told by headers")
async def test_the_stateless_revision_has_no_sessions(server: MCPServer) -> None:
    """Its messages are served without a session, whatever id they name."""
    newest = WireClient(server, V2026_07_28)
    result = await newest.call("forget")
    status, _ = await newest.send("tools/list", mcp_session_id="anything")
    gone = exchange_of(newest)

    assert "argument" in result["content"][0]["text"]
    assert status == 200
    assert (await server.engine.open_stream(gone)).status == 405
    assert (await server.engine.end_session(gone)).status == 405


async def test_data_belongs_to_its_session(server: MCPServer) -> None:
    one, other = WireClient(server, V2025_11_25), WireClient(server, V2025_11_25)
    await one.call("remember", {"word": "a"})
    await other.call("remember", {"word": "b"})
    result = await one.call("remember", {"word": "c"})

    assert result["content"][0]["text"] == '["a","c"]'


@pytest.mark.http_only("the session of a pipe ends with the pipe")
async def test_idle_sessions_end(server: MCPServer) -> None:
    now = [0.0]
    sessions = MemorySessions(server.engine.hub, lambda: server.engine.options, lambda: now[0])
    use_ports(server, sessions=sessions)
    client = WireClient(server, V2025_11_25)
    await client.open()
    now[0] += server.engine.options.session_idle_s - 1
    await client.result("ping")
    now[0] += server.engine.options.session_idle_s + 1
    status, _ = await client.error("ping")

    assert status == 404


class InitializedElsewhere(MemorySessions):
    """Sessions whose `notifications/initialized` another process has received."""

    async def find(self, token: str) -> Session | None:
        session = await super().find(token)
        if session is not None:
            session.is_initialized = True
        return session


@pytest.mark.http_only("the session of a pipe ends with the pipe")
async def test_the_store_is_checked_for_a_cached_session_that_is_not_initialized() -> None:
    server = MCPServer("tests", require_initialized=True)
    sessions = InitializedElsewhere(server.engine.hub, lambda: server.engine.options)
    use_ports(server, sessions=sessions)

    @server.tool
    def hello() -> str:
        return "hello"

    client = WireClient(server, V2025_11_25)
    await client.open(is_ready=False)

    assert [each["name"] for each in (await client.result("tools/list"))["tools"]] == ["hello"]


@pytest.mark.http_only("the session of a pipe ends with the pipe")
async def test_sessions_are_bounded() -> None:
    """The longest idle one is evicted."""
    server = MCPServer("small", max_sessions=3, max_sessions_per_principal=2)
    clients = [WireClient(server, V2025_11_25, principal=Person(name)) for name in "aaabb"]
    for client in clients:
        await client.open()
    statuses = [(await client.send("ping"))[0] for client in clients]

    assert statuses == [404, 404, 200, 200, 200]


async def test_a_server_may_require_the_initialized_notification() -> None:
    """Requests before `notifications/initialized` are refused, pings are not."""
    server = MCPServer("strict", require_initialized=True)
    server.tool(name="t")(lambda: "x")
    client = WireClient(server, V2025_11_25)
    await client.open(is_ready=False)
    status, _ = await client.error("tools/list")
    await client.result("ping")
    await notify(client, "notifications/initialized")

    assert status == 400
    assert (await client.result("tools/list"))["tools"]


async def test_a_stateful_server_requires_the_handshake_from_dual_era_clients(
    request: pytest.FixtureRequest,
) -> None:
    """The refusal is 400 and -32600, which no client takes for a modern answer; on a pipe it is -32601."""
    is_pipe = "stdio" in request.node.callspec.id
    server = MCPServer("stateful", mode="stateful")
    status, error = await WireClient(server, V2026_07_28).error("server/discover")
    await WireClient(server, V2025_11_25).open()

    assert (status, error["code"]) == (400, -32601 if is_pipe else -32600)


@pytest.mark.http_only("a pipe has no header to name a revision in")
async def test_a_stateful_server_rejects_stateless_notifications() -> None:
    client = WireClient(MCPServer("stateful", mode="stateful"), V2025_11_25)
    await client.open()
    body = encode({"jsonrpc": "2.0", "method": "notifications/cancelled"})
    headers = {"mcp-session-id": client.session_id or "", "mcp-protocol-version": V2026_07_28.name}
    reply = await client.post(body, headers)

    assert (reply.status, decode(reply.body or b"")["error"]["code"]) == (400, -32600)


async def test_log_levels_belong_to_the_session(server: MCPServer) -> None:
    @server.tool
    async def speak(ctx: Context[Any]) -> None:
        await ctx.ainfo("quiet")
        await ctx.aerror("loud")

    one, other = WireClient(server, V2025_11_25), WireClient(server, V2025_11_25)
    await one.result("logging/setLevel", {"level": "error"})
    for client in (one, other):
        await client.call("speak")

    assert [each["params"]["data"] for each in one.sink.messages] == ["loud"]
    assert [each["params"]["data"] for each in other.sink.messages] == ["quiet", "loud"]


@pytest.mark.parametrize("revision", HANDSHAKE)
@pytest.mark.http_only("on a pipe what is cancelled is not answered: test_process of stdio")
async def test_a_cancellation_only_affects_calls_of_the_same_session(
    server: MCPServer, revision: Revision
) -> None:
    """Ids belong to one session; those of others cannot be cancelled."""
    begun = asyncio.Event()
    done = asyncio.Event()

    @server.tool
    async def wait() -> str:
        begun.set()
        await done.wait()
        return "done"

    owner, other = WireClient(server, revision), WireClient(server, revision)
    await owner.open()
    await other.open()
    call = asyncio.create_task(owner.send("tools/call", {"name": "wait", "arguments": {}}))
    await begun.wait()
    await notify(other, "notifications/cancelled", {"requestId": 2})
    await notify(owner, "notifications/cancelled", {"requestId": 99})
    assert not call.done()
    await notify(owner, "notifications/cancelled", {"requestId": 2, "reason": "enough"})
    _, body = await asyncio.wait_for(call, 5)

    assert body["error"]["message"] == "Cancelled"


async def notify(client: WireClient, method: str, params: dict[str, Any] | None = None) -> Reply:
    body = {"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})}
    headers = {
        "mcp-session-id": client.session_id or "",
        "mcp-protocol-version": client.revision.name,
    }
    reply = await client.post(encode(body), headers)
    assert (reply.status, reply.body) == (202, None), decode(reply.body or b"null")
    return reply


async def test_a_tool_that_needs_a_session_says_so_where_there_is_none(server: MCPServer) -> None:
    client = WireClient(server, V2026_07_28)
    result = await client.result("tools/call", {"name": "remember", "arguments": {"word": "a"}})

    assert result["isError"]
    assert "There is no session here" in result["content"][0]["text"]
