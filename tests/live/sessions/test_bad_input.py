"""Bad input to a site with sessions: the right status, no leaks, no growth."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.support.backends import Backends
from tests.support.http.rawhttp import connect, head
from tests.support.sessions.client import LIMIT_S, Client, Stream, connected
from tests.support.sessions.cluster import Cluster, serving
from tests.support.sessions.rows import Rows

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
ANSWER = {"jsonrpc": "2.0", "id": "ask-1", "result": {"action": "accept", "content": {}}}
MESSAGES = {"a request": PING, "a notification": READY, "an answer": ANSWER}


@asynccontextmanager
async def visitor(cluster: Cluster, user: str | None = None) -> AsyncIterator[Client]:
    """Yield a client without a session."""
    async with httpx.AsyncClient(timeout=LIMIT_S) as http:
        yield Client(cluster, http, user=user)


def comparable(answer: httpx.Response) -> tuple[Any, ...]:
    """Return everything by which a client can distinguish two responses."""
    left_out = {"date", "server", "x-request-id"}
    headers = {name: value for name, value in answer.headers.items() if name not in left_out}
    return answer.status_code, headers, answer.content


async def every_verb(client: Client, session_id: str, *, at: int = 0) -> dict[str, httpx.Response]:
    client.session_id = session_id
    found = {name: await client.send(body, at=at) for name, body in MESSAGES.items()}
    found["GET"] = await client.send(None, verb="GET", accept="text/event-stream", at=at)
    found["a resumed GET"] = await client.send(
        None, verb="GET", accept="text/event-stream", last_event_id=f"{'0' * 32}-1-1", at=at
    )
    found["DELETE"] = await client.send(None, verb="DELETE", at=at)
    return found


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("thief", ["bob", None])
async def test_another_users_session_looks_like_an_unknown_one(
    cluster: Cluster, at: int, thief: str | None
) -> None:
    """For every method, in either process, and it stays open."""
    async with connected(cluster, user="ann") as owner, visitor(cluster, thief) as client:
        assert owner.session_id is not None
        foreign = await every_verb(client, owner.session_id, at=at)
        invented = await every_verb(client, secrets.token_urlsafe(24), at=at)
        alive = await owner.ask("ping")

    assert {answer.status_code for answer in foreign.values()} == {404}
    for name, answer in foreign.items():
        assert comparable(answer) == comparable(invented[name]), name
    assert alive["result"] == {}


@pytest.mark.parametrize(
    "invented",
    ["x", "0" * 128, "x" * 4000, "../../etc/passwd", "' OR 1=1 --", "\xe9\xe9", "a\tb"],
)
async def test_a_made_up_session_is_unknown(cluster: Cluster, invented: str) -> None:
    """For any content of the header."""
    raw = head(
        "DELETE",
        "/mcp",
        [("Host", "localhost"), ("Mcp-Session-Id", invented), ("Content-Length", "0")],
    )
    worker = cluster.workers[0]
    async with connect(worker.host, worker.port) as client:
        answer = await client.ask(raw)

    assert answer.status in (400, 404)
    assert invented.encode("latin-1") not in answer.body


async def test_an_ended_session_is_unknown_everywhere(cluster: Cluster) -> None:
    """Also in the process that did not handle the end."""
    async with connected(cluster, user="ann") as client:
        assert await client.call("who", at=1)
        session_id = client.session_id or ""
        ended = await client.send(None, verb="DELETE", at=0)
        async with asyncio.timeout(LIMIT_S):
            # The message takes a while to reach the other process.
            while (await client.send(PING, at=1)).status_code != 404:
                pass
        after = await every_verb(client, session_id, at=1)

    assert ended.status_code in (200, 204)
    assert {answer.status_code for answer in after.values()} == {404}


async def test_a_handshake_within_a_session_is_rejected(cluster: Cluster) -> None:
    """And the session continues."""
    async with connected(cluster, user="ann") as client:
        opening = client.request(
            "initialize",
            {
                "protocolVersion": client.revision,
                "capabilities": {},
                "clientInfo": {"name": "again", "version": "1"},
            },
        )
        again = await client.send(opening, at=1)
        alive = await client.ask("ping")

    assert (again.status_code, again.json()["error"]["code"]) == (400, -32600)
    assert "mcp-session-id" not in again.headers
    assert alive["result"] == {}


async def test_a_request_without_a_session_id_gets_a_clear_error(cluster: Cluster) -> None:
    async with visitor(cluster) as client:
        answer = await client.send(PING)
        listening = await client.send(None, verb="GET", accept="text/event-stream")
        ending = await client.send(None, verb="DELETE")

    assert [each.status_code for each in (answer, listening, ending)] == [400, 400, 400]
    assert "Mcp-Session-Id" in answer.json()["error"]["message"]


async def test_requests_before_initialized_are_answered(cluster: Cluster) -> None:
    """Tolerated unless the site wants the notification."""
    async with visitor(cluster) as client:
        await client.open(is_ready=False)
        ping = await client.ask("ping", at=1)
        listed = await client.ask("tools/list", at=1)

    assert ping["result"] == {}
    assert "tools" in listed["result"]


EVENT_IDS = {
    "junk": "junk",
    "of a stream that never was": f"{'a' * 32}-1-1",
    "without a request": f"{'a' * 32}-1",
    "a number like no other": f"{'a' * 32}-{'9' * 9}-1",
    "of a kilobyte": f"{'a' * 1000}-1-1",
    "with a made-up request": f"{'a' * 32}-1-" + '{"id":1}',
    "with a huge number": f"{'a' * 32}-1-" + "9" * 190,
}


@pytest.mark.parametrize("last_id", EVENT_IDS.values(), ids=EVENT_IDS)
async def test_a_made_up_event_id_resumes_nothing(cluster: Cluster, last_id: str) -> None:
    async with connected(cluster, user="ann") as client:
        async with client.listen(at=1, last_event_id=last_id) as stream:
            status = stream.response.status_code
            if status == 200:
                # The standalone stream, which says nothing, or the end of a call that is lost.
                assert stream.response.headers["content-type"] == "text/event-stream"
                try:
                    event = await stream.event()
                except EOFError:
                    pass
                else:
                    assert event.data == "" or "error" in event.data
        alive = await client.ask("ping")

    assert status in (200, 400)
    assert alive["result"] == {}


async def test_an_event_id_of_a_megabyte_is_rejected(cluster: Cluster) -> None:
    """By the server or by us, and the worker is well."""
    async with connected(cluster, user="ann") as client:
        worker = cluster.workers[0]
        raw = head(
            "GET",
            "/mcp",
            [
                ("Host", "localhost"),
                ("Accept", "text/event-stream"),
                ("Authorization", "Bearer ann"),
                ("Mcp-Session-Id", client.session_id or ""),
                ("Last-Event-ID", "a" * 2**20),
            ],
        )
        async with connect(worker.host, worker.port) as connection:
            try:
                await connection.send(raw)
                status = (await connection.read_head()).status
            except (ConnectionError, asyncio.IncompleteReadError):
                status = 400
        alive = await client.ask("ping")

    assert status in (400, 431)
    assert alive["result"] == {}


async def test_only_its_session_can_resume_a_stream(
    cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    """Neither another user nor another session of the same user receives them."""
    name = request.node.name.replace("[", "-").replace("]", "")
    async with (
        connected(cluster, user="ann") as owner,
        connected(cluster, user="ann") as twin,
        connected(cluster, user="bob") as other,
    ):
        async with owner.begin("hold", name=name) as stream:
            event = await stream.event()
        assert event.id
        cluster.mark(f"{name} may go")
        for thief in (twin, other):
            async with thief.listen(at=1, last_event_id=event.id) as stolen:
                assert stolen.response.status_code == 400
                assert "Unknown Last-Event-ID" in (await stolen.event()).data
        async with owner.listen(at=1, last_event_id=event.id) as resumed:
            answer = await resumed.message()

    assert answer["result"]["content"][0]["text"] == f"{name} is done"


async def test_a_future_event_id_duplicates_no_event(
    cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    """A stream that ended before that id says so, and resends nothing."""
    name = request.node.name.replace("[", "-").replace("]", "")
    async with connected(cluster, user="ann") as client:
        async with client.begin("hold", name=name) as stream:
            event = await stream.event()
            cluster.mark(f"{name} may go")
            await stream.message()
        stream_id, _, request_id = (event.id or "").split("-")
        future = f"{stream_id}-9999-{request_id}"
        async with client.listen(at=1, last_event_id=future) as resumed:
            assert resumed.response.status_code == 400
            assert "Unknown Last-Event-ID" in (await resumed.event()).data


async def test_responses_to_unknown_requests_are_ignored(cluster: Cluster) -> None:
    """In any form; each gets 202, as for an expected one."""
    strange = [
        {**ANSWER, "id": "ask-" + "0" * 32},
        {**ANSWER, "id": 7},
        {**ANSWER, "id": "x" * 1024},
        {**ANSWER, "id": "ping-" + "0" * 32},
        {"jsonrpc": "2.0", "id": "ask-1", "error": {"code": 1, "message": "no"}},
        {"jsonrpc": "2.0", "id": "ask-1", "result": {}},
    ]
    async with connected(cluster, user="ann") as client:
        answers = [await client.send(each, at=1) for each in strange]
        alive = await client.ask("ping")

    assert {answer.status_code for answer in answers} == {202}
    assert alive["result"] == {}


async def test_only_the_addressed_session_can_answer_a_question(cluster: Cluster) -> None:
    """Not another user, not another session; the second answer is late and ignored."""
    async with (
        connected(cluster, user="ann") as asked,
        connected(cluster, user="ann") as twin,
        connected(cluster, user="bob") as other,
        asked.begin("ask_dataclass") as stream,
    ):
        question = await stream.message()
        for liar in (twin, other):
            for at in (0, 1):
                await liar.respond(question, accept("lie"), at=at)
        await asked.respond(question, accept("truth"), at=1)
        await asked.respond(question, accept("late"), at=1)
        *_, last = await stream.rest()
        await asked.respond(question, accept("later"), at=0)

    assert last["result"]["content"][0]["text"] == "truth"


async def test_a_cancelled_call_ends_its_stream_without_a_response(cluster: Cluster) -> None:
    """From either process; a late answer is ignored."""
    async with connected(cluster, user="ann") as client:
        message = client.request("tools/call", {"name": "ask_dataclass", "arguments": {}})
        cancel = {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": message["id"], "reason": "changed my mind"},
        }
        async with client.stream(message) as stream:
            question = await stream.message()
            assert (await client.send(cancel, at=1)).status_code == 202
            rest = await stream.rest()
        await client.respond(question, accept("late"))
        again = await client.send(cancel)

    assert [each["method"] for each in rest] == ["notifications/cancelled"]
    assert rest[0]["params"]["requestId"] == question["id"]
    assert again.status_code == 202


def accept(name: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"name": name}}


BAD_ANSWERS: dict[str, dict[str, Any]] = {
    "of the wrong type": {"action": "accept", "content": {"name": 7}},
    "with nothing in it": {"action": "accept", "content": {}},
    "without content": {"action": "accept"},
    "that is a list": {"action": "accept", "content": [1]},
}


@pytest.mark.parametrize("bad", BAD_ANSWERS.values(), ids=BAD_ANSWERS)
async def test_an_invalid_answer_is_asked_for_again(cluster: Cluster, bad: dict[str, Any]) -> None:
    async with connected(cluster) as client, client.begin("ask_dataclass") as stream:
        first = await stream.message()
        await client.respond(first, bad, at=1)
        second = await stream.message()
        assert second["method"] == "elicitation/create", second
        await client.respond(second, accept("red"), at=1)
        *_, last = await stream.rest()

    assert first["id"] != second["id"]
    assert last["result"]["content"][0]["text"] == "red"


@pytest.mark.parametrize("verb", ["resources/subscribe", "resources/unsubscribe"])
async def test_a_forbidden_resource_looks_like_a_missing_one(cluster: Cluster, verb: str) -> None:
    """Subscribing reveals nothing about hidden resources."""
    async with connected(cluster, user="bob") as client:
        forbidden = await client.ask(verb, {"uri": "secret://a"})
        unknown = await client.ask(verb, {"uri": "nothing://a"})

    if verb == "resources/unsubscribe":
        assert forbidden["result"] == unknown["result"] == {}
    else:
        assert forbidden["error"]["code"] == unknown["error"]["code"] == -32002
        assert str(forbidden["error"]).replace("secret:", "nothing:") == str(unknown["error"])


@pytest.mark.parametrize(
    "params", [{}, {"uri": 7}, {"uri": ["x"]}, {"uri": ""}, {"uri": "x" * 10_000}]
)
async def test_an_invalid_subscription_is_rejected(cluster: Cluster, params: Any) -> None:
    async with connected(cluster) as client:
        answer = await client.ask("resources/subscribe", params)

    assert answer["error"]["code"] in (-32602, -32002)


async def test_updates_of_a_forbidden_resource_are_not_sent(cluster: Cluster) -> None:
    """A hidden resource is acknowledged like a missing one, and sends no updates."""
    listen = {
        "notifications": {"resourceSubscriptions": ["secret://a", "none://a", "counter://a"]},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }
    async with visitor(cluster, "bob") as bob, connected(cluster, user="ann", at=1) as ann:
        bob.revision = "2026-07-28"
        message = bob.request("subscriptions/listen", listen)
        request = bob.http.build_request(
            "POST",
            cluster.url(0),
            json=message,
            headers=bob.headers({"mcp-method": "subscriptions/listen"}),
        )
        response = await bob.http.send(request, stream=True)
        stream = Stream(response)
        acknowledged = await stream.message()
        await ann.call("update", uri="secret://a", at=1)
        await ann.call("update", uri="counter://a", at=1)
        heard = await stream.message()
        await response.aclose()

    assert acknowledged["params"]["notifications"] == listen["notifications"]
    assert heard["params"]["uri"] == "counter://a"


async def test_bad_input_leaves_no_rows(cluster: Cluster, rows: Rows) -> None:
    """Bad input of anonymous clients leaves every table as large as before."""
    async with connected(cluster, user="ann") as client, visitor(cluster, "bob") as thief:
        await client.call("who", at=1)
        before = await rows.settled()
        for _ in range(5):
            await every_verb(thief, client.session_id or "", at=1)
            await every_verb(thief, secrets.token_urlsafe(24))
            await client.send({**ANSWER, "id": f"ask-{secrets.token_hex(16)}"}, at=1)
            await client.ask("resources/subscribe", {"uri": f"nothing://{secrets.token_hex(4)}"})
            for last_id in ("junk", EVENT_IDS["without a request"]):
                async with client.listen(at=1, last_event_id=last_id):
                    pass
        after = await rows.settled()

    assert after == before


@pytest.fixture(scope="module")
def crowded(shared: Backends, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One process with a low session limit that requires `initialized`."""
    folder = tmp_path_factory.mktemp("crowded")
    options: dict[str, Any] = {"MAX_SESSIONS_PER_PRINCIPAL": 5, "REQUIRE_INITIALIZED": True}
    with serving(shared, folder, count=1, **options) as found:
        yield found
    assert "Traceback" not in found.logs()


async def test_abandoned_sessions_are_evicted_for_new_ones(crowded: Cluster, rows: Rows) -> None:
    """One user cannot fill the table, and cannot evict sessions of others."""
    async with visitor(crowded, "cid") as greedy, connected(crowded, user="dan") as modest:
        ids = []
        for _ in range(25):
            await greedy.open()
            ids.append(greedy.session_id)
        kept = rows.of("cid")
        newest = await greedy.ask("ping")
        greedy.session_id = ids[0]
        oldest = await greedy.send(PING)
        other = await modest.ask("ping")

    assert kept <= 5
    assert newest["result"] == other["result"] == {}
    assert oldest.status_code == 404


async def test_a_site_may_require_initialized(crowded: Cluster) -> None:
    """Only pings are answered before it."""
    async with visitor(crowded, "eve") as client:
        await client.open(is_ready=False)
        ping = await client.ask("ping")
        early = await client.send(client.request("tools/list"))
        await client.send(READY)
        listed = await client.ask("tools/list")

    assert ping["result"] == {}
    assert (early.status_code, early.json()["error"]["code"]) == (400, -32600)
    assert "tools" in listed["result"]
