"""Standalone streams, listen streams and the resumption of calls, in one process."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from django_mcp.protocol.json import JSONObject, decode, encode
from django_mcp.protocol.revisions import Revision
from django_mcp.server.exchange.caller import ANONYMOUS
from django_mcp.server.handlers.context import Context
from django_mcp.server.streams.hub import Hub
from django_mcp.server.streams.messenger import BATCH, MAX_OTHERS, LocalBus
from django_mcp.server.streams.process_messages import PingClient, ProcessMessage, StreamOpened
from django_mcp.server.streams.stream import (
    MAX_QUEUED_BYTES,
    MAX_QUEUED_EVENTS,
    Change,
    Ending,
    PushStream,
    StreamKind,
)
from django_mcp.sessions.core import resumable_streams
from django_mcp.sessions.core.memory import MemoryEvents
from tests.support.ports import use_ports
from tests.support.server.plain import MCPServer
from tests.support.server.streams import LiveSink, StreamClient
from tests.support.wire import (
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
    WireClient,
)

NOT_RESUMED = "a pipe has no events with ids, and nothing is resumed on one"
RESUMABLE = pytest.mark.parametrize("revision", [V2025_03_26, V2025_06_18, V2025_11_25])

MESSAGES = tuple(ProcessMessage.__subclasses__())
KINDS = tuple(str(each.__struct_config__.tag) for each in MESSAGES)


class RecordingBus(LocalBus):
    """Keeps what is sent to the other processes."""

    is_shared = True

    def __init__(self) -> None:
        self.sent: list[JSONObject] = []

    async def send(self, *messages: JSONObject) -> None:
        self.sent += messages


@pytest.fixture
def go() -> asyncio.Event:
    return asyncio.Event()


@pytest.fixture
def server(go: asyncio.Event) -> MCPServer:
    server = MCPServer("tests")

    @server.resource("stock://{sku}")
    def stock(sku: str) -> str:
        return sku

    @server.tool
    async def work(ctx: Context[Any]) -> str:
        await ctx.aprogress(1)
        await go.wait()
        await ctx.aprogress(2)
        return "worked"

    @server.tool
    async def polled(ctx: Context[Any]) -> str:
        await ctx.aclose_stream(retry_ms=250)
        await go.wait()
        return "worked"

    return server


async def connect(server: MCPServer, revision: Revision) -> StreamClient:
    client = StreamClient(server, revision)
    await client.open()
    return client


def tools_changed(server: MCPServer) -> Change:
    return Change(server=server.name, list="tools")


# -- standalone streams


@RESUMABLE
async def test_a_change_reaches_the_standalone_stream(
    server: MCPServer, revision: Revision
) -> None:
    client = await connect(server, revision)
    async with client.standalone() as stream:
        reached = server.engine.hub.announce(tools_changed(server))
        heard = await stream.sink.message()

    assert reached == 1
    assert heard == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


@pytest.mark.http_only("a pipe is one stream, and no other is opened")
async def test_one_of_several_streams_gets_each_message(server: MCPServer) -> None:
    """The newest one; when it ends, the previous one."""
    client = await connect(server, V2025_11_25)
    async with client.standalone() as older:
        async with client.standalone() as newer:
            assert server.engine.hub.announce(tools_changed(server)) == 1
            await newer.sink.message()
            assert older.sink.items.empty()
        assert server.engine.hub.announce(tools_changed(server)) == 1
        await older.sink.message()


async def test_updates_reach_only_subscribers(server: MCPServer) -> None:
    client, other = await connect(server, V2025_11_25), await connect(server, V2025_11_25)
    change = Change(server=server.name, uri="stock://mug")
    await client.result("resources/subscribe", {"uri": "stock://mug"})
    async with client.standalone() as stream, other.standalone():
        assert server.engine.hub.announce(change) == 1
        heard = await stream.sink.message()
        await other.result("resources/subscribe", {"uri": "stock://mug"})
        assert server.engine.hub.announce(change) == 2
        await client.result("resources/unsubscribe", {"uri": "stock://mug"})
        assert server.engine.hub.announce(change) == 1

    assert heard["params"] == {"uri": "stock://mug"}


@pytest.mark.parametrize("uri", ["other://x", 7, None])
async def test_a_missing_resource_cannot_be_subscribed_to(server: MCPServer, uri: Any) -> None:
    client = await connect(server, V2025_11_25)
    status, error = await client.error("resources/subscribe", {"uri": uri})

    assert status == 200
    assert error["code"] in (-32002, -32602)


async def test_registrations_on_another_server_send_no_notification(server: MCPServer) -> None:
    client = await connect(server, V2025_11_25)
    async with client.standalone():
        assert server.engine.hub.announce(Change(server="another", list="tools")) == 0


@pytest.mark.http_only("the session of a pipe ends with the pipe")
async def test_ending_a_session_ends_its_stream(server: MCPServer) -> None:
    client = await connect(server, V2025_11_25)
    stream = client.listen()
    await stream.sink.next()
    session = next(iter(server.engine.hub.sessions.values()))
    server.engine.hub.end_session(session.key)
    reply = await stream.reply()

    assert (reply.status, reply.body) == (200, None)
    assert not server.engine.hub.streams


@pytest.mark.http_only("a pipe that is closed is not come back to")
async def test_a_stream_closed_by_the_server_sends_a_retry_delay(server: MCPServer) -> None:
    client = await connect(server, V2025_11_25)
    stream = client.listen()
    primed = await stream.sink.next()
    server.engine.hub.end_streams(Ending.SHUTDOWN)
    await stream.reply()

    assert primed[0] is not None
    assert await stream.sink.next() == (None, {"retry": 1000})


@pytest.mark.http_only("who does not read from a pipe is waited for: test_bad_input of stdio")
async def test_a_stalled_reader_is_disconnected(server: MCPServer) -> None:
    """Other clients are not affected."""
    client, other = await connect(server, V2025_11_25), await connect(server, V2025_11_25)
    stuck = asyncio.Event()
    async with other.standalone() as healthy:
        stream = client.listen()
        await stream.sink.next()

        async def never(message: bytes, event_id: str | None = None) -> None:
            await stuck.wait()

        stream.sink.send = never  # type: ignore[method-assign]
        for n in range(MAX_QUEUED_EVENTS + 2):
            params = {"n": n}
            server.engine.hub.announce(
                Change(server=server.name, method="notifications/x", params=params)
            )
            await healthy.sink.message()
        await stream.reply()

        assert len(server.engine.hub.streams) == 1


@pytest.mark.http_only("who does not read from a pipe is waited for: test_bad_input of stdio")
@pytest.mark.parametrize("is_paused", [False, True])
async def test_a_burst_of_changes_closes_no_stream_and_loses_no_change(
    server: MCPServer, is_paused: bool
) -> None:
    """Beyond the queue, only the names of changed lists are stored, however many changes there are at once."""
    uris = [f"stock://{number}" for number in range(4 * MAX_QUEUED_EVENTS)]
    client = StreamClient(server, V2026_07_28)
    wanted = {"resourceSubscriptions": uris[:1000], "toolsListChanged": True}
    stream, _ = await listen(client, wanted)
    (push_stream,) = server.engine.hub.streams.values()
    has_room = asyncio.Event()
    if not is_paused:
        has_room.set()
    send = stream.sink.send

    async def send_with_room(message: bytes, event_id: str | None = None) -> None:
        await has_room.wait()
        await send(message, event_id)

    stream.sink.send = send_with_room
    for uri in uris:
        server.engine.hub.announce(Change(server=server.name, uri=uri))
        server.engine.hub.announce(tools_changed(server))
        if is_paused:
            await asyncio.sleep(0)
    assert push_stream.queued_bytes <= MAX_QUEUED_BYTES
    has_room.set()
    heard = [await stream.sink.message() for _ in range(1001)]
    stream.leave()

    told = Counter(each["params"].get("uri", each["method"]) for each in heard)
    assert told == Counter([*uris[:1000], "notifications/tools/list_changed"])


async def test_equal_custom_notifications_are_each_sent(server: MCPServer) -> None:
    """Only change notifications can be merged."""
    client = await connect(server, V2025_11_25)
    own = Change(server=server.name, method="notifications/x", params={"n": 1})
    async with client.standalone() as stream:
        assert [server.engine.hub.announce(own) for _ in range(3)] == [1, 1, 1]
        assert [server.engine.hub.announce(tools_changed(server)) for _ in range(3)] == [1, 1, 1]
        server.engine.hub.announce(Change(server=server.name, method="notifications/end"))
        heard = [(await stream.sink.message())["method"] for _ in range(5)]

    assert heard == [
        *["notifications/x"] * 3,
        "notifications/tools/list_changed",
        "notifications/end",
    ]


async def test_streams_get_list_changes_after_lost_messages(server: MCPServer) -> None:
    """Each stream gets its own subscriptions; lists only if the lost messages may be of any server."""
    heard_of = ["stock://mug", "stock://cup"]
    stream, _ = await listen(StreamClient(server, V2026_07_28), {"resourceSubscriptions": heard_of})
    lists, _ = await listen(
        StreamClient(server, V2026_07_28), {"resourcesListChanged": True, "toolsListChanged": True}
    )
    server.engine.hub.receive({"kind": "missed", "server": "another"})
    server.engine.hub.receive({"kind": "missed", "server": server.name})
    found = [await stream.sink.message() for _ in range(2)]
    first = await lists.sink.message()
    server.engine.hub.receive({"kind": "missed"})
    again = [await stream.sink.message() for _ in range(2)]
    others = [(await lists.sink.message())["method"] for _ in range(2)]
    stream.leave()
    lists.leave()

    assert {each["params"]["uri"] for each in found} == set(heard_of)
    assert {each["params"]["uri"] for each in again} == set(heard_of)
    assert first["method"] == "notifications/resources/list_changed"
    assert sorted(others) == [
        "notifications/resources/list_changed",
        "notifications/tools/list_changed",
    ]
    assert stream.sink.items.empty()


@pytest.mark.http_only("a pipe is one stream, as old as the connection")
async def test_a_stream_recovers_when_the_end_of_a_newer_one_was_lost(
    server: MCPServer,
) -> None:
    client = await connect(server, V2025_11_25)
    async with client.standalone() as stream:
        (key,) = server.engine.hub.sessions
        (opened_at,) = (each.opened_at for each in server.engine.hub.streams.values())
        server.engine.hub.receive(StreamOpened(session=key, at=opened_at + 10).to_wire())
        assert server.engine.hub.announce(tools_changed(server)) == 0
        server.engine.hub.receive({"kind": "missed"})
        assert server.engine.hub.announce(tools_changed(server)) == 1
        # An older one elsewhere, announced late, changes nothing.
        server.engine.hub.receive(StreamOpened(session=key, at=opened_at - 10).to_wire())
        assert server.engine.hub.announce(tools_changed(server)) == 1
        await stream.sink.message()


@pytest.mark.http_only("a pipe is one stream, as old as the connection")
async def test_an_older_stream_stays_inactive_while_another_process_has_the_newest(
    server: MCPServer,
) -> None:
    client = await connect(server, V2025_11_25)
    async with client.standalone():
        (key,) = server.engine.hub.sessions
        async with client.standalone():
            opened_at = max(each.opened_at for each in server.engine.hub.streams.values())
            server.engine.hub.receive(StreamOpened(session=key, at=opened_at + 10).to_wire())
            assert server.engine.hub.announce(tools_changed(server)) == 0
        assert len(server.engine.hub.streams) == 1
        assert server.engine.hub.announce(tools_changed(server)) == 0


@pytest.mark.http_only("a client on a pipe is no session that the site knows")
async def test_a_request_is_not_given_to_a_stream_that_has_ended(server: MCPServer) -> None:
    """Another process may have a newer one."""
    client = await connect(server, V2025_11_25)
    async with client.standalone():
        (key,) = server.engine.hub.sessions
        server.engine.hub.bus = bus = RecordingBus()
        server.engine.hub.hand_over(PingClient(session=key, id="ask-1"))
        server.engine.hub.end_streams(Ending.CLOSED)
        server.engine.hub.hand_over(PingClient(session=key, id="ask-2"))
        await server.engine.hub.flush()

    assert [each["id"] for each in bus.sent if each["kind"] == "ping"] == ["ask-2"]


@pytest.mark.http_only("a client on a pipe is in one process with its calls")
async def test_cancelling_unknown_calls_keeps_out_no_messages_of_others(
    server: MCPServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Such a cancellation goes to the other processes, where the call may run."""
    clients = [
        WireClient(server, V2025_11_25, principal=SimpleNamespace(key=f"user:{name}"))
        for name in ("loud", "loud", "quiet")
    ]
    for client in clients:
        await client.open()
    server.engine.hub.bus = bus = RecordingBus()
    # What waits goes out together, as soon as nothing else runs.
    async with asyncio.TaskGroup() as posts:
        for number in range(2 * MAX_OTHERS):
            posts.create_task(cancel(clients[number % 2], number))
        posts.create_task(cancel(clients[2], "quiet"))
    await server.engine.hub.flush()
    cancelled = [each["id"] for each in bus.sent if each["kind"] == "call-cancelled"]

    assert cancelled[-1] == "quiet"
    assert 0 < cancelled.index("quiet") <= 2 * BATCH
    assert not caplog.records

    await cancel(clients[0], "later")
    await server.engine.hub.flush()

    assert bus.sent[-1]["id"] == "later"


