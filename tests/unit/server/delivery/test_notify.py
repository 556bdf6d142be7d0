"""Notifications from any thread or process, and the clients that receive them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_mcp.protocol.json import encode
from django_mcp.protocol.revisions import Revision
from django_mcp.registry.access import Rule
from django_mcp.server.delivery import notify as notify_module
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.visibility import NONE_VISIBLE, Requirements, VisibleEntries
from django_mcp.server.handlers.context import Context
from django_mcp.server.memory import NoObserver, OpenAccess
from django_mcp.server.streams.stream import Ending
from django_mcp.server.streams.upkeep import close_old_streams, ping_stream
from tests.support.ports import use_ports
from tests.support.server.plain import MCPServer
from tests.support.server.streams import StreamClient
from tests.support.wire import V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28, WireClient


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
        """Return what another process needs to continue the work."""
        return {"key": ctx.session_key, "token": ctx.meta.get("progressToken")}

    @server.tool
    async def chatter(ctx: Context[Any], count: int) -> str:
        for number in range(count):
            await ctx.ainfo(number)
        return "done"

    return server


class Granting(OpenAccess):
    """Grants everything to some principals, optionally after a slow lookup."""

    def __init__(self, *, is_slow: bool = False) -> None:
        self.granted: set[Any] = set()
        self.is_slow = is_slow

    def find_visible(self, exchange: Exchange, requirements: Requirements) -> VisibleEntries | None:
        return None if self.is_slow else self._visible(exchange, requirements)

    async def load_visible(self, exchange: Exchange, requirements: Requirements) -> VisibleEntries:
        await asyncio.sleep(0)
        return self._visible(exchange, requirements)

    def _visible(self, exchange: Exchange, requirements: Requirements) -> VisibleEntries:
        if exchange.caller.principal not in self.granted:
            return NONE_VISIBLE
        rules: frozenset[Rule] = requirements.all_rules
        return VisibleEntries(requirements, rules)


async def connect(server: MCPServer, principal: Any = "ann") -> StreamClient:
    client = StreamClient(server, V2025_11_25, principal=principal)
    await client.open()
    return client


@pytest.fixture
def server() -> MCPServer:
    return make_server()


async def test_each_list_has_a_list_changed_notification(server: MCPServer) -> None:
    client = await connect(server)
    async with client.standalone() as stream:
        for name in ("tools", "prompts", "resources"):
            assert server.notify_list_changed(name) == 1
            heard = await stream.sink.message()
            assert heard["method"] == f"notifications/{name}/list_changed"
            assert await server.anotify_list_changed(name) == 1
            assert await stream.sink.message() == heard


async def test_notifying_from_a_thread_returns_the_number_of_recipients(server: MCPServer) -> None:
    client = await connect(server)
    async with client.standalone() as stream:
        assert await asyncio.to_thread(server.notify_list_changed, "tools") == 1
        await stream.sink.message()


async def test_notifications_reach_another_event_loop(server: MCPServer) -> None:
    client = await connect(server)
    async with client.standalone() as stream:
        found = await asyncio.to_thread(lambda: asyncio.run(server.anotify("notifications/x")))
        assert found == 1
        await stream.sink.message()


def test_a_notification_without_open_streams_has_no_recipients(server: MCPServer) -> None:
    assert server.notify_list_changed("tools") == 0


def test_notifying_about_an_unknown_list_is_an_error(server: MCPServer) -> None:
    with pytest.raises(ValueError, match="'templates': use one of tools, prompts, resources"):
        server.notify_list_changed("templates")  # type: ignore[arg-type]


def test_an_update_of_no_resource_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    server = make_server()
    server.register_resource("shelf://{number}", lambda number: number, name="shelf")

    server.notify_resource_updated("shelf://1")
    server.notify_resource_updated("sehlf://1")
    server.notify_resource_updated("sehlf://1")

    (record,) = caplog.records
    assert "has the URI sehlf://1, so a notification" in record.getMessage()


async def test_a_custom_notification_reaches_sessions_but_no_listener(
    server: MCPServer,
) -> None:
    session = await connect(server)
    listener = StreamClient(server, V2026_07_28).begin(
        "subscriptions/listen", {"notifications": {"toolsListChanged": True}}
    )
    await listener.sink.message()
    async with session.standalone() as stream:
        assert server.notify("notifications/own", {"n": 1}) == 1
        assert (await stream.sink.message())["params"] == {"n": 1}
        assert server.notify_list_changed("tools") == 2
        assert (await listener.sink.message())["method"] == "notifications/tools/list_changed"
    listener.leave()


@pytest.mark.http_only("a client on a pipe is no session that the site knows")
async def test_one_session_can_be_notified_alone(server: MCPServer) -> None:
    one, other = await connect(server), await connect(server)
    async with one.standalone() as stream:
        (handle,) = await server.aconnected_sessions()
        async with other.standalone():
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
async def test_an_invalid_notification_is_not_sent(server: MCPServer, tell: Any):
    with pytest.raises(TypeError, match="notification"):
        tell(server)


@pytest.mark.http_only("a client on a pipe is no session that the site knows")
async def test_progress_can_be_reported_outside_the_handler(server: MCPServer) -> None:
    """The handler passes on its key and the token of its request; no other client is notified."""
    one, other = await connect(server), await connect(server)
    async with one.standalone() as stream, other.standalone() as silent:
        handed = await one.call("hand_over", _meta={"progressToken": "t1"})
        key, token = (handed["structuredContent"][name] for name in ("key", "token"))
        told = {"progressToken": token, "progress": 1, "total": 2}

        assert server.notify("notifications/progress", told, session=key) == 1
        assert server.notify("notifications/own") == 2
        assert (await stream.sink.message())["params"] == told
        assert (await silent.sink.message())["method"] == "notifications/own"
    assert one.session_id not in (None, key)


@pytest.mark.parametrize("key", ["", "nobody", 5, object()])
@pytest.mark.parametrize(
    "tell",
    [
        lambda server, key: server.notify("notifications/own", {}, session=key),
        lambda server, key: server.notify_log("info", "hello", session=key),
        lambda server, key: server.notify_elicitation_complete(key, "1"),
    ],
)
def test_what_is_no_key_of_a_session_is_refused(server: MCPServer, key: Any, tell: Any):
    """Such as the id that the client sends, which is another one: nobody would be notified."""
    with pytest.raises((TypeError, ValueError), match=r"ctx\.session_key"):
        tell(server, key)


def test_a_session_that_has_ended_is_not_notified(server: MCPServer):
    server.notify("notifications/own", {}, session="0" * 32)


async def test_without_a_session_there_is_no_session_key(server: MCPServer) -> None:
    handed = await StreamClient(server, V2026_07_28).call("hand_over")

    assert handed["structuredContent"] == {"key": None, "token": None}


@pytest.mark.parametrize(
    ("method", "advice"),
    [
        ("orders/changed", "Write notifications/orders/changed."),
        ("tools/list_changed", "Write notifications/tools/list_changed."),
        ("notifications/resource/updated", "Did you mean notifications/resources/updated?"),
        ("notifications/tools/list-changed", "Did you mean notifications/tools/list_changed?"),
    ],
)
def test_a_notification_that_clients_do_not_know_as_one_is_logged_once(
    server: MCPServer, caplog: pytest.LogCaptureFixture, method: str, advice: str
):
    notify_module._unknown.clear()
    for _ in range(2):
        server.notify(method)

    (told,) = caplog.messages
    assert (
        told
        == f"Clients may ignore the notification {method!r} of the server {server.name!r}. {advice}"
    )
    notify_module._unknown.clear()


def test_notifications_of_the_protocol_and_of_the_site_are_not_logged(
    server: MCPServer, caplog: pytest.LogCaptureFixture
):
    for method in ("notifications/own", "notifications/com.example/x", "notifications/progress"):
        server.notify(method)

    assert caplog.messages == []


def test_an_oversized_notification_is_rejected_immediately(server: MCPServer) -> None:
    with pytest.raises(ValueError, match="larger than"):
        server.notify("notifications/x", {"text": "x" * 40_000})


async def test_log_messages_reach_clients_that_requested_their_level(server: MCPServer) -> None:
    client = await connect(server)
    await client.result("logging/setLevel", {"level": "error"})
    async with client.standalone() as stream:
        assert server.notify_log("warning", "no") == 0
        assert server.notify_log("error", "yes", logger="shop") == 1
        heard = await stream.sink.message()

    assert heard["params"] == {"level": "error", "data": "yes", "logger": "shop"}


@pytest.mark.parametrize("is_slow", [False, True])
async def test_updates_reach_only_clients_with_current_access_to_the_resource(
    server: MCPServer, is_slow: bool
) -> None:
    """Permissions are checked when an update is sent, not on subscription."""
    access = Granting()
    use_ports(server, access=access)
    access.granted = {"ann", "bob"}
    ann, bob = await connect(server, "ann"), await connect(server, "bob")
    for client in (ann, bob):
        await client.result("resources/subscribe", {"uri": "stock://mug"})
    async with ann.standalone() as hers, bob.standalone() as his:
        access.granted = {"ann"}
        access.is_slow = is_slow
        reached = server.notify_resource_updated("stock://mug")
        assert (await hers.sink.message())["params"] == {"uri": "stock://mug"}
        server.notify_list_changed("tools")
        assert (await his.sink.message())["method"] == "notifications/tools/list_changed"

    assert reached == (0 if is_slow else 1)


class Slow(Granting):
    """Answers each query when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.was_asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def load_visible(self, exchange: Exchange, requirements: Requirements) -> VisibleEntries:
        self.was_asked.set()
        await self.may_answer.wait()
        return self._visible(exchange, requirements)


