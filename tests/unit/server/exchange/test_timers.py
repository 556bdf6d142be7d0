"""Timers of a task: those of a coroutine that never waits cost nothing, and all others count."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from typing import Any

import pytest

from django_mcp.protocol.json import encode
from django_mcp.protocol.messages import Request
from django_mcp.server.exchange.connection import ConnectionState, Session
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.server.exchange.timers import TaskTimers
from django_mcp.server.server import MCPServer
from tests.support.wire import META, R1, R5

SOON_S = 0.001
NEVER_S = 3600.0


def scheduled() -> int:
    """Return how many timers the loop has that are still to fire."""
    loop: Any = asyncio.get_running_loop()
    return sum(not handle.cancelled() for handle in loop._scheduled)


async def test_a_coroutine_that_does_not_wait_schedules_nothing():
    timers = TaskTimers()

    async def work() -> int:
        timers.limit(NEVER_S)
        timers.after(NEVER_S, print)
        return scheduled()

    before = scheduled()

    assert await timers.drive(work()) == before


async def test_what_it_began_with_is_scheduled_when_it_waits():
    timers = TaskTimers()

    async def work() -> int:
        timers.limit(NEVER_S)
        timers.after(NEVER_S, print).cancel()
        await asyncio.sleep(0)
        return scheduled()

    before = scheduled()

    assert await timers.drive(work()) == before + 1


async def test_what_it_begins_later_is_scheduled_at_once():
    timers = TaskTimers()

    async def work() -> int:
        await asyncio.sleep(0)
        timers.limit(NEVER_S)
        return scheduled()

    before = scheduled()

    assert await timers.drive(work()) == before + 1


async def interrupted(timers: TaskTimers) -> str:
    deadline = timers.limit(SOON_S)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        assert deadline.is_ours()
        # What is caught is over: it may wait again, more than once.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return "in time"
    finally:
        deadline.cancel()
    return "never"


async def test_a_limit_interrupts_the_coroutine_which_may_go_on():
    timers = TaskTimers()

    assert await timers.drive(interrupted(timers)) == "in time"
    assert await interrupted(timers) == "in time"


async def test_a_cancellation_from_outside_is_nobody_elses():
    timers = TaskTimers()
    begun, seen = asyncio.Event(), list[bool]()

    async def work() -> None:
        deadline = timers.limit(NEVER_S)
        try:
            begun.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(deadline.is_ours())
            raise

    async def serve() -> None:
        await timers.drive(work())

    task = asyncio.create_task(serve())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert seen == [False]


@pytest.mark.parametrize("waits", [False, True])
async def test_what_a_coroutine_raises_comes_through(waits: bool):
    async def work() -> None:
        if waits:
            await asyncio.sleep(0)
        raise LookupError("this")

    with pytest.raises(LookupError, match="this"):
        await TaskTimers().drive(work())


async def test_a_coroutine_that_is_dropped_is_closed():
    closed = list[str]()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            closed.append("yes")

    driven = TaskTimers().drive(work())
    next(driven)
    driven.close()

    assert closed == ["yes"]


async def test_nothing_is_left_for_the_collector():
    async def work(timers: TaskTimers) -> None:
        timers.after(NEVER_S, print).cancel()
        timers.limit(NEVER_S).cancel()

    async def serve() -> None:
        timers = TaskTimers()
        await timers.drive(work(timers))

    gc.collect()
    gc.disable()
    try:
        await serve()
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.http_only("a pipe makes the exchanges")
async def test_an_exchange_that_is_handed_over_again_has_its_deadline_again():
    server, exchange = MCPServer("tests"), Exchange()

    @server.tool(timeout=SOON_S)
    async def wait() -> str:
        await asyncio.Event().wait()
        return "never"

    meta = {META + "protocolVersion": R5.name, META + "clientCapabilities": {}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    message["params"] = {"name": "wait", "_meta": meta}
    # Each in a task of its own.
    first = await asyncio.create_task(server.handle(message, exchange))
    again = await asyncio.create_task(server.handle(message, exchange))

    assert first is not None
    assert "No result within" in str(first["result"]["content"])
    assert again == first


async def test_what_fails_while_it_is_waited_for_leaves_nothing_either():
    def fail() -> None:
        raise LookupError("this")

    async def work() -> None:
        await asyncio.to_thread(fail)

    async def serve() -> bool:
        try:
            await TaskTimers().drive(work())
        except LookupError:
            return True
        return False

    gc.collect()
    gc.disable()
    try:
        assert await serve()
        await asyncio.sleep(0)
        assert gc.collect() == 0
    finally:
        gc.enable()


async def test_what_a_coroutine_has_handled_is_over():
    async def work() -> BaseException | None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_soon(task.cancel)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            task.uncancel()
        return sys.exc_info()[1]

    assert await TaskTimers().drive(work()) is None


@pytest.mark.http_only("a pipe has one thread")
def test_a_call_that_has_not_waited_yet_is_cancelled_from_another_thread():
    """As under WSGI, where each request has a loop of its own."""
    server, kept = MCPServer("tests"), ConnectionState(R1)
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
            exchange = Exchange(body=encode(message), connection=kept, can_stream=True)
            exchange.is_buffered = True
            statuses[message["method"]] = (await server.answer(exchange)).status
            # A cancellation of the wrong task would come here.
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
async def test_a_handshake_that_cannot_be_kept_is_answered(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    server = MCPServer("tests")

    async def fail(_session: Session) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(server.sessions, "settle", fail)
    kept = Session.of("k" * 32, "tests", None, ConnectionState(), transport="sse")
    params = {"protocolVersion": R1.name, "capabilities": {}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}

    reply = await server.answer(Exchange(body=encode(message), connection=kept, can_stream=True))

    assert b"Internal error" in (reply.body or b"")
    assert "disk full" in caplog.text


def test_what_a_request_holds_is_not_in_its_representation():
    for record in (
        Request(1, "tools/call", {"password": "secret"}),
        Exchange(body=b"secret"),
        Reply(200, b"secret"),
        ConnectionState(client_info={"name": "secret"}),
    ):
        assert "secret" not in repr(record)
        assert "secret" not in str(list(record.__rich_repr__()))
