"""What a server tells clients, from wherever it is told, and who of them hears of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_mcp.registry.access import Rule
from django_mcp.server.context import Context
from django_mcp.server.exchange import Exchange
from django_mcp.server.hub import Hub
from django_mcp.server.memory import OpenAccess
from django_mcp.server.offers import NOTHING, Offer, Requirements
from django_mcp.server.push import Ending
from django_mcp.server.server import MCPServer
from django_mcp.server.upkeep import close_old_streams, ping_streams
from tests.server.streams import StreamClient
from tests.wire import R4, R5


def make_server(**options: Any) -> MCPServer:
    server = MCPServer("tests", **options)

    @server.resource("stock://{sku}", permission="shop.view")
    def stock(sku: str) -> str:
        return sku

    @server.tool
    async def ping(ctx: Context[Any]) -> bool:
        return await ctx.aping_client() is not None

    @server.tool
    async def hand_over(ctx: Context[Any]) -> dict[str, Any]:
        """Tell what somebody needs who goes on with the work elsewhere."""
        return {"key": ctx.session_key, "token": ctx.meta.get("progressToken")}

    @server.tool
    async def chatter(ctx: Context[Any], count: int) -> str:
        for number in range(count):
            await ctx.ainfo(number)
        return "done"

    return server


class Granting(OpenAccess):
    """Grants everything to some principals, who are looked up slowly if need be."""

    def __init__(self, *, is_slow: bool = False) -> None:
        self.granted: set[Any] = set()
        self.is_slow = is_slow

    def find_offer(self, exchange: Exchange, requirements: Requirements) -> Offer | None:
        return None if self.is_slow else self._offer(exchange, requirements)

    async def load_offer(self, exchange: Exchange, requirements: Requirements) -> Offer:
        await asyncio.sleep(0)
        return self._offer(exchange, requirements)

    def _offer(self, exchange: Exchange, requirements: Requirements) -> Offer:
        if exchange.principal not in self.granted:
            return NOTHING
        rules: frozenset[Rule] = requirements.all_rules
        return Offer(requirements, rules)


async def connect(server: MCPServer, principal: Any = "ann") -> StreamClient:
    client = StreamClient(server, R4, principal=principal)
    await client.open()
    return client


@pytest.fixture
def server() -> MCPServer:
    return make_server()


async def test_each_list_can_be_told_to_have_changed(server: MCPServer) -> None:
    """TOOL-02, RSC-10, PRM-05"""
    client = await connect(server)
    async with client.standing() as stream:
        for name in ("tools", "prompts", "resources"):
            assert getattr(server, f"notify_{name}_list_changed")() == 1
            heard = await stream.sink.message()
            assert heard["method"] == f"notifications/{name}/list_changed"
            assert await getattr(server, f"anotify_{name}_list_changed")() == 1
            assert await stream.sink.message() == heard


async def test_a_thread_learns_how_many_were_told(server: MCPServer) -> None:
    client = await connect(server)
    async with client.standing() as stream:
        assert await asyncio.to_thread(server.notify_tools_list_changed) == 1
        await stream.sink.message()


async def test_another_event_loop_is_told_as_well(server: MCPServer) -> None:
    client = await connect(server)
    async with client.standing() as stream:
        found = await asyncio.to_thread(lambda: asyncio.run(server.anotify("notifications/x")))
        assert found == 1
        await stream.sink.message()


def test_where_nothing_is_open_nobody_is_told(server: MCPServer) -> None:
    assert server.notify_tools_list_changed() == 0


async def test_a_notification_of_our_own_reaches_sessions_and_no_listener(
    server: MCPServer,
) -> None:
    session = await connect(server)
    listener = StreamClient(server, R5).begin(
        "subscriptions/listen", {"notifications": {"toolsListChanged": True}}
    )
    await listener.sink.message()
    async with session.standing() as stream:
        assert server.notify("notifications/own", {"n": 1}) == 1
        assert (await stream.sink.message())["params"] == {"n": 1}
        assert server.notify_tools_list_changed() == 2
        assert (await listener.sink.message())["method"] == "notifications/tools/list_changed"
    listener.leave()


@pytest.mark.http_only("a client on a pipe is no session that the site knows")
async def test_one_session_can_be_told_alone(server: MCPServer) -> None:
    """SEC-04"""
    one, other = await connect(server), await connect(server)
    async with one.standing() as stream:
        (handle,) = await server.aconnected_sessions()
        async with other.standing():
            assert server.notify_elicitation_complete(handle.key, "e1") == 1
            heard = await stream.sink.message()

    assert str(one.session_id) not in repr(handle)
    assert heard["method"] == "notifications/elicitation/complete"
    assert heard["params"] == {"elicitationId": "e1"}


@pytest.mark.parametrize(
    "tell",
    [
        lambda server: server.notify_resource_updated(None),
        lambda server: server.notify_resource_updated(""),
        lambda server: server.notify(5, {}),
        lambda server: server.notify("", {}),
        lambda server: server.notify("notifications/x", [1]),
    ],
)
async def test_what_is_no_notification_is_not_sent(server: MCPServer, tell: Any):
    with pytest.raises(TypeError, match="notification"):
        tell(server)


@pytest.mark.http_only("a client on a pipe is no session that the site knows")
async def test_progress_is_told_from_outside_of_its_handler(server: MCPServer) -> None:
    """By a key that the handler handed on, for the token of its request, and to nobody else."""
    one, other = await connect(server), await connect(server)
    async with one.standing() as stream, other.standing() as silent:
        handed = await one.call("hand_over", _meta={"progressToken": "t1"})
        key, token = (handed["structuredContent"][name] for name in ("key", "token"))
        told = {"progressToken": token, "progress": 1, "total": 2}

        assert server.notify("notifications/progress", told, session=key) == 1
        assert server.notify("notifications/own") == 2
        assert (await stream.sink.message())["params"] == told
        assert (await silent.sink.message())["method"] == "notifications/own"
    assert one.session_id not in (None, key)


async def test_without_a_session_there_is_no_key_of_it(server: MCPServer) -> None:
    handed = await StreamClient(server, R5).call("hand_over")

    assert handed["structuredContent"] == {"key": None, "token": None}


def test_too_much_is_refused_at_once(server: MCPServer) -> None:
    with pytest.raises(ValueError, match="larger than"):
        server.notify("notifications/x", {"text": "x" * 40_000})


async def test_log_messages_go_to_who_wants_their_level(server: MCPServer) -> None:
    client = await connect(server)
    await client.result("logging/setLevel", {"level": "error"})
    async with client.standing() as stream:
        assert server.notify_log("warning", "no") == 0
        assert server.notify_log("error", "yes", logger="shop") == 1
        heard = await stream.sink.message()

    assert heard["params"] == {"level": "error", "data": "yes", "logger": "shop"}


@pytest.mark.parametrize("is_slow", [False, True])
async def test_only_who_may_see_a_resource_now_hears_of_it(
    server: MCPServer, is_slow: bool
) -> None:
    """AUT-17: permissions are asked when there is something to tell, not when it is subscribed to."""
    server.access = access = Granting()
    access.granted = {"ann", "bob"}
    ann, bob = await connect(server, "ann"), await connect(server, "bob")
    for client in (ann, bob):
        await client.result("resources/subscribe", {"uri": "stock://mug"})
    async with ann.standing() as hers, bob.standing() as his:
        access.granted = {"ann"}
        access.is_slow = is_slow
        reached = server.notify_resource_updated("stock://mug")
        assert (await hers.sink.message())["params"] == {"uri": "stock://mug"}
        server.notify_tools_list_changed()
        assert (await his.sink.message())["method"] == "notifications/tools/list_changed"

    assert reached == (0 if is_slow else 1)


async def test_what_is_registered_meanwhile_is_told_once(server: MCPServer) -> None:
    """TOOL-02"""
    client = await connect(server)
    async with client.standing() as stream:
        for name in ("a", "b", "c"):
            server.register_tool(lambda: "x", name=name)
        server.remove_tool("a")
        assert (await stream.sink.message())["method"] == "notifications/tools/list_changed"
        server.notify("notifications/end")
        assert (await stream.sink.message())["method"] == "notifications/end"


@pytest.mark.http_only("a client on a pipe is no session that the site knows")
async def test_a_client_is_pinged_on_its_standing_stream(server: MCPServer) -> None:
    client = await connect(server)
    async with client.standing() as stream:
        (handle,) = await server.aconnected_sessions()
        pinging = asyncio.create_task(server.aping_client(handle.key))
        asked = await stream.sink.message()
        assert asked["method"] == "ping"
        await client.respond(asked, result={})
        assert await pinging is not None
        assert await server.aping_client(handle.key, timeout_s=0.01) is None
    assert await server.aping_client("unknown") is None


async def test_a_handler_pings_its_client(server: MCPServer) -> None:
    client = await connect(server)
    running = client.call_tool("ping")
    asked = await running.sink.message()
    await client.respond(asked, result={})

    assert (await running.answer())["result"]["content"][0]["text"] == "true"


@pytest.mark.http_only("no pings are sent on a pipe: its end is noticed")
async def test_a_client_that_leaves_pings_unanswered_loses_its_stream() -> None:
    """PNG-02"""
    server = make_server(ping_interval_s=1e-9, ping_failures=2)
    client = await connect(server)
    stream = client.listen()
    await stream.sink.next()
    ping_streams(server.hub)
    await client.respond(await stream.sink.message(), result={})
    for _ in range(2):
        ping_streams(server.hub)
        await stream.sink.message()
        assert server.hub.streams
    ping_streams(server.hub)

    assert (await stream.reply()).status == 200
    assert not server.hub.streams


async def test_pings_and_limits_are_advertised_where_they_are_set() -> None:
    client = StreamClient(make_server(ping_interval_s=30, log_rate=5), R4)
    params = {
        "protocolVersion": R4.name,
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    told = (await client.result("initialize", params))["capabilities"]["experimental"]
    plain = (await StreamClient(make_server(), R4).result("initialize", params))["capabilities"]

    assert told["keepalive"] == {"enabled": True, "intervalMs": 30000, "failureThreshold": 3}
    assert told["loggingRateLimit"] == {"enabled": True, "perSecond": 5}
    assert "experimental" not in plain


async def test_log_messages_are_limited() -> None:
    """LOG-09"""
    server = make_server(log_rate=3)
    client = await connect(server)
    running = client.call_tool("chatter", {"count": 50})
    await running.answer()
    sent = [item for _, item in _drain(running.sink.items) if item is not None]

    assert [each["params"]["data"] for each in sent][:3] == [0, 1, 2]
    assert len(sent) < 50


@pytest.mark.http_only("a pipe is one stream, as old as the connection")
async def test_the_first_stream_of_a_session_can_begin_with_the_lists() -> None:
    server = make_server(tells_lists_at_start=True)
    client = await connect(server)
    async with client.standing() as stream:
        heard = [(await stream.sink.message())["method"] for _ in range(2)]
    async with client.standing() as again:
        server.notify("notifications/end")
        assert (await again.sink.message())["method"] == "notifications/end"

    assert heard == [f"notifications/{name}/list_changed" for name in ("tools", "resources")]


@pytest.mark.http_only("a pipe is one stream, as old as the connection")
async def test_old_streams_are_closed(server: MCPServer) -> None:
    young, old = await connect(server), await connect(server)
    streams = [young.listen(), old.listen()]
    for stream in streams:
        await stream.sink.next()
    list(server.hub.streams.values())[1].opened_s -= server.options.stream_max_age_s
    close_old_streams(server.hub)
    await streams[1].reply()

    assert streams[1].sink.is_closed
    assert len(server.hub.streams) == 1
    streams[0].leave()


@pytest.mark.http_only("a pipe is one stream, as old as the connection")
async def test_a_stream_and_a_session_can_be_ended_by_the_site(server: MCPServer) -> None:
    client = await connect(server)
    stream = client.listen()
    await stream.sink.next()
    await server.aclose_stream((await server.aopen_streams())[0].id)
    assert (await stream.reply()).status == 200
    again = client.listen()
    await again.sink.next()
    (handle,) = await server.aconnected_sessions()
    assert await server.aclose_session(handle.key)
    assert not await server.aclose_session(handle.key)
    await again.reply()

    assert (await client.listen().reply()).status == 404


@pytest.mark.http_only("a pipe is one stream, as old as the connection")
async def test_no_stream_is_opened_while_the_process_ends(server: MCPServer) -> None:
    client = await connect(server)
    stream = client.listen()
    await stream.sink.next()
    server.hub.is_closing = True
    server.hub.end_streams(Ending.SHUTDOWN)
    await stream.reply()
    refused = await client.listen().reply()

    assert refused.status == 503
    assert dict(refused.headers)[b"retry-after"] == b"10"


def _drain(queue: asyncio.Queue[Any]) -> list[Any]:
    return [queue.get_nowait() for _ in range(queue.qsize())]


async def test_a_hub_that_lives_already_learns_of_a_further_server(server: MCPServer) -> None:
    class Neighbour(MCPServer):
        def make_hub(self) -> Hub:
            return server.hub

    other = Neighbour("other")
    await connect(server)
    await connect(other)

    assert [server.hub.servers[name] for name in (server.name, "other")] == [server, other]
