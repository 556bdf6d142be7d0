"""What a client sends to one process while its stream, its call or its session is busy in another.

Over Redis, and over the database alone; by sessions, and by HTTP+SSE.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.backends import Backends, connect
from tests.support.sessions.client import LIMIT_S, Client, Stream, connected
from tests.support.sessions.cluster import Cluster, serving

RED = {"action": "accept", "content": {"name": "red"}}


@pytest.fixture(
    scope="module",
    params=[("redis", "uvicorn"), ("redis", "daphne"), ("database", "uvicorn")],
    ids="-".join,
)
def pair(
    request: pytest.FixtureRequest, shared: Backends, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Two processes of one site, linked by Redis or the database; HTTP+SSE beside the endpoint."""
    way, server = request.param
    backends = Backends(postgres=shared.postgres, redis=shared.redis if way == "redis" else None)
    folder: Path = tmp_path_factory.mktemp("elsewhere")
    with serving(backends, folder, server=server, LEGACY_SSE=True) as cluster:
        yield cluster
    assert "Traceback" not in cluster.logs()


def name_of(request: pytest.FixtureRequest) -> str:
    """Return what no other test marks."""
    return "".join(each if each.isalnum() else "-" for each in request.node.name)


# -- by sessions


@pytest.mark.parametrize(("stream_at", "post_at"), [(0, 1), (1, 0)])
async def test_a_standalone_stream_gets_notifications_from_elsewhere(
    pair: Cluster, stream_at: int, post_at: int
) -> None:
    """Once each and in order, whichever process sent it."""
    async with connected(pair, user="ann", at=post_at) as client:
        await client.ask("resources/subscribe", {"uri": "counter://a"}, at=post_at)
        async with client.listen(at=stream_at) as standalone:
            await standalone.event()
            await client.call("update", uri="counter://a", at=post_at)
            updated = await standalone.message()
            await client.ask("resources/subscribe", {"uri": "counter://b"}, at=post_at)
            said = []
            for at in (post_at, stream_at):
                for text in ("one", "two"):
                    await client.call(
                        "tell_mine", method="notifications/said", params={"t": text}, at=at
                    )
                # Messages of another process arrive a moment later than local ones.
                said += [await standalone.message() for _ in range(2)]
            await receive(client, standalone, "counter://b", at=post_at)
            await client.ask("resources/unsubscribe", {"uri": "counter://b"}, at=post_at)
            ended = await client.send(None, verb="DELETE", at=post_at)
            rest = await standalone.rest()

    assert updated["params"]["uri"] == "counter://a"
    assert [each["params"]["t"] for each in said] == ["one", "two"] * 2
    assert ended.status_code == 204
    assert {each["params"].get("uri") for each in rest} <= {"counter://b"}


async def receive(client: Client, standalone: Stream, uri: str, *, at: int) -> None:
    """Send updates until the new subscription is known in the process with the stream."""

    async def told() -> None:
        # A process that cannot tell whether it missed a message announces the other subscriptions too.
        while (await standalone.message()).get("params", {}).get("uri") != uri:
            pass

    received = asyncio.create_task(told())
    while not received.done():
        await client.call("update", uri=uri, at=at)
        await asyncio.wait((received,), timeout=0.5)
    await received


@pytest.mark.parametrize("tool", ["ask_dataclass", "ask_model", "ask_form"])
async def test_a_question_can_be_answered_elsewhere(pair: Cluster, tool: str) -> None:
    """Asked in one process, answered in the other; a duplicate answer changes nothing."""
    fits = {"name": "red", "number": 3, "size": "s"}
    async with connected(pair, user="ann", at=1) as client, client.begin(tool, at=0) as call:
        question = await call.message()
        wanted = question["params"]["requestedSchema"]["properties"]
        answer = {
            "action": "accept",
            "content": {key: value for key, value in fits.items() if key in wanted},
        }
        await client.respond(question, answer, at=1)
        await client.respond(question, {"action": "decline"}, at=1)
        *_, last = await call.rest()

    assert last["result"]["content"][0]["text"] in ("red", "3", "s")


async def test_a_call_can_be_cancelled_elsewhere(
    pair: Cluster, request: pytest.FixtureRequest
) -> None:
    """A call with the same id in another session continues."""
    name = name_of(request)
    cancel = {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        # The id of both calls.
        "params": {"requestId": 2, "reason": "enough"},
    }
    async with (
        connected(pair, user="ann") as client,
        connected(pair, user="ann") as other,
        client.begin("hold", name=f"{name} gone") as call,
        other.begin("hold", name=f"{name} kept") as kept,
    ):
        await pair.marked(f"{name} gone runs")
        await pair.marked(f"{name} kept runs")
        taken = await client.send(cancel, at=1)
        told = await call.rest()
        pair.mark(f"{name} kept may go")
        *_, done = await kept.rest()

    assert taken.status_code == 202
    assert told == []
    assert done["result"]["content"][0]["text"] == f"{name} kept is done"


async def test_a_session_that_is_deleted_elsewhere_ends_its_call(
    pair: Cluster, request: pytest.FixtureRequest
) -> None:
    """Its running calls are cancelled, and its stream is closed."""
    name = name_of(request)
    async with connected(pair, user="ann") as client:
        async with client.begin("hold", name=name, at=0) as call:
            await pair.marked(f"{name} runs")
            ended = await client.send(None, verb="DELETE", at=1)
            rest = await call.rest()
        async with asyncio.timeout(LIMIT_S):
            while (await client.send(client.request("ping"), at=0)).status_code != 404:
                pass

    assert ended.status_code == 204
    assert [each.get("error", {}).get("message") for each in rest] in (["Cancelled"], [])


