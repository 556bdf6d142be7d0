"""Sessions end to end: two workers and one database, which may be down."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.db.models import Model
from django.test import override_settings

from django_mcp import Context, MCPServer
from django_mcp.execution.outages import Breaker
from django_mcp.execution.threads import run_in_pool
from django_mcp.models import BusMessage, DisabledEntry, Session, SessionItem, Stream, Worker
from django_mcp.protocol.headers import Headers
from django_mcp.protocol.json import decode
from django_mcp.server.exchange.channel import Channel
from django_mcp.server.exchange.exchange import Exchange
from tests.support.wire import V2025_11_25, V2026_07_28, WireClient, headers_for


class ToBroken:
    """Routes to a database that cannot be opened."""

    asked = 0

    def db_for_read(self, model: type[Model], **_hints: Any) -> str:
        # Background threads read the disabled entries and messages, and write what is open.
        type(self).asked += model not in (DisabledEntry, BusMessage, Stream, Worker)
        return "broken"

    db_for_write = db_for_read


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Simulate an outage inside `override_settings(DATABASE_ROUTERS=[ToBroken()])`."""
    wrong = {"ENGINE": "django.db.backends.sqlite3", "NAME": tmp_path / "no" / "such.sqlite3"}
    connections.settings["broken"] = connections.configure_settings(
        {"default": {}, "broken": wrong}
    )["broken"]
    monkeypatch.setattr(ToBroken, "asked", 0)
    breaker = Breaker("The database")
    monkeypatch.setattr("django_mcp.sessions.site.rows._breaker", breaker)
    yield
    del connections.settings["broken"]


def make_server(**options: Any) -> MCPServer:
    server = MCPServer("road", public=True, **options)

    @server.tool(atomic="first")
    def remember(ctx: Context, word: str, fails: bool = False) -> list[str]:
        words = [*ctx.session.get("words", []), word]
        ctx.session["words"] = words
        if fails:
            raise RuntimeError("lost")
        return words

    @server.tool
    async def recall(ctx: Context) -> list[str]:
        words: list[str] = await ctx.session.aget("words", [])
        return words

    @server.tool
    async def wrong(ctx: Context) -> list[str]:
        words: list[str] = ctx.session["words"]
        return words

    @server.resource("stock://{sku}")
    def stock(sku: str) -> str:
        return sku

    return server


async def words(client: WireClient, name: str, **arguments: Any) -> Any:
    result = await client.result("tools/call", {"name": name, "arguments": arguments})
    return result if result.get("isError") else decode(result["content"][0]["text"])


def elsewhere(client: WireClient, server: MCPServer) -> WireClient:
    """Return the same client at another worker."""
    found = WireClient(server, client.revision, principal=client.principal)
    found.session_id = client.session_id
    return found


async def test_session_data_of_one_worker_is_visible_to_the_other():
    here = WireClient(make_server(), V2025_11_25)
    there = elsewhere(here, make_server())
    await here.open()
    there.session_id = here.session_id

    assert await words(here, "remember", word="a") == ["a"]
    assert await words(there, "remember", word="b") == ["a", "b"]
    assert await words(here, "recall") == ["a", "b"]


async def test_initialized_may_be_sent_to_either_worker():
    here = WireClient(make_server(require_initialized=True), V2025_11_25)
    await here.open(is_ready=False)
    there = elsewhere(here, make_server(require_initialized=True))
    assert (await here.error("tools/list"))[0] == 400

    await there.ready()

    assert await words(here, "remember", word="a") == ["a"]


async def test_session_writes_of_a_failed_handler_are_discarded():
    client = WireClient(make_server(), V2025_11_25)

    result = await words(client, "remember", word="a", fails=True)

    assert result["isError"] is True
    assert await words(client, "recall") == []


async def test_blocking_session_access_on_the_event_loop_raises(caplog: pytest.LogCaptureFixture):
    result = await words(WireClient(make_server(), V2025_11_25), "wrong")

    assert result["isError"] is True
    assert "ctx.session.aget" in caplog.text


async def test_without_a_session_the_database_is_not_queried():
    client = WireClient(make_server(), V2026_07_28)
    # The first request of a process reads which entries are disabled.
    await client.result("tools/list")
    with override_settings(DATABASE_ROUTERS=[ToBroken()]):
        result = await words(client, "remember", word="a")

    assert result["isError"] is True
    assert ToBroken.asked == 0


async def test_a_deleted_session_ends_and_leaves_nothing():
    server = make_server()
    client = WireClient(server, V2025_11_25)
    await words(client, "remember", word="a")
    await client.result("resources/subscribe", {"uri": "stock://1"})
    headers = {
        **headers_for({"method": ""}, V2025_11_25),
        "mcp-session-id": client.session_id or "",
    }
    exchange = Exchange(headers=Headers([(k.encode(), v.encode()) for k, v in headers.items()]))

    assert (await server.engine.end_session(exchange)).status == 204

    status, _ = await client.error("tools/list")
    assert status == 404
    counts = [await run_in_pool(model.objects.count) for model in (Session, SessionItem)]
    assert counts == [0, 0]


async def test_clients_get_503_while_the_database_is_down(
    broken: None, monkeypatch: pytest.MonkeyPatch
):
    """Only one request checks for recovery, so that the others do not wait."""
    monkeypatch.setattr("django_mcp.execution.outages.PAUSE_S", 3600)
    server, other = make_server(), make_server()
    client = WireClient(server, V2025_11_25)
    await client.open()
    unknown = elsewhere(client, other)

    with override_settings(DATABASE_ROUTERS=[ToBroken()]):
        many = [elsewhere(client, other) for _ in range(20)]
        answers = await asyncio.gather(*(each.error("tools/list") for each in many))
        assert {status for status, _ in answers} == {503}
        assert answers[0][1] == {
            "code": -32603,
            "message": "The server cannot look this up now: try again",
        }
        asked = ToBroken.asked
        assert 0 < asked < 20

        for _ in range(20):
            status, _ = await unknown.error("tools/list")
            assert status == 503
        status, _ = await WireClient(other, V2025_11_25).send("initialize", INIT)
        assert status == 503
        assert ToBroken.asked == asked

    monkeypatch.setattr("django_mcp.sessions.site.rows._breaker._retry_s", 0)
    assert await unknown.result("tools/list") is not None
    assert await words(unknown, "remember", word="a") == ["a"]


INIT = {
    "protocolVersion": V2025_11_25.name,
    "capabilities": {},
    "clientInfo": {"name": "tests", "version": "1"},
}


async def test_503_has_retry_after_for_every_method(broken: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("django_mcp.execution.outages.PAUSE_S", 0)
    server = make_server()
    headers = {**headers_for({"method": ""}, V2025_11_25), "mcp-session-id": "x" * 43}

    def exchange() -> Exchange:
        return Exchange(
            headers=Headers([(k.encode(), v.encode()) for k, v in headers.items()]),
            body=b'{"jsonrpc":"2.0","id":7,"method":"ping"}',
            channel=Channel(can_stream=True),
        )

    with override_settings(DATABASE_ROUTERS=[ToBroken()]):
        for serve in (server.engine.answer, server.engine.open_stream, server.engine.end_session):
            reply = await serve(exchange())
            assert reply.status == 503
            assert dict(reply.headers)[b"retry-after"] == b"2"
            assert reply.body is not None
            assert b"-32603" in reply.body
