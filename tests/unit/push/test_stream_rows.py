"""The rows of streams, and streams of one session in several processes, of which one dies."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import pytest
from asgiref.sync import sync_to_async
from django.test import override_settings
from django.utils import timezone

from django_mcp import MCPServer
from django_mcp.execution.tables import moment
from django_mcp.execution.threads import run_in_pool
from django_mcp.models import Stream, Worker
from django_mcp.push.process_hub import process_hub
from django_mcp.push.stream_rows import is_any_listening
from django_mcp.push.upkeep import check_all
from django_mcp.server.exchange.caller import ANONYMOUS
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.streams.process_messages import StreamOpened
from django_mcp.server.streams.stream import Change, PushStream, StreamKind
from django_mcp.test import AsyncMCPClient
from tests.support.server.streams import LiveSink
from tests.support.wire import V2025_11_25

pytestmark = pytest.mark.django_db(transaction=True)
URIS = ("x://1", "x://2")
LISTS = {f"notifications/{name}/list_changed" for name in ("prompts", "resources", "tools")}


@pytest.fixture(autouse=True)
def stored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("django_mcp.push.stream_rows.LEASE_S", 0.0)
    # One thread, since one database in memory locks its tables against another.
    with override_settings(DJANGO_MCP={"SESSION_STORE": "model", "SYNC_THREADS": 0}):
        yield


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("rows", public=True)
    server.resource("x://1", name="x")(lambda: "x")
    return server


class Other:
    """Another process, which has a stream of a session of this process."""

    def __init__(self, stream: PushStream, newer_by_s: float) -> None:
        assert stream.session is not None
        self.key = stream.session.key
        self.opened_at = stream.opened_at + newer_by_s
        self._worker = Worker(host="web-2", pid=7)

    def claim(self) -> None:
        process_hub().receive(StreamOpened(session=self.key, at=self.opened_at).to_wire())

    @sync_to_async
    def write(self, lease_s: float) -> None:
        self._worker.lease_until = timezone.now() + timedelta(seconds=lease_s)
        self._worker.save()
        Stream.objects.update_or_create(
            worker=self._worker,
            defaults={
                "server": "rows",
                "kind": "get",
                "session_id": UUID(self.key),
                "opened_at": moment(self.opened_at),
            },
        )


def update() -> int:
    """Announce an update; return how many streams here are sent it."""
    return process_hub().announce(Change(server="rows", uri="x://1"))


def only_stream() -> PushStream:
    (stream,) = process_hub().streams.values()
    return stream


async def test_a_stream_takes_over_when_the_process_with_a_newer_one_has_died(server: MCPServer):
    async with AsyncMCPClient(server, revision="2025-11-25").listen("x://1") as changes:
        other = Other(only_stream(), newer_by_s=1.0)
        other.claim()
        await other.write(lease_s=60)
        await check_all(process_hub())
        assert update() == 0

        await other.write(lease_s=-1)
        await check_all(process_hub())
        told = {(await changes.next())["method"] for _ in range(4)}
        assert told == {*LISTS, "notifications/resources/updated"}
        assert update() == 1


async def test_the_newest_of_the_remaining_streams_takes_over(server: MCPServer):
    async with AsyncMCPClient(server, revision="2025-11-25").listen("x://1"):
        dead, older = (Other(only_stream(), newer_by_s=by_s) for by_s in (2.0, -1.0))
        newer = Other(only_stream(), newer_by_s=1.0)
        dead.claim()
        for other, lease_s in ((dead, -1), (older, 60), (newer, 60)):
            await other.write(lease_s=lease_s)
        await check_all(process_hub())
        assert update() == 0

        await newer.write(lease_s=-1)
        await check_all(process_hub())
        assert update() == 1


async def test_a_stream_that_was_claimed_lately_waits(
    server: MCPServer, monkeypatch: pytest.MonkeyPatch
):
    """The row of the newer stream may not be written yet."""
    monkeypatch.setattr("django_mcp.push.stream_rows.LEASE_S", 60.0)
    async with AsyncMCPClient(server, revision="2025-11-25").listen("x://1"):
        Other(only_stream(), newer_by_s=1.0).claim()
        await check_all(process_hub())
        assert update() == 0


async def test_other_processes_see_what_a_pipe_subscribes_to_later(server: MCPServer):
    hub, sink = server.engine.join_hub(), LiveSink()
    stream = PushStream(
        kind=StreamKind.STDIO,
        server_name="rows",
        sink=sink,
        principal=ANONYMOUS,
        lists=frozenset(),
        uris={"x://1"},
        revision_name=V2025_11_25.name,
    )
    connection = ConnectionState(V2025_11_25, subscriptions=stream.uris, stream_id=stream.id)
    hub.attach(stream)
    try:
        await check_all(hub)
        hub.set_subscriptions(connection, {"x://2"})
        await check_all(hub)
        found = [await run_in_pool(lambda uri=uri: is_any_listening("rows", uri)) for uri in URIS]  # type: ignore[misc]
    finally:
        hub.detach(stream)
        await check_all(hub)

    assert found == [False, True]


async def test_a_process_with_nothing_open_deletes_those_that_were_killed():
    ended_at = timezone.now() - timedelta(seconds=60)
    await Worker.objects.acreate(host="web-2", pid=7, lease_until=ended_at)

    await check_all(process_hub())

    assert not await Worker.objects.aexists()
