"""The addresses of HTTP+SSE, and the end of its connections."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any

import pytest
from django.test import RequestFactory

from django_mcp.auth.principal import AuthInfo, Principal
from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.headers import Headers
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.server.exchange.caller import Caller
from django_mcp.server.exchange.channel import Channel
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.server.exchange.quotas import Limits
from django_mcp.server.exchange.session import Closing, Session
from django_mcp.server.ports import StoreUnavailable
from django_mcp.server.streams.messenger import LocalBus
from django_mcp.sessions.core.memory import MemorySessions
from django_mcp.transports import legacy_sse
from django_mcp.transports.legacy_sse import SSE, _forward, keep_stream, take_message
from tests.support.ports import use_ports
from tests.support.server.plain import MCPServer
from tests.support.server.streams import LIMIT_S, LiveSink
from tests.support.server.tasks import Person
from tests.support.wire import V2024_11_05, message

HANDSHAKE = {
    "protocolVersion": V2024_11_05.name,
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"},
}


def test_legacy_sse_urls_are_opt_in() -> None:
    from django_mcp.conf import SETTINGS
    from django_mcp.servers import MCPServer

    def routes(server: MCPServer) -> set[str]:
        return {str(each.pattern) for each in server.urls[0]}

    plain = MCPServer("plain", public=True)
    old = MCPServer("old", public=True, legacy_sse=True)

    assert SETTINGS["LEGACY_SSE"].default is False
    added = routes(old) - routes(plain)
    assert {each.partition("/")[0] for each in added} == {"sse", "messages"}


class Sink(LiveSink):
    """Takes the address to post to as well."""

    async def point(self, url: str) -> None:
        self.items.put_nowait((None, {"url": url}))


class Sessions(MemorySessions):
    """Keeps sessions until the database is away, which the names of the steps that fail say."""

    failing = ""
    may_open: asyncio.Event | None = None

    async def open(self, session: Session, exchange: Exchange) -> str | Refusal:
        if self.may_open is not None:
            await self.may_open.wait()
        return await super().open(session, exchange)

    async def end(self, keys: Collection[str], reason: Closing) -> list[str]:
        if self.failing == "end":
            raise StoreUnavailable
        return await super().end(keys, reason)

    async def read_subscriptions(self, session: Session) -> set[str]:
        if self.failing == "read":
            raise StoreUnavailable
        return await super().read_subscriptions(session)


@pytest.fixture
def server() -> MCPServer:
    return MCPServer("tests", legacy_sse=True, max_streams_per_principal=2)


@pytest.fixture
def closed() -> list[Closing]:
    """The reasons of the sessions that ended."""
    return []


@pytest.fixture
def sessions(server: MCPServer, closed: list[Closing]) -> Sessions:
    sessions = Sessions(
        server.engine.hub,
        lambda: server.engine.options,
        closed=lambda _session, reason: closed.append(reason),
    )
    use_ports(server, sessions=sessions)
    return sessions


async def open_stream(
    server: MCPServer, caller: Caller | None = None
) -> tuple[asyncio.Task[Reply], str, Any]:
    """Return the request that keeps the stream open, the token of its URL, and what it sends."""
    sink: Any = Sink()
    channel = Channel(can_stream=True, sink=sink, event_stream=sink)
    exchange = Exchange(channel=channel, caller=Caller() if caller is None else caller)
    opening = asyncio.create_task(keep_stream(server.engine, sink, "/messages", exchange))
    _, told = await sink.next()
    return opening, told["url"].partition("=")[2], sink


async def test_calls_end_with_the_stream_although_the_store_is_unavailable(
    server: MCPServer, sessions: Sessions
) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    opening, token, _ = await open_stream(server)
    for body in (
        message("initialize", HANDSHAKE, revision=V2024_11_05),
        message("tools/call", {"name": "wait", "arguments": {}}, revision=V2024_11_05, id=2),
    ):
        headers = Headers([])
        reply = await take_message(
            server.engine, token, Exchange(body=encode(body), headers=headers)
        )
        assert reply.status == 202
    await asyncio.wait_for(begun.wait(), LIMIT_S)
    sessions.failing = "end"
    opening.cancel()
    await asyncio.wait_for(ended.wait(), LIMIT_S)
    with pytest.raises(StoreUnavailable):
        await opening


async def test_a_session_ends_if_its_stream_cannot_be_opened(
    server: MCPServer, sessions: Sessions, closed: list[Closing]
) -> None:
    sessions.failing = "read"
    sink: Any = Sink()
    with pytest.raises(StoreUnavailable):
        await keep_stream(
            server.engine, sink, "/messages", Exchange(channel=Channel(can_stream=True, sink=sink))
        )

    assert closed == [Closing.STREAM]


async def test_streams_opened_at_the_same_time_are_limited(
    server: MCPServer, sessions: Sessions
) -> None:
    """A slow database lets no caller open more of them than MAX_STREAMS_PER_PRINCIPAL."""
    sessions.may_open = asyncio.Event()
    sinks: list[Any] = [Sink() for _ in range(5)]
    opening = [
        asyncio.create_task(
            keep_stream(
                server.engine,
                sink,
                "/messages",
                Exchange(channel=Channel(can_stream=True, event_stream=sink)),
            )
        )
        for sink in sinks
    ]
    await asyncio.sleep(0)
    sessions.may_open.set()
    open_count = sum(
        [await has_opened(task, sink) for task, sink in zip(opening, sinks, strict=True)]
    )

    assert open_count == 2
    assert [task.result().status for task in opening if task.done()] == [429] * 3
    for task in opening:
        task.cancel()
    await asyncio.gather(*opening, return_exceptions=True)
    another, *_ = await open_stream(server)
    another.cancel()


async def has_opened(opening: asyncio.Task[Reply], sink: Sink) -> bool:
    """Return whether a stream opens; if not, its request has ended."""
    told = asyncio.ensure_future(sink.next())
    await asyncio.wait((told, opening), return_when=asyncio.FIRST_COMPLETED)
    if not told.done():
        told.cancel()
        return False
    told.result()
    return True


class SlowRelay:
    """Stores answers once the database lets it."""

    def __init__(self) -> None:
        self.may_store = asyncio.Event()

    async def put(self, session: Session, ask_id: str, response: JSONObject) -> bool:
        await self.may_store.wait()
        return False


async def test_answers_that_wait_for_the_store_are_limited_for_each_caller(
    server: MCPServer, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each was accepted with 202 before it is served, so nothing else holds its client back."""
    limits = Limits(own_count=3, own_bytes=1000, count=10, bytes=10_000)
    monkeypatch.setattr(legacy_sse, "LIMITS", limits)
    relay = SlowRelay()
    monkeypatch.setattr(server.engine.ports.pending_responses, "relay", relay, raising=False)
    opening, token, _ = await open_stream(server)

    async def post(body: JSONObject) -> int:
        exchange = Exchange(body=encode(body), headers=Headers([]))
        return (await take_message(server.engine, token, exchange)).status

    def answer(text: str = "") -> JSONObject:
        return {"jsonrpc": "2.0", "id": "ask-elicitation/create-1", "result": {"text": text}}

    large = [await post(answer("x" * 600)) for _ in range(2)]
    small = [await post(answer()) for _ in range(3)]
    request = await post(message("initialize", HANDSHAKE, revision=V2024_11_05))
    relay.may_store.set()
    async with asyncio.timeout(LIMIT_S):
        while await post(answer("x" * 600)) != 202:  # noqa: ASYNC110 - nothing else tells
            await asyncio.sleep(0)

    assert large == [202, 429]
    assert small == [202, 202, 429]
    assert request == 202
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)