async def begin_check(server: MCPServer, client: StreamClient) -> Slow:
    """Subscribe to a resource, and announce a change whose check waits."""
    access = Slow()
    use_ports(server, access=access)
    access.granted = {"ann"}
    access.may_answer.set()
    await client.result("resources/subscribe", {"uri": "stock://mug"})
    access.is_slow = True
    access.was_asked.clear()
    access.may_answer.clear()
    assert server.notify_resource_updated("stock://mug") == 0
    await access.was_asked.wait()
    return access


async def test_an_update_is_not_sent_after_the_client_unsubscribed(server: MCPServer) -> None:
    client = await connect(server)
    async with client.standalone() as stream:
        access = await begin_check(server, client)
        access.is_slow = False
        await client.result("resources/unsubscribe", {"uri": "stock://mug"})
        await client.result("resources/subscribe", {"uri": "stock://cup"})
        access.is_slow = True
        access.was_asked.clear()
        assert server.notify_resource_updated("stock://cup") == 0
        await access.was_asked.wait()
        access.may_answer.set()

        # The checks end in the order in which they began.
        assert (await stream.sink.message())["params"] == {"uri": "stock://cup"}


@pytest.mark.http_only("a pipe is one stream")
async def test_an_update_goes_to_the_stream_that_was_opened_during_its_check(
    server: MCPServer,
) -> None:
    client = await connect(server)
    async with client.standalone():
        access = await begin_check(server, client)
        async with client.standalone() as newer:
            access.may_answer.set()
            assert (await newer.sink.message())["params"] == {"uri": "stock://mug"}


