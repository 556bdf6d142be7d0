import asyncio
import gc
import json
import tracemalloc
from typing import Any, cast

import pytest
from channels.routing import URLRouter
from django.urls import path

from django_mcp import MCPServer
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.transports.http.consumer import MCPConsumer
from django_mcp.transports.http.sink import StreamSink, Watch
from tests.support.http.harness import GONE, LIMIT_S, Conversation, http_scope, part, talk, until
from tests.support.http.scripted import ScriptedServer, script

DAPHNE = {"version": "3.0"}
"""What Daphne says of itself: no version of the HTTP specification."""

EVERY_SERVER = pytest.mark.parametrize(
    "asgi", [None, DAPHNE], ids=["lets calls finish", "cancels late"]
)


def consumer(server: ScriptedServer | None = None) -> Any:
    return MCPConsumer.as_asgi(server=cast("Any", server or ScriptedServer()))


async def post(*steps: Any, headers: dict[str, str] | None = None, **scope: Any) -> Conversation:
    return await talk(consumer(), http_scope(headers=headers, **scope), part(script(*steps)))


@EVERY_SERVER
async def test_a_single_response_is_json(asgi: dict[str, str] | None):
    talked = await post(["reply", 200, {"x": 1}], asgi=asgi)

    assert talked.status == 200
    assert talked.headers == {
        "content-type": "application/json",
        "content-length": "7",
        "cache-control": "no-store",
    }
    assert talked.body == b'{"x":1}'
    assert len(talked.sent) == 2


@EVERY_SERVER
async def test_messages_before_the_response_open_a_stream(asgi: dict[str, str] | None):
    """The response is its last event."""
    talked = await post(["send", 1], ["send", 2], ["reply", 200, "answer"], asgi=asgi)

    assert talked.status == 200
    assert talked.headers["content-type"] == "text/event-stream"
    assert [event.data for event in talked.events] == ["1", "2", '"answer"']
    assert talked.sent[-1]["more_body"] is False


@pytest.mark.parametrize("status", [400, 404])
async def test_the_status_can_be_set_until_streaming_starts(status: int):
    talked = await post(["reply", status, "no"])

    assert talked.status == status
    assert talked.headers["content-type"] == "application/json"


async def test_an_accepted_notification_has_no_body():
    talked = await post(["reply", 202, None])

    assert talked.status == 202
    assert talked.headers == {"content-length": "0"}
    assert talked.body == b""


async def test_a_client_that_accepts_only_json_gets_only_json():
    talked = await post(["send", 1], ["tell", "can_stream"], headers={"accept": "application/json"})

    assert talked.headers["content-type"] == "application/json"
    assert json.loads(talked.body) == [False, False]


async def test_a_client_that_accepts_only_sse_gets_an_event():
    headers = {"accept": "text/event-stream"}
    result = await post(["reply", 200, "x"], headers=headers)
    refusal = await post(["reply", 400, "x"], headers=headers)
    nothing = await post(["reply", 202, None], headers=headers)

    assert [event.data for event in result.events] == ['"x"']
    assert (refusal.status, refusal.headers["content-type"]) == (400, "application/json")
    assert (nothing.status, nothing.body) == (202, b"")


async def test_each_response_to_an_origin_has_cors_headers():
    headers = {"origin": "http://localhost:6274"}
    plain = await post(["reply", 200, 1], headers=headers)
    stream = await post(["send", 1], headers=headers)
    refusal = await post(headers={**headers, "accept": "text/html"})

    for talked in (plain, stream, refusal):
        assert talked.headers["access-control-allow-origin"] == "http://localhost:6274"
        assert talked.headers["vary"] == "Origin"


async def test_a_request_rejected_by_the_guard_is_not_read():
    app = consumer()
    talked = await talk(app, http_scope(headers={"host": "evil.example"}))

    assert talked.status == 403
    assert talked.task.done()
    assert json.loads(talked.body)["error"]["code"] == -32600


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_get_and_delete_go_to_the_server_without_a_body(method: str):
    talked = await talk(consumer(), http_scope(method, {"content-type": ""}))

    assert talked.status == 405
    assert talked.headers["allow"] == "POST, OPTIONS"