async def cancel(client: WireClient, request_id: int | str) -> None:
    sent = {"method": "notifications/cancelled", "params": {"requestId": request_id}}
    headers = {"mcp-session-id": client.session_id or "", "mcp-protocol-version": "2025-11-25"}
    await client.post(encode({"jsonrpc": "2.0", **sent}), headers)


@pytest.mark.parametrize("kind", [*KINDS, None, 7, [], {}, "", "unknown"])
async def test_forged_messages_between_processes_are_harmless(
    server: MCPServer, kind: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Anybody with access to Redis can send them; no stream ends, and the log is not flooded."""
    client = await connect(server, V2025_11_25)
    odd: list[Any] = [None, 7, "x", [], {}, [[]], {"x": 1}, -1.5, "0" * 32]
    names = sorted({name for each in MESSAGES for name in each.__struct_fields__})
    async with client.standalone() as stream:
        for value in odd:
            server.engine.hub.receive({"kind": kind})
            for name in names:
                server.engine.hub.receive({"kind": kind, name: value})
            server.engine.hub.receive({"kind": kind, **dict.fromkeys(names, value)})
            server.engine.hub.receive({"kind": kind, "server": server.name, "uri": value})
        own = Change(server=server.name, method="notifications/own")
        assert server.engine.hub.announce(own) == 1
        while (await stream.sink.message())["method"] != "notifications/own":
            pass

    assert len([each for each in caplog.records if each.levelname != "DEBUG"]) <= 2


async def test_the_same_change_is_not_queued_twice(server: MCPServer) -> None:
    client = await connect(server, V2025_11_25)
    async with client.standalone() as stream:
        for _ in range(1000):
            server.engine.hub.publish(tools_changed(server))
        await stream.sink.message()
        await asyncio.sleep(0)

        assert stream.sink.items.qsize() == 0


@pytest.mark.http_only("a pipe is one stream, and no other is opened")
async def test_the_number_of_streams_is_limited() -> None:
    server = MCPServer("small", max_streams=1)
    client = await connect(server, V2025_11_25)
    async with client.standalone():
        reply = await client.listen().reply()

    assert reply.status == 503
    assert (b"retry-after", b"10") in reply.headers


# -- listen streams


async def listen(client: StreamClient, wanted: Any, id: Any = "listen-1") -> Any:
    stream = client.begin("subscriptions/listen", {"notifications": wanted}, id=id)
    return stream, await stream.sink.message()


@pytest.mark.parametrize("id", ["listen-1", 7])
async def test_a_listener_receives_what_it_requested(server: MCPServer, id: Any) -> None:
    """Missing resources send no updates."""
    client = StreamClient(server, V2026_07_28)
    wanted = {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourcesListChanged": "yes",
        "resourceSubscriptions": ["stock://mug", "other://x", "stock://mug"],
        "unknown": True,
    }
    stream, acknowledged = await listen(client, wanted, id)
    marked = {"io.modelcontextprotocol/subscriptionId": id}
    server.engine.hub.announce(Change(server=server.name, list="prompts"))
    server.engine.hub.announce(Change(server=server.name, method="notifications/custom"))
    for uri in ("stock://cup", "other://x", "stock://mug"):
        server.engine.hub.announce(Change(server=server.name, uri=uri))
    updated = await stream.sink.message()
    server.engine.hub.end_streams(Ending.SHUTDOWN)
    body = await stream.answer()

    assert acknowledged == {
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": {
            "notifications": {
                "toolsListChanged": True,
                "resourceSubscriptions": ["stock://mug", "other://x"],
            },
            "_meta": marked,
        },
    }
    assert updated["method"] == "notifications/resources/updated"
    assert updated["params"] == {"uri": "stock://mug", "_meta": marked}
    assert body["result"]["resultType"] == "complete"
    assert body["result"]["_meta"].items() >= marked.items()
    # The result is the only sign of its end.
    assert stream.sink.items.empty()


async def test_a_change_right_after_the_acknowledgement_is_received(server: MCPServer) -> None:
    """Every change after the acknowledgement is received."""
    client = StreamClient(server, V2026_07_28)
    stream = client.begin("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    send = stream.sink.send

    async def change(message: bytes, event_id: str | None = None) -> None:
        if b"acknowledged" in message:
            server.engine.hub.announce(tools_changed(server))
        await send(message, event_id)

    stream.sink.send = change  # type: ignore[method-assign]
    methods = [(await stream.sink.message())["method"] for _ in range(2)]
    stream.leave()

    assert methods == [
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
    ]


async def test_progress_stays_on_the_stream_of_its_request(
    server: MCPServer, go: asyncio.Event
) -> None:
    """A listener receives no messages of calls."""
    client = StreamClient(server, V2026_07_28)
    listening, _ = await listen(client, {"toolsListChanged": True})
    meta = {"progressToken": "p", "io.modelcontextprotocol/logLevel": "debug"}
    call = client.call_tool("work", _meta=meta)
    heard = await call.sink.message()
    go.set()
    await call.answer()
    server.engine.hub.announce(tools_changed(server))
    first = await listening.sink.message()
    listening.leave()

    assert heard["params"]["progressToken"] == "p"
    assert first["method"] == "notifications/tools/list_changed"


@pytest.mark.http_only("a pipe is one stream")
@RESUMABLE
async def test_progress_of_concurrent_calls_does_not_mix(
    server: MCPServer, go: asyncio.Event, revision: Revision
) -> None:
    client = await connect(server, revision)
    calls = {
        token: client.begin(
            "tools/call",
            {"name": "work", "arguments": {}, "_meta": {"progressToken": token}},
            id=f"call {token}",
        )
        for token in ("a", "b", 0)
    }
    first = {token: await call.sink.message() for token, call in calls.items()}
    go.set()
    answers = {token: await call.answer() for token, call in calls.items()}
    second = {token: await call.sink.message() for token, call in calls.items()}

    for token, call in calls.items():
        told = [each[token]["params"]["progressToken"] for each in (first, second)]
        assert told == [token, token]
        assert answers[token]["id"] == f"call {token}"
        assert call.sink.items.empty()


@pytest.mark.http_only(NOT_RESUMED)
async def test_an_event_id_identifies_its_stream(server: MCPServer, go: asyncio.Event) -> None:
    """The stream's part of the id has 122 random bits, so that no two in a session are alike."""
    client = await connect(server, V2025_11_25)
    calls = [
        client.begin("tools/call", {"name": "work", "_meta": {"progressToken": n}}, id=f"c{n}")
        for n in range(3)
    ]
    ids = [(await call.sink.next())[0] for call in calls]
    go.set()
    last = [(await call.reply()).event_id for call in calls]
    streams = [str(each).split("-")[0] for each in ids]

    assert all(len(each) == 32 and int(each, 16) for each in streams)
    assert len(set(streams)) == 3
    assert [str(each).split("-")[0] for each in last] == streams
    assert len({*ids, *last}) == 6


async def test_listening_without_any_notifications_is_rejected() -> None:
    """The method exists nevertheless."""
    server = MCPServer("bare")
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["stock://mug"]}
    stream, acknowledged = await listen(StreamClient(server, V2026_07_28), wanted)
    stream.leave()

    assert acknowledged["params"]["notifications"] == {}