async def test_several_registrations_send_one_list_changed(server: MCPServer) -> None:
    client = await connect(server)
    async with client.standalone() as stream:
        for name in ("a", "b", "c"):
            server.register_tool(lambda: "x", name=name)
        server.remove_tool("a")
        assert (await stream.sink.message())["method"] == "notifications/tools/list_changed"
        server.notify("notifications/end")
        assert (await stream.sink.message())["method"] == "notifications/end"


@pytest.mark.http_only("a client on a pipe is no session that the site knows")
async def test_a_client_is_pinged_on_its_standalone_stream(server: MCPServer) -> None:
    client = await connect(server)
    async with client.standalone() as stream:
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
async def test_a_stream_closes_when_its_client_ignores_pings() -> None:
    server = make_server(ping_interval_s=3600, ping_failures=2)
    client = await connect(server)
    stream = client.listen()
    await stream.sink.next()
    (open_stream,) = server.engine.hub.streams.values()
    ping_stream(server.engine.hub, open_stream)
    await client.respond(await stream.sink.message(), result={})
    for _ in range(2):
        ping_stream(server.engine.hub, open_stream)
        await stream.sink.message()
        assert server.engine.hub.streams
    ping_stream(server.engine.hub, open_stream)

    assert (await stream.reply()).status == 200
    assert not server.engine.hub.streams