async def test_the_exchange_contains_the_request_data():
    server = ScriptedServer()
    scope = http_scope(
        headers={"mcp-session-id": "s1", "x-test": "x"},
        url_route={"args": (), "kwargs": {"tenant": "a"}},
    )
    await talk(consumer(server), scope, part(script(["reply", 200, 1])))

    (exchange,) = server.exchanges
    assert exchange.headers is not None
    assert exchange.headers.get("mcp-session-id") == "s1"
    assert exchange.caller.address == "192.0.2.1"
    assert exchange.caller.url_kwargs == {"tenant": "a"}
    assert exchange.headers is not None
    assert exchange.headers.get("x-test") == "x"


async def test_the_request_is_built_lazily():
    talked = await post(["tell", "request"], headers={"x-test": "yes"})

    assert json.loads(talked.body) == ["POST", "/mcp", "yes", len(script(["tell", "request"]))]


async def test_an_open_listen_stream_releases_its_request_body():
    server, size, count = MCPServer("held", public=True), 1_000_000, 5
    server.register_resource("x://a", lambda: "a", name="a")
    app = MCPConsumer.as_asgi(server=server)

    def listen() -> Conversation:
        params = {
            "notifications": {"resourceSubscriptions": ["x://a"]},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "traceparent": "0" * size,
            },
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
        headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "subscriptions/listen",
        }
        return Conversation(app, http_scope(headers=headers), part(json.dumps(message).encode()))

    tracemalloc.start()
    try:
        streams = []
        for _ in range(count):
            streams.append(listen())
            await streams[-1].until_sent(2)
        held, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    for stream in streams:
        stream.put(GONE)
        await stream.end()

    assert [each.status for each in streams] == [200] * count
    assert held < size * 2


async def test_it_can_be_mounted_like_any_consumer():
    server = ScriptedServer()
    app = URLRouter([path("at/<slug:tenant>/mcp", consumer(server))])
    await talk(app, http_scope(path="/at/home/mcp"), part(script(["reply", 200, 1])))

    assert server.exchanges[0].caller.url_kwargs == {"tenant": "home"}


async def test_it_serves_http_only():
    with pytest.raises(ValueError, match="lifespan"):
        await talk(consumer(), {"type": "lifespan"})


async def test_it_takes_no_channel_layer(settings: Any):
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "no.such.Layer"}}

    assert (await post(["reply", 200, 1])).status == 200


class GuardedServer(ScriptedServer):
    async def authenticate(self, exchange: Exchange) -> Reply | None:
        assert exchange.caller.build_request is not None
        if exchange.caller.build_request().headers.get("authorization") is None:
            return Reply(401, b"{}", ((b"www-authenticate", b"Bearer"),))
        exchange.caller.principal = "somebody"
        return None


async def test_the_body_of_an_unauthenticated_request_is_not_read():
    """The credentials of each request are checked before its body is read."""
    talked = await talk(consumer(GuardedServer()), http_scope())

    assert talked.status == 401
    assert talked.headers["www-authenticate"] == "Bearer"


async def test_an_authenticated_client_is_served():
    scope = http_scope(headers={"authorization": "Bearer x"})
    talked = await talk(consumer(GuardedServer()), scope, part(script(["tell", "principal"])))

    assert json.loads(talked.body) == "somebody"


# -- exceptions


@EVERY_SERVER
async def test_an_exception_is_logged_and_sent_without_details(
    asgi: dict[str, str] | None, caplog: pytest.LogCaptureFixture
):
    talked = await post(["fail", "the secret"], asgi=asgi)

    assert talked.status == 500
    assert json.loads(talked.body)["error"] == {"code": -32603, "message": "Internal error"}
    assert "the secret" in caplog.text
    assert caplog.records[0].exc_info is not None


async def test_an_exception_while_streaming_ends_the_stream(caplog: pytest.LogCaptureFixture):
    talked = await post(["send", 1], ["fail", "late"])

    assert [event.data for event in talked.events] == ["1"]
    assert talked.sent[-1]["more_body"] is False
    assert "late" in caplog.text


async def test_a_response_that_cannot_be_sent_is_an_error(caplog: pytest.LogCaptureFixture):
    class Broken(ScriptedServer):
        async def answer(self, exchange: Exchange) -> Reply:
            return Reply(200, b"{}", cast("Any", ((b"x",),)))

    app = consumer(Broken())
    sent: list[Any] = []

    async def send(message: Any) -> None:
        for _name, _value in message.get("headers", ()):
            pass
        sent.append(message)

    await app(http_scope(), lambda: asyncio.sleep(0, part()), send)

    assert sent[0]["status"] == 500