class SharedBus(LocalBus):
    """Takes messages for another process."""

    is_shared = True

    def __init__(self) -> None:
        self.sent: list[Any] = []

    async def send(self, *messages: Any) -> None:
        self.sent.extend(messages)


async def test_messages_for_streams_elsewhere_are_limited_for_each_caller(
    server: MCPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be rows that other processes read within a minute."""
    monkeypatch.setattr(
        legacy_sse, "LIMITS", Limits(own_count=3, own_bytes=10**6, count=5, bytes=10**6)
    )
    monkeypatch.setattr(legacy_sse, "_passed_until_s", 0.0)
    bus = SharedBus()
    hub = server.engine.join_hub()
    monkeypatch.setattr(hub, "bus", bus)

    def pass_on(key: str) -> Coroutine[Any, Any, Reply]:
        session = Session(key="s", server_name="tests", principal_key=key, transport=SSE)
        caller = Caller(principal=Person(key))
        return _forward(server.engine, session, Exchange(body=b"{}", caller=caller))

    statuses = [(await pass_on("ann")).status for _ in range(4)]
    statuses += [(await pass_on("bob")).status for _ in range(3)]

    assert statuses == [202, 202, 202, 429, 202, 202, 503]
    assert len(bus.sent) == 5


NAMES = frozenset({"a"})
EVERYTHING: dict[str, Any] = {"has_all_scopes": True}


def posting_as(
    path: str = "/sse", host: str = "testserver", tenant: str = "", **rights: Any
) -> Caller:
    """Return a caller with one key, whose credentials have these rights."""
    auth = AuthInfo(subject="ada", client_id="c", authenticator="tests", **rights)
    request = RequestFactory().get(path, HTTP_HOST=host)
    principal = Principal(key="tests:ada:c", auth=auth)
    return Caller(principal=principal, build_request=lambda: request, tenant=tenant)


@pytest.fixture(params=["here", "elsewhere", "stored elsewhere"])
async def post(
    request: pytest.FixtureRequest, server: MCPServer, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, Sink, Caller], Awaitable[bool]]:
    """Post a message to the process with the stream, or to another one; return whether it was served."""
    hub = server.engine.join_hub()
    bus = SharedBus()
    is_here = request.param == "here"
    if not is_here:
        monkeypatch.setattr(hub, "bus", bus)
    text = "x" * (legacy_sse.MAX_PASSED_BYTES if request.param == "stored elsewhere" else 1)

    async def send(token: str, sink: Sink, caller: Caller) -> bool:
        body = encode(message("ping", {"text": text}, revision=V2024_11_05, id=7))
        exchange = Exchange(body=body, headers=Headers([]), caller=caller)
        with monkeypatch.context() as patch:
            if not is_here:
                patch.setattr(legacy_sse, "_connections", {})
            reply = await take_message(server.engine, token, exchange)
        if is_here and reply.status != 202:
            assert reply.status == 403
            return False
        assert reply.status == 202
        for sent in bus.sent:
            hub.receive(sent)
        bus.sent.clear()
        answer = await sink.message()
        assert answer["id"] == 7
        return "result" in answer

    return send


@pytest.mark.parametrize(
    ("opened", "posted", "is_served"),
    [
        ({"scopes": ["a", "b"]}, {"scopes": ["a", "b"]}, True),
        ({"scopes": ["a"]}, {"scopes": ["a", "b"]}, True),
        ({"scopes": ["a"]}, EVERYTHING, True),
        ({"scopes": ["a", "b"]}, {"scopes": ["a"]}, False),
        (EVERYTHING, {"scopes": ["a"]}, False),
        ({**EVERYTHING, "allowed_tools": NAMES}, EVERYTHING, True),
        (EVERYTHING, {**EVERYTHING, "allowed_tools": NAMES}, False),
        (EVERYTHING, {**EVERYTHING, "read_only": True}, False),
        ({**EVERYTHING, "allowed_tools": NAMES}, {**EVERYTHING, "allowed_toolsets": NAMES}, False),
        (EVERYTHING, {**EVERYTHING, "path": "/messages"}, True),
        ({**EVERYTHING, "path": "/sse/x/a"}, {**EVERYTHING, "path": "/sse/x/a/messages"}, True),
        (EVERYTHING, {**EVERYTHING, "path": "/sse/x/a/messages"}, False),
        ({**EVERYTHING, "path": "/sse/x/a"}, {**EVERYTHING, "path": "/messages"}, False),
        (EVERYTHING, {**EVERYTHING, "host": "localhost"}, False),
    ],
    ids=str,
)
async def test_a_message_needs_all_the_rights_of_its_stream(
    server: MCPServer,
    sessions: Sessions,
    post: Callable[[str, Sink, Caller], Awaitable[bool]],
    opened: dict[str, Any],
    posted: dict[str, Any],
    is_served: bool,
) -> None:
    streaming, mine = posting_as(**_frozen(opened)), posting_as(**_frozen(posted))
    opening, token, sink = await open_stream(server, streaming)

    assert await post(token, sink, mine) is is_served
    assert await post(token, sink, streaming)
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)


@pytest.mark.parametrize("post", ["elsewhere", "stored elsewhere"], indirect=True)
async def test_a_message_for_another_tenant_is_not_served_at_that_of_its_stream(
    server: MCPServer, sessions: Sessions, post: Callable[[str, Sink, Caller], Awaitable[bool]]
) -> None:
    streaming, mine = (posting_as(tenant=name, **EVERYTHING) for name in ("north", "south"))
    opening, token, sink = await open_stream(server, streaming)

    assert not await post(token, sink, mine)
    assert await post(token, sink, streaming)
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)


def _frozen(rights: dict[str, Any]) -> dict[str, Any]:
    return {name: frozenset(v) if isinstance(v, list) else v for name, v in rights.items()}
