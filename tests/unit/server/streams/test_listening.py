"""Listen streams without a session: acknowledgement, allowed messages, and order."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp.server.handlers.context import Context
from django_mcp.server.streams.stream import Change
from tests.support.server.plain import MCPServer
from tests.support.server.streams import LiveSink, StreamClient
from tests.support.wire import META, V2026_07_28

EVERYTHING = {
    "toolsListChanged": True,
    "promptsListChanged": True,
    "resourcesListChanged": True,
    "resourceSubscriptions": ["x://a"],
}


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("tests")

    @server.tool
    async def work(ctx: Context[Any]) -> str:
        await ctx.aprogress(1, 2, "half of it")
        await ctx.awarning("careful")
        return "worked"

    return server


async def listen(client: StreamClient, wanted: dict[str, Any], id: str = "listen") -> Any:
    stream = client.begin("subscriptions/listen", {"notifications": wanted}, id=id)
    return stream, (await stream.sink.message())["params"]["notifications"]


async def test_only_available_notification_types_are_acknowledged(server: MCPServer):
    """Kinds that a server does not have never change."""
    client = StreamClient(server, V2026_07_28)
    stream, honoured = await listen(client, EVERYTHING)
    assert honoured == {"toolsListChanged": True}
    stream.leave()

    @server.prompt
    def letter() -> str:
        return "Dear reader"

    @server.resource("x://a")
    def a() -> str:
        return "a"

    stream, honoured = await listen(client, EVERYTHING, "another")
    assert honoured == EVERYTHING
    stream.leave()


@pytest.mark.parametrize("wanted", [{}, {"promptsListChanged": True, "unknown": 1}])
async def test_a_stream_for_nothing_that_the_server_has_ends_at_once(
    server: MCPServer, wanted: dict[str, Any]
):
    stream, honoured = await listen(StreamClient(server, V2026_07_28), wanted)

    assert honoured == {}
    result = (await stream.answer())["result"]
    assert result["_meta"][META + "subscriptionId"] == "listen"
    assert not server.engine.hub.streams


async def test_a_stream_stays_open_for_what_only_others_may_see(server: MCPServer):
    server.prompt(name="letter", permission=lambda user: False)(lambda: "Dear reader")
    stream, honoured = await listen(StreamClient(server, V2026_07_28), {"promptsListChanged": True})

    assert honoured == {"promptsListChanged": True}
    await server.anotify_list_changed("prompts")
    assert (await stream.sink.message())["method"] == "notifications/prompts/list_changed"
    stream.leave()


async def test_call_messages_are_not_sent_on_a_listen_stream(server: MCPServer):
    """Messages of the listen stream are not sent on a call's stream either."""
    client = StreamClient(server, V2026_07_28)
    stream, _ = await listen(client, EVERYTHING)
    meta = {"progressToken": "p", META + "logLevel": "debug"}
    call = client.call_tool("work", _meta=meta)
    await call.reply()
    await server.anotify_list_changed("tools")

    on_call = [(await call.sink.message())["method"] for _ in range(2)]
    assert on_call == ["notifications/progress", "notifications/message"]
    assert call.sink.items.empty()
    assert (await stream.sink.message())["method"] == "notifications/tools/list_changed"
    assert stream.sink.items.empty()
    stream.leave()


async def test_a_change_during_the_acknowledgement_is_not_lost(
    server: MCPServer, monkeypatch: pytest.MonkeyPatch
):
    sent = LiveSink.send

    async def send(self: LiveSink, message: bytes, event_id: str | None = None) -> None:
        if b"acknowledged" in message:
            server.engine.hub.announce(Change(server=server.name, list="tools"))
        await sent(self, message, event_id)

    monkeypatch.setattr(LiveSink, "send", send)
    stream, _ = await listen(StreamClient(server, V2026_07_28), EVERYTHING)

    assert (await stream.sink.message())["method"] == "notifications/tools/list_changed"
    stream.leave()