@EVERY_SERVER
async def test_a_send_error_after_a_disconnect_is_not_an_error(
    asgi: dict[str, str] | None, caplog: pytest.LogCaptureFixture
):
    async def send(message: Any) -> None:
        raise OSError("gone")

    for steps in (script(["reply", 200, 1]), script(["send", 1], ["reply", 200, 1])):
        await consumer()(
            http_scope(asgi=asgi), lambda body=steps: asyncio.sleep(0, part(body)), send
        )

    assert caplog.records == []


# -- disconnects


@EVERY_SERVER
@pytest.mark.parametrize("begun", [[], [["send", 1]]], ids=["before a stream", "in a stream"])
async def test_a_disconnect_cancels_the_call(asgi: dict[str, str] | None, begun: list[Any]):
    """It is cancelled at once, and nothing more is sent."""
    server = ScriptedServer()
    steps = script(["cancels", True], *begun, ["set", "running"], ["wait", "never"])
    talk = Conversation(consumer(server), http_scope(asgi=asgi), part(steps))
    async with asyncio.timeout(LIMIT_S):
        await server.events["running"].wait()
    sent = len(talk.sent)
    talk.put(GONE)
    async with asyncio.timeout(1):
        await server.events["call:cancelled"].wait()
    await talk.end()

    assert server.exchanges[0].channel.is_disconnected
    assert len(talk.sent) == sent


@EVERY_SERVER
async def test_a_call_can_outlive_a_disconnect(
    asgi: dict[str, str] | None, caplog: pytest.LogCaptureFixture
):
    """Its response is dropped."""
    server = ScriptedServer()
    steps = script(["set", "running"], ["wait", "later"], ["send", 1], ["reply", 200, 1])
    talk = Conversation(consumer(server), http_scope(asgi=asgi), part(steps))
    async with asyncio.timeout(LIMIT_S):
        await server.events["running"].wait()
        talk.put(GONE)
        await until(lambda: server.exchanges[0].channel.is_disconnected)
        if asgi == DAPHNE:
            # The application has to return, or it would be cancelled with a warning.
            await talk.end()
            assert not server.events["call:finished"].is_set()
        server.events["later"].set()
        await server.events["call:finished"].wait()
        await talk.end()

    assert not server.events["call:cancelled"].is_set()
    assert [message for message in talk.sent if message["type"] == "http.response.start"] in (
        [],
        talk.sent[:1],
    )
    assert caplog.records == []


@EVERY_SERVER
async def test_server_shutdown_cancels_every_call(asgi: dict[str, str] | None):
    server = ScriptedServer()
    steps = script(["set", "running"], ["wait", "never"])
    talk = Conversation(consumer(server), http_scope(asgi=asgi), part(steps))
    async with asyncio.timeout(LIMIT_S):
        await server.events["running"].wait()
        talk.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await talk.task

    assert server.events["call:cancelled"].is_set()


async def test_a_handler_that_swallows_its_cancellation_is_not_answered():
    server = ScriptedServer()
    steps = script(["cancels", True], ["set", "running"], ["ignore", "x"], ["reply", 200, 1])
    talk = Conversation(consumer(server), http_scope(), part(steps))
    async with asyncio.timeout(LIMIT_S):
        await server.events["running"].wait()
    talk.put(GONE)
    await talk.end()

    assert talk.sent == []


@pytest.mark.parametrize(
    "messages",
    [
        [GONE],
        [part(b"x", more=True), GONE],
        [part(more=True), part(more=True), GONE, GONE],
        [{"type": "http.request", "more_body": True}, GONE],
    ],
)
async def test_a_disconnect_before_the_body_is_complete_starts_no_exchange(
    messages: list[dict[str, Any]],
):
    server = ScriptedServer()
    talked = await talk(consumer(server), http_scope(), *messages)

    assert talked.sent == []
    assert server.exchanges == []


async def test_unexpected_asgi_messages_after_the_body_are_ignored():
    server = ScriptedServer()
    steps = script(["cancels", True], ["set", "running"], ["wait", "never"])
    strays = [part(b"x"), part(b"y", more=True), {"type": "http.request"}]
    talk = Conversation(consumer(server), http_scope(), part(steps), *strays, GONE, GONE)
    await talk.end()

    assert server.events["call:cancelled"].is_set()
    assert talk.sent == []


