"""Limits of open streams: per caller, for anonymous callers together, and in total."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import count
from typing import Any

import pytest

from django_mcp.server.exchange.caller import ANONYMOUS
from django_mcp.server.exchange.quotas import Limits
from django_mcp.server.exchange.session import Session
from django_mcp.server.ports import Resumption
from django_mcp.server.streams.process_messages import CloseStream
from django_mcp.sessions.core.memory import MemoryEvents
from tests.support.ports import use_ports
from tests.support.server.plain import MCPServer
from tests.support.server.streams import LiveSink, Open, StreamClient
from tests.support.server.tasks import Legacy, Person
from tests.support.server.tasks import make_server as make_tasks
from tests.support.wire import V2025_11_25, V2026_07_28

pytestmark = pytest.mark.http_only("a pipe has one client")


class AddressedClient(StreamClient):
    """A client of the newest revision that listens from an IP address."""

    def __init__(self, server: MCPServer, address: str, principal: Any = ANONYMOUS) -> None:
        super().__init__(server, V2026_07_28, principal=principal)
        self.address = address

    def run(self, entry: Any, headers: dict[str, str], body: bytes) -> Open:
        opened = super().run(entry, headers, body)
        opened.exchange.caller.address = self.address
        return opened


class Listeners:
    """Opens streams, and closes them at the end of the test."""

    def __init__(self) -> None:
        self.opened: list[Open] = []

    async def status(self, client: AddressedClient, uris: Sequence[str] = ()) -> int:
        """Open one more stream; return the HTTP status of its refusal, or 200."""
        params = {"notifications": {"toolsListChanged": True, "resourceSubscriptions": uris}}
        stream = client.begin("subscriptions/listen", params, id=len(self.opened))
        said = asyncio.ensure_future(stream.sink.items.get())
        await asyncio.wait((said, stream.task), return_when=asyncio.FIRST_COMPLETED, timeout=10)
        if not said.done():
            said.cancel()
            return (await stream.reply()).status
        self.opened.append(stream)
        return 200


@pytest.fixture
async def listeners() -> AsyncIterator[Listeners]:
    found = Listeners()
    yield found
    for stream in found.opened:
        stream.leave()


def make_server(**options: Any) -> MCPServer:
    server = MCPServer("tests", **options)
    server.register_tool(lambda: "x", name="plain")
    return server


async def test_streams_of_one_anonymous_address_are_limited(listeners: Listeners):
    server = make_server(max_streams_per_principal=2)
    own, other = AddressedClient(server, "192.0.2.1"), AddressedClient(server, "192.0.2.2")

    assert [await listeners.status(own) for _ in range(3)] == [200, 200, 429]
    assert await listeners.status(other) == 200


async def test_a_share_of_the_streams_is_kept_for_authenticated_users(listeners: Listeners):
    server = make_server(max_streams=4, anonymous_share=0.5)
    anonymous = [AddressedClient(server, f"192.0.2.{at}") for at in range(3)]
    users = [AddressedClient(server, "192.0.2.1", Person(f"user:{at}")) for at in range(3)]

    assert [await listeners.status(each) for each in anonymous] == [200, 200, 503]
    assert [await listeners.status(each) for each in users] == [200, 200, 503]


async def test_an_address_may_open_another_stream_when_one_has_ended(listeners: Listeners):
    server = make_server(max_streams_per_principal=1)
    client = AddressedClient(server, "192.0.2.1")
    assert [await listeners.status(client) for _ in range(2)] == [200, 429]

    (stream,) = server.engine.hub.streams.values()
    server.engine.hub.hand_over(CloseStream(stream=stream.id))
    await listeners.opened.pop().reply()

    assert await listeners.status(client) == 200


async def begin_call(server: MCPServer, go: asyncio.Event) -> tuple[StreamClient, str]:
    """Begin a call in a session that runs until `go`; return its client, and the first event id of its stream."""

    @server.tool
    async def wait() -> str:
        await go.wait()
        return "done"

    client = StreamClient(server, V2025_11_25)
    await client.open()
    event_id, _ = await client.call_tool("wait").sink.next()
    return client, event_id or ""


class SlowSink(LiveSink):
    """Its client reads nothing before `reads`."""

    reads: asyncio.Event

    async def prime(self, event_id: str | None) -> None:
        await self.reads.wait()
        await super().prime(event_id)


async def test_streams_whose_clients_do_not_read_yet_are_limited(monkeypatch: pytest.MonkeyPatch):
    SlowSink.reads = asyncio.Event()
    server = make_server(max_streams_per_principal=2, anonymous_share=1.0)
    clients = [StreamClient(server, V2025_11_25) for _ in range(5)]
    for client in clients:
        await client.open()
    monkeypatch.setattr("tests.support.server.streams.LiveSink", SlowSink)

    streams = [client.listen() for client in clients]
    statuses = [(await stream.reply()).status for stream in streams[2:]]
    SlowSink.reads.set()
    for stream in streams[:2]:
        await stream.sink.next()
        stream.leave()

    assert statuses == [429] * 3


async def is_refused(stream: Open, status: int) -> bool:
    return (await stream.reply()).status == status


@pytest.mark.parametrize(
    ("limit", "status"), [("max_streams_per_principal", 429), ("max_streams", 503)]
)
async def test_resumed_streams_count_while_they_are_open(limit: str, status: int):
    go = asyncio.Event()
    server = make_server(**{limit: 2}, anonymous_share=1.0)
    client, event_id = await begin_call(server, go)
    async with client.standalone():
        resumed = client.listen(event_id)
        assert await is_refused(client.listen(event_id), status)
        assert await is_refused(client.listen(), status)
        resumed.leave()
        await asyncio.wait((resumed.task,))
        resumed = client.listen(event_id)
        assert await is_refused(client.listen(event_id), status)
        go.set()
        assert b"done" in ((await resumed.reply()).body or b"")
        assert b"done" in ((await client.listen(event_id).reply()).body or b"")


class SlowEvents(MemoryEvents):
    """Events that are being read until the client has gone."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read = asyncio.Event()

    async def read(self, stream_id: str, session: Session, after: int) -> Resumption | None:
        self.is_read.set()
        await asyncio.Event().wait()
        return await super().read(stream_id, session, after)


