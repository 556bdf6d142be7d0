"""A killed process: its clients continue in another one, and it leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.support import sites
from tests.support.backends import Backends
from tests.support.sessions.client import Stream, connected
from tests.support.sessions.cluster import SITE, Cluster, environment, serving
from tests.support.sessions.rows import Rows
from tests.support.site.sessions import marks

CLEAN_UP_S = 30.0


@pytest.fixture
def pair(shared: Backends, tmp_path: Path) -> Iterator[Cluster]:
    """Two processes, one of which the test may kill."""
    with serving(shared, tmp_path) as found:
        yield found
    assert "Traceback" not in found.logs()


async def ids_and_messages(stream: Stream) -> list[tuple[str | None, str]]:
    """Return the messages until the end of the stream, without empty events."""
    found: list[tuple[str | None, str]] = []
    while True:
        try:
            event = await stream.event()
        except EOFError:
            return found
        if event.data:
            found.append((event.id, event.data))


async def test_clients_continue_in_another_process(pair: Cluster, rows: Rows) -> None:
    """No recorded event is lost or duplicated; its running calls end as failed."""
    async with (
        connected(pair, user="ann") as asked,
        connected(pair, user="ann") as done,
        connected(pair, user="bob") as listener,
    ):
        await listener.ask("resources/subscribe", {"uri": "counter://kept"})
        async with (
            asked.begin("ask_held", name="asked") as asking,
            listener.listen() as standalone,
        ):
            primed = await asking.event()
            question = await asking.event()
            assert "elicitation/create" in question.data
            assert await standalone.event()
            async with done.begin("hold", name="done") as finished:
                begun = await finished.event()
            await pair.marked("done runs")
            pair.mark("done may go")
            async with done.listen(at=1, last_event_id=begun.id) as follower:
                answered = await follower.event()
            await rows.settled()
            pair.kill(0)
            with pytest.raises(EOFError):
                await asking.event()
            with pytest.raises(EOFError):
                await standalone.event()

        async with done.listen(at=1, last_event_id=begun.id) as resumed:
            assert await ids_and_messages(resumed) == [(answered.id, answered.data)]
        async with asked.listen(at=1, last_event_id=primed.id) as resumed:
            first, lost = await ids_and_messages(resumed)
        async with asked.listen(at=1, last_event_id=question.id) as resumed:
            again = await ids_and_messages(resumed)
        async with listener.listen(at=1) as standalone:
            await standalone.event()
            await listener.call("update", uri="counter://kept", at=1)
            heard = await standalone.message()

    assert first == (question.id, question.data)
    assert '"error"' in lost[1]
    assert [data for _, data in again] == [lost[1]]
    assert heard["params"]["uri"] == "counter://kept"


async def test_a_killed_process_leaves_nothing_behind(pair: Cluster, rows: Rows) -> None:
    """Its leases expire, and the remaining process cleans up."""
    pid = pair.workers[0].process.pid
    async with connected(pair, user="ann") as client, client.listen(at=1) as standalone:
        await standalone.event()
        async with client.listen(at=0) as killed, client.begin("hold", name="killed") as call:
            await killed.event()
            await call.event()
            await rows.settled()
            assert rows.streams_of(pid) == 2
            pair.kill(0)
        async with asyncio.timeout(CLEAN_UP_S):
            while rows.streams_of(pid) or rows.has_worker(pid):  # noqa: ASYNC110
                await asyncio.sleep(0.5)
        assert rows.has_worker(pair.workers[1].process.pid)


async def test_an_older_stream_in_another_process_receives_updates_again(
    pair: Cluster, rows: Rows
) -> None:
    """It is told to read again what it subscribed to; then it gets each update once."""
    params = {"uri": "counter://kept"}
    async with connected(pair, user="ann") as client, connected(pair, user="bob") as other:
        await client.ask("resources/subscribe", params)
        async with client.listen(at=1) as older, client.listen(at=0) as newer:
            await older.event()
            await newer.event()
            await rows.settled()
            await other.call("update", **params, at=1)
            assert (await newer.message())["params"] == params
            pair.kill(0)
            async with asyncio.timeout(CLEAN_UP_S):
                told = [(await older.message()).get("params") for _ in range(4)]
            assert told == [None, None, None, params]
            await other.call("update", **params, at=1)
            await other.call("tell", method="notifications/x", params={}, at=1)
            heard = [(await older.message())["method"] for _ in range(2)]
            assert heard == ["notifications/resources/updated", "notifications/x"]


async def test_the_official_client_survives_the_death_of_a_worker(
    shared: Backends, tmp_path: Path
) -> None:
    """Two workers on one socket; the call of the killed one fails, the session continues."""
    extra = environment(shared, tmp_path, {})
    log = tmp_path / "server.log"
    with sites.running(SITE, "uvicorn", log=log, workers=2, extra=extra) as site:
        async with (
            httpx2.AsyncClient(timeout=60) as http,
            streamable_http_client(site.url, http_client=http) as (reading, writing),
            ClientSession(reading, writing, read_timeout_seconds=60) as session,
        ):
            await session.initialize()
            calling = asyncio.create_task(session.call_tool("hold", {"name": "victim"}))
            pid = await marks.amarked("victim runs", tmp_path / "marks")
            # Long enough for its stream to be open, with an event id to resume from.
            await asyncio.sleep(1)
            os.kill(int(pid), signal.SIGKILL)
            with pytest.raises(MCPError, match="its process has ended"):
                await calling
            answer = await session.call_tool("who", {})

    assert not answer.is_error
