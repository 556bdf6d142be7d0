"""Timers of a task: only those that are not cancelled early reach the event loop."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest

from django_mcp.protocol.json import encode
from django_mcp.protocol.messages import Request
from django_mcp.server.exchange.channel import Channel
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.server.exchange.session import Session
from django_mcp.server.exchange.timers import START_S, TaskTimers
from tests.support.server.plain import MCPServer
from tests.support.wire import META, V2024_11_05, V2026_07_28

SOON_S = 0.001
NEVER_S = 3600.0


def scheduled() -> int:
    """Return how many timers of the loop are pending."""
    loop: Any = asyncio.get_running_loop()
    return sum(not handle.cancelled() for handle in loop._scheduled)


async def test_a_timer_cancelled_early_is_never_scheduled():
    timers = TaskTimers.of_current_task()
    timers.limit(NEVER_S).cancel()
    before = scheduled()

    for _ in range(100):
        timers.limit(NEVER_S).cancel()
        timers.after(NEVER_S, print).cancel()

    assert scheduled() == before


async def test_a_remaining_timer_is_scheduled_and_called():
    timers, called = TaskTimers.of_current_task(), asyncio.Event()
    left = timers.limit(NEVER_S)
    timers.after(NEVER_S, print).cancel()

    timers.after(START_S + SOON_S, called.set)
    await called.wait()

    assert left.handle is not None
    assert not left.handle.cancelled()
    left.cancel()
    assert left.handle.cancelled()


def test_each_event_loop_of_a_thread_has_its_own_timers():
    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    called = asyncio.Event()

    async def begin(delay_s: float) -> None:
        TaskTimers.of_current_task().after(delay_s, called.set)

    first.run_until_complete(begin(START_S + SOON_S))
    second.run_until_complete(begin(NEVER_S))
    first.run_until_complete(asyncio.wait_for(called.wait(), 10))
    for loop in (first, second):
        loop.close()

    assert called.is_set()


async def interrupted(timers: TaskTimers) -> str:
    deadline = timers.limit(SOON_S)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        assert deadline.is_ours()
        # A caught timeout is over: the coroutine may wait again, more than once.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return "in time"
    finally:
        deadline.cancel()
    return "never"


async def test_a_timeout_interrupts_the_coroutine_which_may_continue():
    timers = TaskTimers.of_current_task()

    assert await interrupted(timers) == "in time"
    assert await interrupted(timers) == "in time"


async def test_an_outer_cancellation_is_not_swallowed():
    begun, seen = asyncio.Event(), list[bool]()

    async def work() -> None:
        deadline = TaskTimers.of_current_task().limit(NEVER_S)
        try:
            begun.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(deadline.is_ours())
            raise

    task = asyncio.create_task(work())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert seen == [False]


async def test_no_reference_cycles_are_left():
    async def work() -> None:
        timers = TaskTimers.of_current_task()
        timers.after(NEVER_S, print).cancel()
        timers.limit(NEVER_S).cancel()

    # What the thread knows of the loop of an earlier test is let go.
    TaskTimers.of_current_task()
    # What weak references to the servers of earlier tests kept is garbage after a first round.
    while gc.collect():
        pass
    gc.disable()
    try:
        await work()
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.http_only("a pipe makes the exchanges")
async def test_a_reused_exchange_gets_a_new_deadline():
    server, exchange = MCPServer("tests"), Exchange()

    @server.tool(timeout=SOON_S)
    async def wait() -> str:
        await asyncio.Event().wait()
        return "never"

    meta = {META + "protocolVersion": V2026_07_28.name, META + "clientCapabilities": {}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    message["params"] = {"name": "wait", "_meta": meta}
    # Each in a task of its own.
    first = await asyncio.create_task(server.handle(message, exchange))
    again = await asyncio.create_task(server.handle(message, exchange))

    assert first is not None
    assert "No result within" in str(first["result"]["content"])
    assert again == first


@pytest.mark.http_only("a pipe has one thread")
def test_a_call_that_has_not_waited_yet_is_cancelled_from_another_thread():
    """Under WSGI, each request has its own loop."""
    server, kept = MCPServer("tests"), ConnectionState(V2024_11_05)
    begun, cancelled = threading.Event(), threading.Event()
    statuses: dict[str, int | str] = {}

    @server.tool
    async def block() -> str:
        begun.set()
        cancelled.wait(10)
        await asyncio.Event().wait()
        return "never"

    def post(message: dict[str, Any], at_end: threading.Event) -> None:
        async def serve() -> None:
            exchange = Exchange(
                body=encode(message), connection=kept, channel=Channel(can_stream=True)
            )
            exchange.channel.is_buffered = True
            statuses[message["method"]] = (await server.engine.answer(exchange)).status
            # A cancellation of the wrong task would arrive here.
            await asyncio.sleep(0)

        asyncio.run(serve())
        at_end.set()

    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "block"}}
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    thread = threading.Thread(target=post, args=(call, threading.Event()))
    thread.start()
    assert begun.wait(10)
    post(note, cancelled)
    thread.join(10)

    assert statuses == {"notifications/cancelled": 202, "tools/call": 202}


@pytest.mark.http_only("a pipe has no sessions")
async def test_a_handshake_that_cannot_be_stored_gets_an_error(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    server = MCPServer("tests")

    async def fail(_session: Session, _changes: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(server.engine.ports.sessions, "update", fail)
    kept = Session(key="k" * 32, server_name="tests", principal_key=None, transport="sse")
    params = {"protocolVersion": V2024_11_05.name, "capabilities": {}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}

    reply = await server.engine.answer(
        Exchange(body=encode(message), connection=kept, channel=Channel(can_stream=True))
    )

    assert b"Internal error" in (reply.body or b"")
    assert "disk full" in caplog.text


def test_repr_of_a_request_omits_its_content():
    for record in (
        Request(1, "tools/call", {"password": "secret"}),
        Exchange(body=b"secret"),
        Reply(200, b"secret"),
        ConnectionState(client_info={"name": "secret"}),
    ):
        assert "secret" not in repr(record)
        assert "secret" not in str(list(record.__rich_repr__()))