async def test_a_disconnect_right_after_the_body_does_not_stop_a_fast_call():
    talked = await talk(consumer(), http_scope(), part(script(["reply", 200, 1])), GONE)

    assert talked.status == 200


# -- keep-alive


@EVERY_SERVER
async def test_a_silent_call_is_kept_alive(asgi: dict[str, str] | None):
    """Comments open the stream, and repeat."""
    server = ScriptedServer(keepalive_s=0.01)
    steps = script(["wait", "later"], ["reply", 200, "answer"])
    talk = Conversation(consumer(server), http_scope(asgi=asgi), part(steps))
    await talk.until_sent(4)
    server.events["later"].set()
    await talk.end()

    assert talk.headers["content-type"] == "text/event-stream"
    assert [message["body"] for message in talk.sent[1:4]] == [b":\n\n"] * 3
    assert [event.data for event in talk.events] == ['"answer"']


async def test_a_silent_call_of_a_client_that_takes_only_json_is_left_alone():
    server = ScriptedServer(keepalive_s=0.01)
    scope = http_scope(headers={"accept": "application/json"})
    steps = script(["set", "running"], ["wait", "later"], ["reply", 200, "answer"])
    talk = Conversation(consumer(server), scope, part(steps))
    async with asyncio.timeout(LIMIT_S):
        await server.events["running"].wait()
    asyncio.get_running_loop().call_later(0.1, server.events["later"].set)
    await talk.end()

    assert len(talk.sent) == 2
    assert talk.body == b'"answer"'


async def test_a_busy_stream_needs_no_comments():
    class Busy(ScriptedServer):
        async def answer(self, exchange: Exchange) -> Reply:
            assert exchange.channel.sink is not None
            for _ in range(30):
                await exchange.channel.sink.send(b"1")
                await asyncio.sleep(0.02)
            return Reply(200, b"2")

    talked = await talk(consumer(Busy(keepalive_s=0.5)), http_scope(), part())

    assert b":\n\n" not in talked.body


# -- cleanup


@EVERY_SERVER
async def test_an_exchange_leaves_no_reference_cycles(asgi: dict[str, str] | None):
    """Bodies are large: they are freed immediately, not by the garbage collector."""
    gc.collect()
    # Those of earlier tests may still be referenced.
    earlier = find_objects_of_exchanges()
    gc.disable()
    try:
        await post(["reply", 200, 1], asgi=asgi)
        await post(["send", 1], ["reply", 200, 1], asgi=asgi)
        await asyncio.sleep(0)
        left = find_objects_of_exchanges()
    finally:
        gc.enable()

    assert left.keys() - earlier.keys() == set()


def find_objects_of_exchanges() -> dict[int, object]:
    kinds = (MCPConsumer, Exchange, StreamSink, Watch)
    return {id(each): each for each in gc.get_objects() if isinstance(each, kinds)}


async def test_no_asyncio_task_is_left_behind():
    before = asyncio.all_tasks()
    for asgi in (None, DAPHNE):
        await post(["send", 1], ["reply", 200, 1], asgi=asgi)
    await asyncio.sleep(0)

    assert asyncio.all_tasks() == before


async def test_a_call_that_waits_for_a_thread_is_not_begun_as_a_stream():
    """A comment would send 200, and the call may still have to be refused with 503."""
    server = ScriptedServer(keepalive_s=0.01)
    steps = (["call", "late"], ["set", "late waits"], ["wait", "go"], ["reply", 503, "busy"])
    conversation = Conversation(consumer(server), http_scope(), part(script(*steps)))
    async with asyncio.timeout(LIMIT_S):
        await server.events["late waits"].wait()
    server.exchanges[0].channel.waits_for_thread = True
    sink = cast("StreamSink", server.exchanges[0].channel.sink)
    watch = Watch(server.exchanges[0].channel, conversation.incoming.get, sink, 0.01, lambda: None)
    try:
        for _ in range(5):
            watch._begun_s -= 1
            watch._look(sink)
        await asyncio.sleep(0)
        assert conversation.sent == []

        server.exchanges[0].channel.waits_for_thread = False
        watch._begun_s -= 1
        watch._look(sink)
        await conversation.until_sent(2)
    finally:
        watch.close()
        if watch._silence is not None:
            watch._silence.cancel()
        server.events["go"].set()
    await conversation.end()
    assert conversation.status == 200