async def test_listeners_are_independent(server: MCPServer) -> None:
    client = StreamClient(server, V2026_07_28)
    one, _ = await listen(client, {"toolsListChanged": True}, "one")
    two, _ = await listen(client, {}, "two")

    assert server.engine.hub.announce(tools_changed(server)) == 1
    assert (await one.sink.message())["params"]["_meta"].popitem()[1] == "one"
    assert two.sink.items.empty()
    server.engine.hub.end_streams(Ending.SHUTDOWN)
    await one.reply()
    await two.reply()


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"notifications": None},
        {"notifications": []},
        {"notifications": {"resourceSubscriptions": "stock://mug"}},
        {"notifications": {"resourceSubscriptions": [1]}},
        {"notifications": {"resourceSubscriptions": ["stock://mug"] * 100_000}},
    ],
)
async def test_a_malformed_filter_is_rejected(server: MCPServer, params: Any) -> None:
    status, error = await StreamClient(server, V2026_07_28).error("subscriptions/listen", params)

    assert (status, error["code"]) == (200, -32602)


# -- resumption


@RESUMABLE
@pytest.mark.http_only(NOT_RESUMED)
async def test_a_call_continues_after_disconnect_and_is_resumed(
    server: MCPServer, go: asyncio.Event, revision: Revision
) -> None:
    client = await connect(server, revision)
    call = client.call_tool("work", _meta={"progressToken": "p"})
    event_id, _ = await call.sink.next()
    assert event_id is not None
    call.leave()
    go.set()
    await call.reply()
    resumed = client.listen(event_id)
    reply = await resumed.reply()

    assert decode(reply.body or b"")["id"] == "call"
    assert decode(reply.body or b"")["result"]["content"][0]["text"] == "worked"
    assert reply.event_id not in (None, event_id)
    again = await client.listen(reply.event_id).reply()
    assert b"worked" not in (again.body or b"")


