import asyncio
from typing import Any

from django_mcp.server.exchange.exchange import Reply
from django_mcp.transports.http.sink import StreamSink
from tests.support.events import Parser
from tests.support.http.harness import LIMIT_S

EXTRA = ((b"vary", b"Origin"),)


class Wire:
    """Records what is sent; each `send` may be made to wait."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.is_open = asyncio.Event()
        self.is_open.set()

    async def send(self, message: dict[str, Any]) -> None:
        await self.is_open.wait()
        self.messages.append(message)

    @property
    def data(self) -> list[str]:
        body = b"".join(message.get("body", b"") for message in self.messages)
        return [event.data for event in Parser().feed(body)]


async def test_nothing_is_sent_before_the_first_message():
    wire = Wire()
    sink = StreamSink(wire.send, (), 30)

    assert not sink.has_started
    assert wire.messages == []


async def test_the_first_message_opens_the_stream():
    """Its header keeps a proxy from holding events back."""
    wire = Wire()
    sink = StreamSink(wire.send, EXTRA, 30)
    await sink.send(b'{"a":1}')

    start, body = wire.messages
    assert start["status"] == 200
    assert start["headers"] == [
        (b"content-type", b"text/event-stream"),
        (b"cache-control", b"no-cache, no-transform"),
        (b"x-accel-buffering", b"no"),
        *EXTRA,
    ]
    assert body["body"].endswith(b'data: {"a":1}\n\n')
    assert body["more_body"] is True


async def test_nothing_follows_the_last_message():
    wire = Wire()
    sink = StreamSink(wire.send, (), 30)
    await sink.send(b"1")
    await sink.finish(Reply(200, b"2"))
    await sink.send(b"3")
    await sink.keep_alive()
    await sink.finish(Reply(200, b"4"))

    assert wire.data == ["1", "2"]
    assert [message.get("more_body") for message in wire.messages] == [None, True, False]


async def test_a_stream_may_end_without_a_last_message():
    wire = Wire()
    sink = StreamSink(wire.send, (), 30)
    await sink.send(b"1")
    await sink.finish(Reply(200))

    assert wire.messages[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


async def test_a_closed_sink_does_not_open_a_stream():
    wire = Wire()
    sink = StreamSink(wire.send, (), 30)
    sink.is_finished = True
    await sink.send(b"1")

    assert wire.messages == []


async def test_messages_of_many_tasks_arrive_whole_in_order_and_before_the_last():
    wire = Wire()
    wire.is_open.clear()
    sink = StreamSink(wire.send, (), 30)
    tasks = [asyncio.create_task(sink.send(b"%d" % number)) for number in range(20)]
    await asyncio.sleep(0)
    tasks.append(asyncio.create_task(sink.finish(Reply(200, b"last"))))
    await asyncio.sleep(0)
    wire.is_open.set()
    async with asyncio.timeout(LIMIT_S):
        await asyncio.gather(*tasks)

    assert [message["type"] for message in wire.messages].count("http.response.start") == 1
    assert wire.data == [*map(str, range(20)), "last"]


async def test_a_cancelled_response_start_is_sent_again():
    wire = Wire()
    wire.is_open.clear()
    sink = StreamSink(wire.send, (), 30)
    task = asyncio.create_task(sink.keep_alive())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait((task,))
    wire.is_open.set()
    await sink.finish(Reply(200, b"last"))

    assert [message["type"] for message in wire.messages] == [
        "http.response.start",
        "http.response.body",
    ]


async def test_a_send_error_of_the_server_means_disconnect():
    sent = 0

    async def send(message: Any) -> None:
        nonlocal sent
        sent += 1
        raise OSError("gone")

    sink = StreamSink(send, (), 30)
    await sink.send(b"1")
    await sink.send(b"2")
    await sink.finish(Reply(200, b"3"))

    assert sent == 1


class SlowWire(Wire):
    """Sends as many messages as were allowed; others wait."""

    def __init__(self) -> None:
        super().__init__()
        self._allowed = asyncio.Semaphore(0)

    def allow(self, count: int) -> None:
        for _ in range(count):
            self._allowed.release()

    async def send(self, message: dict[str, Any]) -> None:
        await self._allowed.acquire()
        self.messages.append(message)


async def test_a_task_that_goes_on_sending_does_not_overtake_one_that_waits():
    wire = SlowWire()
    sink = StreamSink(wire.send, (), 30)
    wire.allow(2)
    await sink.send(b"0")

    async def send_two() -> None:
        await sink.send(b"1")
        await sink.send(b"2")

    sending = asyncio.create_task(send_two())
    await asyncio.sleep(0)
    ending = asyncio.create_task(sink.finish(Reply(200, b"3")))
    await asyncio.sleep(0)
    wire.allow(10)
    await asyncio.wait_for(asyncio.gather(sending, ending), LIMIT_S)

    assert wire.data == ["0", "1", "3"]
    assert wire.messages[-1]["more_body"] is False


async def test_a_message_that_waits_is_followed_by_those_of_other_tasks():
    wire = SlowWire()
    sink = StreamSink(wire.send, (), 30)
    wire.allow(2)
    await sink.send(b"0")

    sending = [asyncio.create_task(sink.send(text)) for text in (b"1", b"2", b"3")]
    await asyncio.sleep(0)
    for _ in sending:
        wire.allow(1)
        await asyncio.sleep(0)
    await asyncio.wait_for(asyncio.gather(*sending), LIMIT_S)

    assert wire.data == ["0", "1", "2", "3"]
