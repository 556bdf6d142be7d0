"""States of calls between two rounds: storage in the database, and single use."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import override_settings

from django_mcp import Context, InputRequired, MCPServer
from django_mcp.execution import states
from django_mcp.execution.states import expired_states
from django_mcp.execution.tables import Usage, delete_some
from django_mcp.execution.threads import run_in_pool
from django_mcp.models import KeptState, UsedState
from tests.support.ports import use_ports
from tests.support.wire import V2026_07_28, WireClient

META: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
FORM = {"type": "object", "properties": {"yes": {"type": "boolean"}}}
YES = {"question-1": {"action": "accept", "content": {"yes": True}}}
QUOTA = "principal user:1"
REFUSED = {"code": -32602, "message": "Invalid requestState"}


class ToFirst:
    """Routes everything to a database that only these tests use."""

    def db_for_read(self, *_args: Any, **_hints: Any) -> str:
        return "first"

    db_for_write = db_for_read


@pytest.fixture(autouse=True)
def _routed(databases: str) -> Iterator[None]:
    with override_settings(DATABASE_ROUTERS=[ToFirst()]):
        yield


class Principal:
    is_authenticated = True

    def __init__(self, key: str) -> None:
        self.key = key


def make_server(**options: Any) -> MCPServer:
    server = MCPServer("states", **options)

    @server.tool
    def order(ctx: Context, size: int = 10) -> str:
        kept = ctx.once("kept", lambda: "x" * size)
        answer = ctx.elicit("Sure?", FORM)
        return f"{len(kept)} {answer.content}"

    @server.tool
    def odd(ctx: Context) -> Any:
        return InputRequired({}, state=object())

    return server


def limit(monkeypatch: pytest.MonkeyPatch, usage: Usage, **changes: int) -> None:
    monkeypatch.setattr(usage, "limits", replace(usage.limits, **changes))


async def ask(client: WireClient, size: int = 10, **more: Any) -> dict[str, Any]:
    return await client.result("tools/call", call(size, **more))


def call(size: int = 10, **more: Any) -> dict[str, Any]:
    return {"name": "order", "arguments": {"size": size}, "_meta": META, **more}


async def again(
    client: WireClient, interim: dict[str, Any], size: int = 10
) -> tuple[int, dict[str, Any]]:
    state = interim["requestState"]
    return await client.send("tools/call", call(size, requestState=state, inputResponses=YES))


def counts() -> tuple[int, int]:
    return KeptState.objects.count(), UsedState.objects.count()


async def test_a_large_state_is_stored_in_the_database_for_any_worker():
    first = await ask(WireClient(make_server(), V2026_07_28), 100_000)
    assert len(first["requestState"]) < 1000
    assert await run_in_pool(counts) == (1, 0)

    other_worker = WireClient(make_server(), V2026_07_28)
    _, answer = await again(other_worker, first, 100_000)

    assert answer["result"]["content"][0]["text"] == "100000 {'yes': True}"


async def test_zero_inline_bytes_store_every_state():
    first = await ask(WireClient(make_server(state_inline_bytes=0), V2026_07_28))

    assert await run_in_pool(counts) == (1, 0)
    _, answer = await again(WireClient(make_server(state_inline_bytes=0), V2026_07_28), first)
    assert answer["result"]["content"][0]["text"] == "10 {'yes': True}"


async def test_a_stored_state_belongs_to_one_principal():
    """Another user cannot read it, even if they could sign their own state with its reference."""
    server = make_server(state_inline_bytes=0)
    reference = await server.engine.ports.states.keep(
        "user:1", b"secret", server.engine.ports.clock() + 60, QUOTA
    )

    assert await server.engine.ports.states.find("user:1", reference) == b"secret"
    for owner in ("user:2", "", None):
        assert await server.engine.ports.states.find(owner, reference) is None
    assert await server.engine.ports.states.find("user:1", reference + "x") is None


async def test_every_invalid_state_gets_the_same_error():
    server = make_server(state_inline_bytes=0, state_single_use=True)
    client = WireClient(server, V2026_07_28, principal=Principal("user:1"))
    first, second, third = [await ask(client) for _ in range(3)]
    assert "result" in (await again(client, first))[1]

    stranger = WireClient(server, V2026_07_28, principal=Principal("user:2"))
    forged = {"requestState": first["requestState"][:-3] + "abc"}
    refused = [
        await again(client, first),  # replayed
        await again(stranger, second),
        await again(client, second, size=11),
        await again(client, forged),
    ]
    await run_in_pool(lambda: KeptState.objects.all().delete())
    refused.append(await again(client, third))
    use_ports(server, clock=lambda: 10**11)
    refused.append(await again(client, second))

    assert [(status, body["error"]) for status, body in refused] == [(200, REFUSED)] * 6


async def test_a_state_is_consumed_once_across_workers():
    first = await ask(WireClient(make_server(state_single_use=True), V2026_07_28))
    workers = [WireClient(make_server(state_single_use=True), V2026_07_28) for _ in range(8)]

    answers = [body for _, body in await asyncio.gather(*(again(each, first) for each in workers))]

    assert sum("result" in answer for answer in answers) == 1
    assert [answer["error"] for answer in answers if "error" in answer] == [REFUSED] * 7


async def test_a_state_may_be_reused_by_default():
    client = WireClient(make_server(), V2026_07_28)
    first = await ask(client)

    assert [await again(client, first) for _ in range(2)][1][1]["result"]
    assert await run_in_pool(counts) == (0, 0)


async def test_a_hundred_unanswered_questions_leave_nothing():
    """The database has no row, though the states are single-use, and no thread is left."""
    client = WireClient(make_server(state_single_use=True), V2026_07_28)
    await ask(client)
    before = threading.active_count()

    for _ in range(100):
        await ask(client)

    assert await run_in_pool(counts) == (0, 0)
    assert threading.active_count() <= before + 32  # the pool's own thread


async def test_an_expired_state_is_not_found_and_removed():
    server = make_server(state_inline_bytes=0)
    now = server.engine.ports.clock()
    gone = await server.engine.ports.states.keep(None, b"1", now - 1, QUOTA)
    kept = await server.engine.ports.states.keep(None, b"2", now + 60, QUOTA)
    await server.engine.ports.states.use("gone", now - 1, QUOTA)
    await server.engine.ports.states.use("kept", now + 60, QUOTA)

    assert await server.engine.ports.states.find(None, gone) is None
    await run_in_pool(lambda: list(map(delete_some, expired_states())))

    assert await run_in_pool(counts) == (1, 1)
    assert await server.engine.ports.states.find(None, kept) == b"2"


async def test_writing_removes_expired_states():
    first, second = make_server(), make_server()
    await first.engine.ports.states.keep(None, b"1", first.engine.ports.clock() - 1, QUOTA)

    await second.engine.ports.states.keep(None, b"2", second.engine.ports.clock() + 60, QUOTA)

    await until_counted(1)


async def test_unrelated_answers_are_not_stored_and_the_question_repeats():
    client = WireClient(make_server(state_inline_bytes=0), V2026_07_28)
    large = {"action": "accept", "content": {"x": "y" * 100_000}}
    responses = {"question-1": large, "unasked": large}

    asked = await ask(client, inputResponses=responses)

    assert list(asked["inputRequests"]) == ["question-1"]
    (size,) = await run_in_pool(lambda: list(KeptState.objects.values_list("size", flat=True)))
    assert size < 1000


async def test_stored_states_are_limited_per_caller(monkeypatch: pytest.MonkeyPatch):
    limit(monkeypatch, states._kept, own_count=2)
    server = make_server(state_inline_bytes=0)
    client, other = [WireClient(server, V2026_07_28, principal=Principal(key)) for key in "ab"]
    for _ in range(2):
        assert "requestState" in await ask(client)

    refused = await ask(client)

    assert refused["isError"] is True
    assert "STATE_TTL_S" in refused["content"][0]["text"]
    assert "requestState" in await ask(other)
    assert await run_in_pool(counts) == (3, 0)


async def test_the_bytes_of_stored_states_are_limited_per_caller(monkeypatch: pytest.MonkeyPatch):
    limit(monkeypatch, states._kept, own_bytes=250_000)
    client = WireClient(make_server(), V2026_07_28)
    for _ in range(2):
        assert "requestState" in await ask(client, 100_000)

    assert (await ask(client, 100_000))["isError"] is True
    assert await run_in_pool(counts) == (2, 0)


async def test_anonymous_states_cannot_use_the_whole_quota(
    monkeypatch: pytest.MonkeyPatch,
):
    limit(monkeypatch, states._kept, count=4)
    server = make_server(state_inline_bytes=0)
    anonymous, user = (
        WireClient(server, V2026_07_28),
        WireClient(server, V2026_07_28, principal=Principal("a")),
    )
    assert [("requestState" in await ask(anonymous)) for _ in range(3)] == [True, True, False]

    assert [("requestState" in await ask(user)) for _ in range(3)] == [True, True, False]


async def test_used_states_are_limited_per_caller(monkeypatch: pytest.MonkeyPatch):
    limit(monkeypatch, states._used, own_count=1)
    client = WireClient(make_server(state_single_use=True), V2026_07_28)
    first, second = [await ask(client) for _ in range(2)]
    assert "result" in (await again(client, first))[1]

    status, refused = await again(client, second)

    assert (status, "STATE_TTL_S" in refused["error"]["message"]) == (503, True)


async def test_all_states_that_have_expired_are_removed_at_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("django_mcp.execution.tables.AT_ONCE", 2)
    first, second = make_server(), make_server()
    await first.engine.ports.states.keep(None, b"1", first.engine.ports.clock() + 60, QUOTA)
    for _ in range(5):
        await first.engine.ports.states.keep(None, b"1", first.engine.ports.clock() - 1, QUOTA)

    await second.engine.ports.states.keep(None, b"2", second.engine.ports.clock() + 60, QUOTA)
    await until_counted(2)


async def until_counted(kept: int) -> None:
    async with asyncio.timeout(10):
        while await run_in_pool(counts) != (kept, 0):
            pass


async def test_an_oversized_state_ends_the_call_with_a_clear_error():
    client = WireClient(make_server(), V2026_07_28)

    result = await ask(client, 2 * 1024 * 1024)

    assert result["isError"] is True
    assert "it knows 2097" in result["content"][0]["text"]
    assert await run_in_pool(counts) == (0, 0)


async def test_a_state_that_is_not_json_serializable_raises(caplog: pytest.LogCaptureFixture):
    result = await WireClient(make_server(), V2026_07_28).call("odd")

    assert result["isError"] is True
    assert "asking in tools/call failed" in caplog.text


async def test_without_a_database_a_small_state_still_works():
    client = WireClient(make_server(), V2026_07_28)
    with override_settings(DATABASE_ROUTERS=["tests.unit.execution.test_states.Down"]):
        first = await ask(client)
        assert "result" in (await again(client, first))[1]


async def test_a_stale_replica_does_not_cause_endless_deletes(databases: str):
    def delete() -> list[int]:
        # Written without the store, which would prune in a thread of its own. The replica has the row, and
        # keeps it.
        for alias in ("first", "second"):
            KeptState.objects.using(alias).create(
                digest="1",
                quota_key=QUOTA,
                value=b"1",
                size=1,
                expires_at=datetime.now(UTC) - timedelta(1),
            )
        with override_settings(DATABASE_ROUTERS=[ReadsSecond()]):
            return [delete_some(expired_states()[0]) for _ in range(2)]

    assert await run_in_pool(delete) == [1, 0]


class ReadsSecond(ToFirst):
    """Reads from the second database, and writes to the first."""

    def db_for_read(self, *_args: Any, **_hints: Any) -> str:
        return "second"


class Down(ToFirst):
    """Routes to a database that does not exist."""

    def db_for_read(self, *_args: Any, **_hints: Any) -> str:
        return "nowhere"

    db_for_write = db_for_read


async def test_a_consumed_state_frees_its_quota_immediately(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit(monkeypatch, states._kept, own_count=2)
    site = states.SiteStates()

    for _ in range(5):
        reference = await site.keep("ann", b"value", time.time() + 60, QUOTA)
        assert await site.take("ann", reference) == b"value"
        assert await site.take("ann", reference) is None