@pytest.mark.http_only(NOT_RESUMED)
async def test_a_resumed_stream_continues_live(server: MCPServer, go: asyncio.Event) -> None:
    client = await connect(server, V2025_11_25)
    call = client.call_tool("work", _meta={"progressToken": "p"})
    event_id, _ = await call.sink.next()
    call.leave()
    resumed = client.listen(event_id)
    # It runs until it waits for more.
    for _ in range(10):
        await asyncio.sleep(0)
    assert server.engine.hub.followers.count == 1
    go.set()
    progress = await resumed.sink.message()
    answer = await resumed.answer()

    assert progress["params"]["progress"] == 2
    assert answer["result"]["content"][0]["text"] == "worked"


@pytest.mark.http_only("a pipe has no session that ends before it")
async def test_a_disconnected_call_ends_with_its_session(server: MCPServer) -> None:
    """It ends like a call with an unread response, without an error of the transport."""
    client = await connect(server, V2025_11_25)
    call = client.call_tool("work", _meta={"progressToken": "p"})
    await call.sink.next()
    call.leave()
    server.engine.hub.end_session(next(iter(server.engine.hub.sessions.values())).key)

    assert (await call.answer())["error"]["code"] == -32800


@pytest.mark.http_only(NOT_RESUMED)
async def test_a_handler_closes_its_stream_and_the_client_polls(
    server: MCPServer, go: asyncio.Event
) -> None:
    client = await connect(server, V2025_11_25)
    call = client.call_tool("polled")
    primed, closed = await call.sink.next(), await call.sink.next()
    resumed = client.listen(primed[0])
    go.set()

    assert primed[1] is None
    assert closed == (None, {"retry": 250})
    assert (await resumed.answer())["result"]["content"][0]["text"] == "worked"