@pytest.mark.http_only("no pings are sent on a pipe: its end is noticed")
async def test_pings_are_sent_at_the_advertised_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They do not wait for the periodic work of the hub."""
    monkeypatch.setattr("django_mcp.server.streams.hub.TICK_S", 3600)
    client = await connect(make_server(ping_interval_s=0.02))
    async with client.standalone() as stream:
        for _ in range(5):
            asked = await stream.sink.message()
            assert asked["method"] == "ping"
            await client.respond(asked, result={})


ADVERTISED = {"keepalive": {"enabled": True, "intervalMs": 30000, "failureThreshold": 3}}
HANDSHAKE = {
    "protocolVersion": V2025_11_25.name,
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"},
}


async def experimental_of(client: StreamClient) -> Any:
    told = await client.result("initialize", HANDSHAKE)
    found = dict(told["capabilities"]["experimental"])
    # Resources are there, and so is this.
    assert found.pop("resourceReadChunking") == {"enabled": True}
    return found or None


@pytest.mark.http_only("the test below is of a pipe")
async def test_pings_and_limits_are_advertised_when_configured() -> None:
    limits = {"loggingRateLimit": {"enabled": True, "perSecond": 5}}
    both = await experimental_of(
        StreamClient(make_server(ping_interval_s=30, log_rate=5), V2025_11_25)
    )

    assert both == {**ADVERTISED, **limits}
    assert await experimental_of(StreamClient(make_server(), V2025_11_25)) is None


async def test_pings_are_advertised_only_when_they_are_sent(transport: str) -> None:
    """They are not sent over stdio or without sessions."""
    by_session = await experimental_of(StreamClient(make_server(ping_interval_s=30), V2025_11_25))
    stateless = make_server(ping_interval_s=30, mode="stateless")

    assert by_session == (ADVERTISED if transport == "http" else None)
    assert await experimental_of(StreamClient(stateless, V2025_11_25)) is None


@pytest.mark.parametrize(
    ("wish", "is_received"),
    [
        ("WARN", [False, True]),
        ("Warning", [False, True]),
        ({"level": "warning"}, [False, True]),
        ("FATAL", [False, False]),
        ("DEBUG", [True, True]),
        ("loud", [True, True]),
        (7, [True, True]),
    ],
)
async def test_a_client_can_set_its_log_level_in_the_handshake(
    server: MCPServer, wish: Any, is_received: list[bool]
) -> None:
    client = StreamClient(server, V2025_11_25)
    await client.open(capabilities={"experimental": {"logLevel": wish}})
    async with client.standalone() as stream:
        told = [server.notify_log(level, level) for level in ("info", "warning")]
        server.notify("notifications/end")
        heard = []
        while (message := await stream.sink.message())["method"] != "notifications/end":
            heard.append(message["params"]["level"])

    assert told == [int(each) for each in is_received]
    assert heard == [
        level for level, is_sent in zip(("info", "warning"), is_received, strict=True) if is_sent
    ]


async def test_log_messages_inside_and_outside_handlers_share_one_limit() -> None:
    server = make_server(log_rate=5)
    client = await connect(server)
    running = client.call_tool("chatter", {"count": 3})
    await running.answer()
    async with client.standalone() as stream:
        told = [server.notify_log("error", number) for number in range(50)]
        server.notify("notifications/end")
        while (await stream.sink.message())["method"] != "notifications/end":
            pass

    assert told[:2] == [1, 1]
    assert 2 <= sum(each or 0 for each in told) < 10


@pytest.mark.parametrize("elicitation_id", ["", None, 7])
async def test_elicitation_complete_requires_an_elicitation_id(
    server: MCPServer, elicitation_id: Any
) -> None:
    with pytest.raises(ValueError, match="elicitation_id is empty"):
        server.notify_elicitation_complete("0" * 32, elicitation_id)
    with pytest.raises(ValueError, match="elicitation_id is empty"):
        await server.anotify_elicitation_complete("0" * 32, elicitation_id)


@pytest.mark.http_only("a client on a pipe is no session that the site knows")
async def test_elicitation_complete_can_be_sent_by_the_context_of_a_request(
    server: MCPServer,
) -> None:
    @server.tool
    async def finish(ctx: Context[Any]) -> int | None:
        return await server.anotify_elicitation_complete(ctx, "e1")

    client = await connect(server)
    async with client.standalone() as stream:
        result = await client.result("tools/call", {"name": "finish"})
        message = await stream.sink.message()

    assert result["structuredContent"] == {"result": 1}
    assert message["method"] == "notifications/elicitation/complete"
    assert message["params"] == {"elicitationId": "e1"}

    without = await WireClient(server, V2026_07_28).result("tools/call", {"name": "finish"})
    assert without["isError"]


@pytest.mark.http_only("a client on a pipe is no session that the site knows")
@pytest.mark.parametrize("revision", [V2025_03_26, V2025_06_18, V2025_11_25])
async def test_elicitation_complete_is_sent_only_in_revisions_that_have_it(
    server: MCPServer, revision: Revision
) -> None:
    client = StreamClient(server, revision)
    await client.open()
    async with client.standalone() as stream:
        (handle,) = await server.aconnected_sessions()
        told = server.notify_elicitation_complete(handle.key, "e1")
        server.notify("notifications/end")
        first = await stream.sink.message()

    assert told == (1 if revision is V2025_11_25 else 0)
    assert first["method"] == (
        "notifications/elicitation/complete" if revision is V2025_11_25 else "notifications/end"
    )


@pytest.mark.http_only("a client on a pipe is no session that the site knows")
async def test_ping_without_a_session_is_answered_by_the_first_standalone_stream(
    server: MCPServer,
) -> None:
    silent, awake = await connect(server), await connect(server)
    assert await server.aping_client(timeout_s=0.01) is None
    async with silent.standalone() as one, awake.standalone() as other:
        assert await server.aping_client(timeout_s=0.01) is None
        for stream in (one, other):
            assert (await stream.sink.message())["method"] == "ping"
        pinging = asyncio.create_task(server.aping_client(timeout_s=10))
        assert (await one.sink.message())["method"] == "ping"
        await awake.respond(await other.sink.message(), result={})
        assert await pinging is not None


async def test_a_server_reports_whether_a_resource_has_subscribers(server: MCPServer) -> None:
    client = await connect(server)
    assert not await server.ais_subscribed("stock://mug")
    await client.result("resources/subscribe", {"uri": "stock://mug"})

    assert await server.ais_subscribed("stock://mug")
    assert not await server.ais_subscribed("stock://cup")
    await client.result("resources/unsubscribe", {"uri": "stock://mug"})
    assert not await server.ais_subscribed("stock://mug")


async def test_a_listener_counts_as_subscribed_while_it_listens(server: MCPServer) -> None:
    stream = StreamClient(server, V2026_07_28).begin(
        "subscriptions/listen", {"notifications": {"resourceSubscriptions": ["stock://mug"]}}
    )
    await stream.sink.message()
    assert await server.ais_subscribed("stock://mug")
    server.engine.hub.end_streams(Ending.SHUTDOWN)
    await stream.reply()
    assert not await server.ais_subscribed("stock://mug")


class Watching(NoObserver):
    def __init__(self) -> None:
        self.heard: list[tuple[bool, str, Any]] = []

    def client_notification(
        self, connection: Any, method: str, params: Any, quota_key: str
    ) -> None:
        self.heard.append((connection is None, method, params))


async def test_notifications_outside_a_session_reach_the_observer(server: MCPServer) -> None:
    watching = Watching()
    use_ports(server, connection_observer=watching)
    client = StreamClient(server, V2026_07_28)
    await client.post(
        encode({"jsonrpc": "2.0", "method": "notifications/own", "params": {"n": 1}}),
        {"mcp-protocol-version": V2026_07_28.name, "mcp-method": "notifications/own"},
    )

    assert [(method, params) for _, method, params in watching.heard] == [
        ("notifications/own", {"n": 1})
    ]


class Failing(NoObserver):
    def stream_opened(self, stream: Any) -> None:
        raise RuntimeError("no")


@pytest.mark.http_only("a pipe has no stream of its own")
async def test_an_observer_that_raises_leaves_no_stream_attached(server: MCPServer) -> None:
    client = await connect(server)
    use_ports(server, connection_observer=Failing())
    with pytest.raises(RuntimeError):
        await client.listen().reply()

    assert not server.engine.hub.streams


async def test_log_messages_are_rate_limited() -> None:
    server = make_server(log_rate=3)
    client = await connect(server)
    running = client.call_tool("chatter", {"count": 50})
    await running.answer()
    sent = [item for _, item in _drain(running.sink.items) if item is not None]

    assert [each["params"]["data"] for each in sent][:3] == [0, 1, 2]
    assert len(sent) < 50


@pytest.mark.http_only("a pipe is one stream, as old as the connection")
async def test_the_first_stream_of_a_session_can_start_with_list_changes() -> None:
    server = make_server(tell_lists_at_start=True)
    client = await connect(server)
    async with client.standalone() as stream:
        heard = [(await stream.sink.message())["method"] for _ in range(2)]
    async with client.standalone() as again:
        server.notify("notifications/end")
        assert (await again.sink.message())["method"] == "notifications/end"

    assert heard == [f"notifications/{name}/list_changed" for name in ("tools", "resources")]


@pytest.mark.http_only("a pipe is one stream, as old as the connection")
async def test_old_streams_are_closed(server: MCPServer) -> None:
    young, old = await connect(server), await connect(server)
    streams = [young.listen(), old.listen()]
    for stream in streams:
        await stream.sink.next()
    list(server.engine.hub.streams.values())[1].opened_s -= server.engine.options.stream_max_age_s
    close_old_streams(server.engine.hub)
    await streams[1].reply()

    assert streams[1].sink.is_closed
    assert len(server.engine.hub.streams) == 1
    streams[0].leave()


@pytest.mark.http_only("a pipe is one stream, as old as the connection")
async def test_the_site_can_end_a_stream_or_a_session(server: MCPServer) -> None:
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
async def test_no_stream_opens_during_shutdown(server: MCPServer) -> None:
    client = await connect(server)
    stream = client.listen()
    await stream.sink.next()
    server.engine.hub.is_closing = True
    server.engine.hub.end_streams(Ending.SHUTDOWN)
    await stream.reply()
    refused = await client.listen().reply()

    assert refused.status == 503
    assert dict(refused.headers)[b"retry-after"] == b"10"


def _drain(queue: asyncio.Queue[Any]) -> list[Any]:
    return [queue.get_nowait() for _ in range(queue.qsize())]


async def test_a_running_hub_accepts_another_server(server: MCPServer) -> None:
    other = MCPServer("other")
    other.engine.hub = server.engine.hub
    await connect(server)
    await connect(other)

    assert [server.engine.hub.servers[name] for name in (server.name, "other")] == [
        server.engine,
        other.engine,
    ]
