"""An exporter that fails or blocks delays no call."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor

from django_mcp import MCPServer
from django_mcp.telemetry import later, metrics, setup, spans
from django_mcp.telemetry.later import Later
from django_mcp.telemetry.operation import Observer, Operation, Watching
from tests.support.overtaken import Overtaken
from tests.support.ports import use_ports
from tests.support.server.plain import MCPServer as PlainServer
from tests.support.telemetry import find_points, find_spans, flush, new_name
from tests.support.wire import V2026_07_28, WireClient
from tests.unit.telemetry.conftest import make_server


class Exporting(SpanProcessor):
    """Does what a test says at the end of a span, as an exporter does that is called for each."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()
        self.has_begun = threading.Event()
        self.error: Exception | None = None
        self.threads: set[int] = set()

    def on_end(self, span: Any) -> None:
        self.threads.add(threading.get_ident())
        self.has_begun.set()
        if self.error is not None:
            raise self.error
        self.may_go_on.wait(60)


@pytest.fixture
def exporting(native: Any) -> Iterator[Exporting]:
    provider: Any = trace.get_tracer_provider()
    processor = Exporting()
    provider.add_span_processor(processor)
    yield processor
    processor.may_go_on.set()
    processors = provider._active_span_processor
    processors._span_processors = tuple(
        each for each in processors._span_processors if each is not processor
    )


async def test_an_exporter_that_blocks_delays_no_call(exporting: Exporting, server: MCPServer):
    client = WireClient(server, V2026_07_28)
    await client.call("find_orders")
    assert exporting.has_begun.wait(10)

    for _ in range(50):
        await client.call("find_orders")

    # The exporter still holds the first span, and metrics go on.
    assert exporting.threads.isdisjoint({threading.get_ident()})
    assert not spans.finishing.get().flush(0)
    [(_, point)] = find_points_unflushed(server)
    assert point.count == 51
    exporting.may_go_on.set()
    assert len(find_spans(server.name)) == 51


def find_points_unflushed(server: MCPServer) -> list[Any]:
    spans_queue, spans.finishing.current = spans.finishing.current, None
    try:
        metrics.recording.get().flush()
        return find_points("mcp.server.operation.duration", server.name)
    finally:
        spans.finishing.current = spans_queue


async def test_an_exporter_that_fails_harms_no_call(
    exporting: Exporting, server: MCPServer, caplog: pytest.LogCaptureFixture
):
    exporting.error = ValueError("no exporter")
    client = WireClient(server, V2026_07_28)

    await client.call("find_orders")
    await client.call("find_orders")
    spans.finishing.get().flush()

    assert [record.message for record in caplog.records] == ["Could not record an operation"] * 2


def test_a_full_queue_drops_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(later, "MAX_QUEUED", 3)
    goes_on, has_begun, done = threading.Event(), threading.Event(), []

    def work(entry: int) -> None:
        has_begun.set()
        goes_on.wait(60)
        done.append(entry)

    queue = Later("tests", work)
    queue.put(0)
    assert has_begun.wait(10)
    for entry in range(1, 10):
        queue.put(entry)

    assert queue.dropped == 6
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    goes_on.set()
    assert queue.flush(10)
    assert done == [0, 1, 2, 3]


def test_what_is_put_while_the_thread_empties_the_queue_is_not_left_there():
    goes_on, has_begun, done = threading.Event(), threading.Event(), []

    def work(entry: int) -> None:
        has_begun.set()
        goes_on.wait(60)
        done.append(entry)

    queue = Later("tests", work)
    queue._queue = waiting = Overtaken[int]("tests")
    queue.put(0)
    assert has_begun.wait(10)
    queue.put(1)
    waiting.goes_on = goes_on
    queue.put(2)

    assert queue.flush(10)
    assert done == [0, 1, 2]


async def test_an_observer_that_fails_harms_no_call(caplog: pytest.LogCaptureFixture):
    class Failing(Observer):
        def begin(self, operation: Operation) -> None:
            raise ValueError

        def end(self, operation: Operation) -> None:
            raise ValueError

    server = PlainServer(new_name())
    use_ports(server, instrument=Watching([Failing()]))
    server.register_tool(lambda: "done", name="work")

    result = await WireClient(server, V2026_07_28).call("work")

    assert result["content"][0]["text"] == "done"
    assert [record.message for record in caplog.records] == ["Could not record an operation"] * 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_child_of_a_fork_leaves_to_its_parent_what_is_queued():
    goes_on, has_begun, done = threading.Event(), threading.Event(), []

    def work(entry: int) -> None:
        has_begun.set()
        goes_on.wait(60)
        done.append(entry)

    queue = Later("tests", work)
    queue.put(0)
    assert has_begun.wait(10)
    queue.put(1)

    child = os.fork()
    if not child:
        os._exit(0 if queue.flush() and not done else 1)

    assert os.waitpid(child, 0)[1] == 0
    goes_on.set()
    assert queue.flush(10)
    assert done == [0, 1]


async def test_the_access_log_needs_no_opentelemetry(
    settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(setup, "find_spec", lambda _name: None)
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "TELEMETRY": "native", "ACCESS_LOG": True}
    caplog.set_level(logging.INFO, "django_mcp.access")
    server = make_server()

    await WireClient(server, V2026_07_28).call("find_orders")

    flush()
    assert [record.name for record in caplog.records] == ["django_mcp.access"]
    assert find_spans(server.name) == []


def test_a_thread_that_the_system_refused_once_is_started_with_a_later_entry(
    monkeypatch: pytest.MonkeyPatch,
):
    done: list[int] = []
    queue: Later[int] = Later("telemetry-refused", done.append)

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as refusing, pytest.raises(RuntimeError):
        refusing.setattr(threading.Thread, "start", refuse)
        queue.put(1)
    queue.put(2)

    assert queue.flush(10)
    assert done == [1, 2]