async def test_older_clients_wait_on_the_stream(server: MCPServer, go: asyncio.Event) -> None:
    """It is not closed before the response."""
    client = await connect(server, V2025_06_18)
    call = client.call_tool("polled")
    go.set()

    assert (await call.answer())["result"]["content"][0]["text"] == "worked"
    assert call.sink.items.empty()


@pytest.mark.http_only(NOT_RESUMED)
async def test_a_silent_call_opens_its_stream(
    server: MCPServer, go: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumable_streams, "PRIME_AFTER_S", 0.0)
    client = await connect(server, V2025_11_25)
    call = client.call_tool("work")
    event_id, message = await call.sink.next()
    go.set()
    reply = await call.reply()

    assert event_id is not None
    assert message is None
    assert reply.event_id is not None


@pytest.mark.http_only(NOT_RESUMED)
async def test_only_the_owner_can_resume_a_stream(
    server: MCPServer, go: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another session gets no events, whatever ids it sends."""
    monkeypatch.setattr(resumable_streams, "GRACE_S", 0.0)
    client, thief = await connect(server, V2025_11_25), await connect(server, V2025_11_25)
    call = client.call_tool("work", _meta={"progressToken": "p"})
    event_id, _ = await call.sink.next()
    go.set()
    await call.reply()
    stolen = await thief.listen(event_id).reply()

    assert stolen.status == 400
    assert b"Unknown Last-Event-ID" in (stolen.body or b"")


@pytest.mark.parametrize("last_id", ["x", "-1", "0" * 32, "0" * 32 + "-1" * 300, "\x00", "é"])
@pytest.mark.http_only(NOT_RESUMED)
async def test_an_unknown_event_id_is_rejected(server: MCPServer, last_id: str) -> None:
    client = await connect(server, V2025_11_25)
    reply = await client.listen(last_id).reply()

    assert reply.status == 400


@pytest.mark.http_only(NOT_RESUMED)
async def test_no_events_follow_the_response_of_a_call(
    server: MCPServer, go: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A made-up event is unknown, and no answered call is reported as lost."""
    monkeypatch.setattr(resumable_streams, "GRACE_S", 0.0)
    client = await connect(server, V2025_11_25)
    go.set()
    call = client.call_tool("work", _meta={"progressToken": "p"})
    last_id = (await call.reply()).event_id or ""
    stream_id, _, request_id = last_id.split("-")
    end = await client.listen(last_id).reply()
    future = await client.listen(f"{stream_id}-9999-{request_id}").reply()

    assert (end.status, end.body) == (200, None)
    assert (future.status, b"Unknown Last-Event-ID" in (future.body or b"")) == (400, True)


@pytest.mark.http_only(NOT_RESUMED)
async def test_a_call_of_a_dead_process_fails(
    server: MCPServer, go: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumable_streams, "GRACE_S", 0.0)
    client = await connect(server, V2025_11_25)
    call = client.call_tool("work", _meta={"progressToken": "p"})
    event_id, _ = await call.sink.next()
    # It had recorded nothing, and it is gone.
    use_ports(server, events=MemoryEvents())
    reply = await client.listen(event_id).reply()
    go.set()
    await call.reply()

    assert decode(reply.body or b"")["id"] == "call"
    assert decode(reply.body or b"")["error"]["code"] == -32603


async def test_no_watch_starts_beside_a_stream_that_has_ended():
    """What checks the rights of a stream may go on after its client has left."""
    begun: list[PushStream] = []

    async def watch(stream: PushStream) -> None:
        begun.append(stream)

    stream = PushStream(
        kind=StreamKind.LISTEN,
        server_name="shop",
        sink=LiveSink(),
        principal=ANONYMOUS,
        watches={"key": watch},
        revision_name=V2026_07_28.name,
    )
    stream.end(Ending.CLIENT)
    stream.start_watch("key")
    await asyncio.sleep(0)

    assert begun == []


async def test_security_a_change_of_a_resource_reaches_nobody_without_its_server():
    hub: Hub[Any] = Hub(LocalBus())
    stream = PushStream(
        kind=StreamKind.STDIO,
        server_name="gone",
        sink=LiveSink(),
        principal=ANONYMOUS,
        lists=frozenset({"tools"}),
        uris={"x://1"},
        revision_name=V2025_11_25.name,
    )
    hub.attach(stream)

    # Nothing says who may read it.
    assert hub.publish(Change(server="gone", uri="x://1")) == 0
    assert hub.publish(Change(server="gone", list="tools")) == 1
    await hub.stop()