async def test_a_running_call_can_be_resumed_elsewhere(
    pair: Cluster, request: pytest.FixtureRequest
) -> None:
    """Its question too, once, and the answer is accepted by either process."""
    name = name_of(request)
    async with connected(pair, user="ann") as client:
        async with client.begin("ask_held", name=name, at=0) as call:
            primed = await call.event()
        async with client.listen(at=1, last_event_id=primed.id) as resumed:
            question = await resumed.message()
            await client.respond(question, RED, at=1)
            await pair.marked(f"{name} runs")
            pair.mark(f"{name} may go")
            rest = await resumed.rest()

    assert [each["result"]["content"][0]["text"] for each in rest] == [f"{name} red"]


# -- by HTTP+SSE


class Legacy:
    """A connection of 2024-11-05: a stream at one process, messages to any."""

    def __init__(self, cluster: Cluster, http: httpx.AsyncClient, stream: Stream) -> None:
        self.cluster = cluster
        self.http = http
        self.stream = stream
        self.path = ""

    async def post(self, body: dict[str, Any], at: int) -> None:
        worker = self.cluster.workers[at]
        answer = await self.http.post(f"http://{worker.host}:{worker.port}{self.path}", json=body)
        assert answer.status_code == 202, answer.text

    async def ask(self, id: int, method: str, params: dict[str, Any], at: int) -> dict[str, Any]:
        await self.post({"jsonrpc": "2.0", "id": id, "method": method, "params": params}, at)
        return await self.stream.message()


@asynccontextmanager
async def legacy(cluster: Cluster, at: int, post_at: int) -> AsyncIterator[Legacy]:
    worker = cluster.workers[at]
    headers = {"accept": "text/event-stream"}
    async with (
        httpx.AsyncClient(timeout=LIMIT_S) as http,
        http.stream("GET", f"http://{worker.host}:{worker.port}/sse", headers=headers) as response,
    ):
        found = Legacy(cluster, http, Stream(response))
        found.path = (await found.stream.event()).data
        shaken = await found.ask(
            1,
            "initialize",
            {
                "protocolVersion": "2024-11-05",
                "capabilities": {"sampling": {}, "roots": {}},
                "clientInfo": {"name": "old", "version": "1"},
            },
            post_at,
        )
        assert shaken["result"]["protocolVersion"] == "2024-11-05"
        await found.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, post_at)
        yield found


@pytest.mark.parametrize(("stream_at", "post_at"), [(0, 1), (1, 0)])
async def test_an_http_sse_connection_is_served_from_elsewhere(
    pair: Cluster, stream_at: int, post_at: int
) -> None:
    """Also the handshake, which only one process knows about."""
    async with legacy(pair, stream_at, post_at) as old:
        listed = await old.ask(2, "tools/list", {}, post_at)
        asked = await old.ask(3, "tools/call", {"name": "sample", "arguments": {}}, post_at)
        written = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Paris"}}
        await old.post({"jsonrpc": "2.0", "id": asked["id"], "result": written}, post_at)
        sampled = await old.stream.message()
        subscribed = await old.ask(4, "resources/subscribe", {"uri": "counter://old"}, post_at)
        arguments = {"name": "update", "arguments": {"uri": "counter://old"}}
        found = [await old.ask(5, "tools/call", arguments, post_at), await old.stream.message()]
        pinged = await old.ask(6, "ping", {}, post_at)

    assert "tools" in listed["result"]
    assert asked["method"] == "sampling/createMessage"
    assert sampled["result"]["content"][0]["text"] == "Paris"
    assert subscribed["result"] == {}
    assert {"notifications/resources/updated"} == {
        each["method"] for each in found if "method" in each
    }
    assert pinged["result"] == {}


async def test_no_http_sse_message_is_lost_or_duplicated(pair: Cluster) -> None:
    async with legacy(pair, 0, 1) as old:
        for number in range(10, 30):
            await old.post({"jsonrpc": "2.0", "id": number, "method": "ping"}, number % 2)
        answers = [(await old.stream.message())["id"] for _ in range(20)]
        last = await old.ask(30, "ping", {}, 1)

    assert sorted(answers) == [*range(10, 30)]
    assert last["id"] == 30


async def test_long_subscriptions_are_told_in_short_messages(
    unshared: Backends, tmp_path: Path
) -> None:
    """A client cannot fill the table of messages by changing one of many subscriptions."""
    backends = Backends(postgres=unshared.postgres)
    changes = 40
    with serving(backends, tmp_path) as cluster:
        async with connected(cluster, user="ann") as client, client.listen(at=1) as standalone:
            await standalone.event()
            for number in range(20):
                await client.ask("resources/subscribe", {"uri": f"counter://{number}-{'x' * 2000}"})
            for _ in range(changes):
                await client.ask("resources/unsubscribe", {"uri": "counter://0"})
                await client.ask("resources/subscribe", {"uri": "counter://0"})
            await receive(client, standalone, "counter://0", at=0)
        with connect(str(backends.postgres)) as connection:
            query = "SELECT sum(length(body)), string_agg(body, '') FROM django_mcp_busmessage"
            size, bodies = connection.execute(query).fetchone() or (0, "")

    assert bodies.count('"subscriptions"') >= changes
    assert size < 64 * 1024