async def test_a_client_that_disconnects_before_its_stream_is_resumed_does_not_count():
    server = make_server(max_streams_per_principal=1)
    client, event_id = await begin_call(server, asyncio.Event())
    slow = SlowEvents()
    use_ports(server, events=slow)
    resumed = client.listen(event_id)
    await slow.is_read.wait()
    resumed.leave()
    await asyncio.wait((resumed.task,), timeout=10)

    async with client.standalone() as stream:
        assert not stream.task.done()


@pytest.mark.parametrize("can_stream", [True, False])
async def test_requests_that_wait_for_a_result_count_as_streams(can_stream: bool):
    server, gate = make_tasks(max_streams_per_principal=1)
    client, ids = Legacy(server), count()

    def begin() -> Open:
        opened = client.begin("tasks/result", {"taskId": task_id}, id=next(ids))
        opened.exchange.channel.can_stream = can_stream
        return opened

    for _ in range(2):
        gate.may_go_on.clear()
        task_id = await client.create("wait")
        waiting = begin()
        assert await is_refused(begin(), 429)
        gate.may_go_on.set()
        assert "result" in await waiting.answer()
        assert "result" in await begin().answer()


async def test_the_uris_of_listen_streams_are_limited(
    listeners: Listeners, monkeypatch: pytest.MonkeyPatch
):
    limits = Limits(own_count=3, own_bytes=1000, count=4, bytes=1000)
    monkeypatch.setattr("django_mcp.server.methods.subscriptions.URI_LIMITS", limits)
    server = make_server(anonymous_share=1.0)
    server.register_resource("stock://a", lambda: "x", name="a")
    own, other = AddressedClient(server, "192.0.2.1"), AddressedClient(server, "192.0.2.2")
    two = ["stock://a", "stock://b"]

    # A rejected one gets an error: no stream is open for it.
    for client in (own, own, other, other):
        await listeners.status(client, two)
    assert [each.exchange.caller.address for each in listeners.opened] == ["192.0.2.1", "192.0.2.2"]
    assert await listeners.status(other, two[:1]) == 503
    listeners.opened[0].leave()
    await asyncio.wait((listeners.opened[0].task,))
    await listeners.status(own, two)
    assert len(listeners.opened) == 3
