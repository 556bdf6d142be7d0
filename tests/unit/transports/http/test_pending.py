"""Large bodies and answers count for their caller and the process while they wait, and have a deadline."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, cast
from uuid import uuid4

import pytest
from django.core.handlers.asgi import ASGIHandler
from django.test import override_settings
from django.urls import path

from django_mcp.protocol.json import encode
from django_mcp.server.exchange import pending
from django_mcp.server.exchange.pending import PART_BYTES, PendingBytes
from django_mcp.server.exchange.quotas import QuotaScope
from django_mcp.server.handlers.context import Context
from django_mcp.server.options import Options
from django_mcp.server.streams.stream import Ending, PushStream, StreamKind
from django_mcp.transports.http.consumer import MCPConsumer
from django_mcp.transports.http.view import MCPView
from tests.support.http.harness import GONE, LIMIT_S, Conversation, http_scope, part, talk, until
from tests.support.http.scripted import ScriptedServer, script
from tests.support.server.plain import MCPServer
from tests.support.wire import V2025_11_25, message

LARGE = 4 * PART_BYTES
SWELL = ["swell", 200, LARGE]
ROOM_BYTES = 6 * PART_BYTES
"""Room for one such answer and not for two."""

NEVER_S = 3600.0


def server(**options: Any) -> ScriptedServer:
    limits = {"max_pending_bytes_per_principal": ROOM_BYTES, "max_result_bytes": 1}
    return ScriptedServer(**{**limits, **options})


class Slow(Conversation):
    """A client that reads the head of its answer."""

    def __init__(self, app: Any, scope: dict[str, Any], *messages: dict[str, Any]) -> None:
        self.has_gone = asyncio.Event()
        super().__init__(app, scope, *messages)

    async def _send(self, message: dict[str, Any]) -> None:
        await super()._send(message)
        if len(self.sent) > 1:
            await self.has_gone.wait()

    async def leave(self) -> None:
        """Disconnect, after which no server waits for the client."""
        self.put(GONE)
        self.has_gone.set()
        await self.end()


@asynccontextmanager
async def asking(
    app: Any, *steps: Any, address: str = "192.0.2.1", headers: dict[str, str] | None = None
) -> AsyncIterator[Slow]:
    """Ask, and read no more than the beginning of the answer."""
    scope = http_scope(client=(address, 1), headers=headers)
    client = Slow(app, scope, part(script(*steps)))
    await client.until_sent(2)
    yield client
    await client.leave()
    await until(lambda: not pending._meter._used)


def consumer(of: ScriptedServer) -> Any:
    return MCPConsumer.as_asgi(server=cast("Any", of))


@pytest.fixture(autouse=True)
def _nothing_counts_for_ever() -> Iterator[None]:
    yield
    assert pending._meter._used == {}


async def ask(app: Any, *steps: Any, address: str = "192.0.2.1") -> Conversation:
    return await talk(app, http_scope(client=(address, 1)), part(script(*steps)))


async def test_a_large_answer_is_sent_in_parts_and_whole():
    talked = await ask(consumer(server()), SWELL)

    assert len(json.loads(talked.body)["result"]) == LARGE
    assert talked.headers["content-length"] == str(len(talked.body))
    assert max(len(each.get("body", b"")) for each in talked.sent) == PART_BYTES
    assert talked.sent[-1] == {"type": "http.response.body", "body": b""}


async def test_a_small_answer_is_sent_at_once():
    talked = await ask(consumer(server()), ["reply", 200, "x" * (PART_BYTES - 2)])

    assert len(talked.sent) == 2


async def test_a_large_last_event_is_sent_in_parts_and_whole():
    talked = await ask(consumer(server()), ["send", 1], SWELL)

    assert len(json.loads(talked.events[-1].data)["result"]) == LARGE
    assert max(len(each.get("body", b"")) for each in talked.sent) == PART_BYTES


@pytest.mark.parametrize("before", [[], [["send", 1]]], ids=["json", "stream"])
async def test_a_client_that_does_not_read_its_answer_is_disconnected(before: list[Any]):
    app = consumer(server(send_timeout_s=0.05))

    async with asking(app, *before, SWELL) as client:
        await client.end()

    assert len(client.sent) < 4
    assert client.sent[-1]["more_body"] is True


@pytest.mark.parametrize("before", [[], [["send", 1]]], ids=["json", "stream"])
async def test_what_a_server_keeps_of_an_unread_answer_counts_until_its_client_has_gone(
    before: list[Any],
):
    """As granian does, whose connections an application cannot close."""
    app = consumer(server(send_timeout_s=0.05))

    async with asking(app, *before, SWELL) as client:
        await client.end()
        refused = await ask(app, SWELL)
        client.put(GONE)
        await until(lambda: not pending._meter._used)
        later = await ask(app, SWELL)

    assert refused.status == 429
    assert later.status == 200


@pytest.mark.parametrize("before", [[], [["send", 1]]], ids=["json", "stream"])
async def test_unread_answers_count_for_their_caller(before: list[Any]):
    app = consumer(server(send_timeout_s=NEVER_S))

    async with asking(app, SWELL):
        refused = await ask(app, *before, SWELL)
        other = await ask(app, SWELL, address="192.0.2.2")
        small = await ask(app, ["reply", 200, "small"])
    later = await ask(app, SWELL)

    answer = json.loads(refused.events[-1].data) if before else json.loads(refused.body)
    assert answer["id"] == 7
    assert "its answer was dropped" in answer["error"]["message"]
    if not before:
        assert refused.status == 429
        assert refused.headers["retry-after"] == "2"
    assert other.status == small.status == later.status == 200


async def test_unread_answers_count_for_the_process(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pending, "_next_log_s", 0.0)
    app = consumer(server(send_timeout_s=NEVER_S, max_pending_bytes=ROOM_BYTES, anonymous_share=1))

    async with asking(app, SWELL):
        refused = await ask(app, SWELL, address="192.0.2.2")

    assert refused.status == 503
    assert refused.headers["retry-after"] == "2"
    assert "MAX_PENDING_BYTES" in caplog.text


async def test_anonymous_callers_use_a_share_of_the_bytes():
    options = Options(max_pending_bytes=ROOM_BYTES, anonymous_share=0.5, max_result_bytes=1)
    anonymous, user = (
        PendingBytes("address 192.0.2.9", options),
        PendingBytes("principal 1", options),
    )

    assert anonymous.add(ROOM_BYTES // 2) is None
    assert anonymous.add(1) is QuotaScope.ALL
    assert user.add(ROOM_BYTES // 2) is None
    for each in (anonymous, user):
        each.close()


async def test_an_incomplete_body_counts_until_its_request_ends():
    app = consumer(server())
    steps = script(["reply", 200, 1])
    async with AsyncExitStack() as stack:
        first = Conversation(app, http_scope(), part(b" " * LARGE, more=True))
        stack.callback(first.task.cancel)
        refused = await talk(app, http_scope(), part(b" " * LARGE, more=True))
        whole = await talk(app, http_scope(), part(b" " * LARGE))
        small = await talk(app, http_scope(), part(script(["reply", 200, 1])))
        other = await talk(
            app, http_scope(client=("192.0.2.2", 1)), part(b" " * 99, more=True), part(steps)
        )
        first.put(GONE)
        await first.end()
    later = await talk(app, http_scope(), part(b" " * LARGE, more=True), part(steps))

    assert refused.status == whole.status == 429
    assert refused.headers["connection"] == "close"
    assert refused.headers["retry-after"] == "2"
    assert small.status == other.status == later.status == 200


async def test_the_body_of_a_running_call_counts():
    of = server()
    app = consumer(of)
    body = script(["call", "slow"], ["set", "slow runs"], ["wait", "go"], ["reply", 200, 1])
    first = Conversation(app, http_scope(), part(body + b" " * LARGE))
    async with asyncio.timeout(LIMIT_S):
        await of.events["slow runs"].wait()
    refused = await talk(app, http_scope(), part(b" " * LARGE))
    of.events["go"].set()
    await first.end()

    assert first.status == 200
    assert refused.status == 429


def test_one_answer_of_the_largest_size_is_always_sent():
    options = Options(max_pending_bytes_per_principal=1, max_pending_bytes=1, anonymous_share=1)
    answer = PendingBytes("address 192.0.2.9", options)

    assert answer.add(options.max_result_bytes) is None
    answer.close()


async def test_large_messages_that_wait_for_the_reader_of_a_stream_count():
    class Stalled:
        async def send(self, message: bytes) -> None:
            await asyncio.Event().wait()

    options = Options(max_pending_bytes_per_principal=ROOM_BYTES, max_result_bytes=1)

    def open_one() -> PushStream:
        return PushStream(
            kind=StreamKind.LEGACY,
            server_name="a",
            sink=Stalled(),
            principal=None,
            pending=PendingBytes("principal 1", options),
        )

    first, second, third = open_one(), open_one(), open_one()
    running = [asyncio.create_task(each.run()) for each in (first, second, third)]
    await asyncio.sleep(0)

    assert first.offer(b"x" * LARGE)
    assert not second.offer(b"x" * LARGE)
    assert third.offer(b"small")
    first.end(Ending.CLIENT)
    third.end(Ending.CLIENT)
    assert await asyncio.gather(*running) == [Ending.CLIENT, Ending.SLOW, Ending.CLIENT]


def telling(**options: Any) -> Any:
    """Return the application of a server whose tools send a large message ahead of a small answer."""
    plain = MCPServer(
        "tests", max_pending_bytes_per_principal=ROOM_BYTES, max_result_bytes=1000, **options
    )

    @plain.tool
    async def log(ctx: Context[Any]) -> str:
        await ctx.ainfo("x" * LARGE)
        return "done"

    @plain.tool
    async def ask(ctx: Context[Any]) -> str:
        await ctx.aelicit("x" * LARGE, NoFields)
        return "done"

    return MCPConsumer.as_asgi(server=cast("Any", plain))


@dataclass
class NoFields:
    """The answer to a question."""


async def open_session(app: Any) -> dict[str, str]:
    """Return the headers of a new session whose client can be asked and wants all log messages."""
    params = {
        "protocolVersion": V2025_11_25.name,
        "capabilities": {"elicitation": {}, "experimental": {"logLevel": "debug"}},
        "clientInfo": {"name": "tests", "version": "1"},
    }
    opened = await talk(
        app, http_scope(), part(encode(message("initialize", params, revision=V2025_11_25)))
    )
    headers = {
        "mcp-session-id": opened.headers["mcp-session-id"],
        "mcp-protocol-version": V2025_11_25.name,
    }
    notice = encode({"jsonrpc": "2.0", "method": "notifications/initialized"})
    await talk(app, http_scope(headers=headers), part(notice))
    return headers


@pytest.mark.parametrize(("tool", "text"), [("log", "done"), ("ask", "too many unread bytes")])
async def test_large_messages_ahead_of_an_answer_count_for_their_caller(tool: str, text: str):
    app = telling(send_timeout_s=NEVER_S, ask_timeout_s=0.05)
    headers = await open_session(app)

    def call() -> Slow:
        request = encode(
            message("tools/call", {"name": tool}, revision=V2025_11_25, id=str(uuid4()))
        )
        return Slow(app, http_scope(headers=headers), part(request))

    unread = call()
    await until(lambda: len(unread.sent) > 1)
    read = call()
    read.has_gone.set()
    await read.end()
    await unread.leave()

    # The message was not sent, so nothing began a stream.
    assert text in json.loads(read.body)["result"]["content"][0]["text"]


@asynccontextmanager
async def site(of: ScriptedServer) -> AsyncIterator[Any]:
    urls = ModuleType("urls")
    urls.urlpatterns = [path("mcp", MCPView(cast("Any", of)))]  # type: ignore[attr-defined]
    with override_settings(ROOT_URLCONF=urls, MIDDLEWARE=[], ALLOWED_HOSTS=["localhost"]):
        yield ASGIHandler()


async def test_the_plain_view_sends_a_large_answer_whole():
    async with site(server()) as app:
        talked = await ask(app, ["swell", 400, LARGE])

    assert talked.status == 400
    assert len(json.loads(talked.body)["result"]) == LARGE
    assert talked.headers["Content-Length"] == str(len(talked.body))


async def test_the_plain_view_counts_unread_answers():
    async with site(server(send_timeout_s=NEVER_S)) as app:
        async with asking(app, SWELL):
            refused = await ask(app, SWELL)
        later = await ask(app, SWELL)

    assert refused.status == 429
    assert later.status == 200


async def test_the_plain_view_disconnects_a_client_that_does_not_read():
    async with site(server(send_timeout_s=0.05)) as app, asking(app, SWELL) as client:
        await client.end()

    assert client.sent[-1]["more_body"] is True
