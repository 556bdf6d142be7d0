"""The warning about an asynchronous handler that blocks the event loop."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from typing import Any

import pytest
from django.test import override_settings

from django_mcp.inprocess import MCPError
from django_mcp.server.handlers.watching import watch_steps
from django_mcp.servers import MCPServer
from tests.support.wire import V2026_07_28, WireClient

LIMIT_S = 0.05


async def wait_well() -> str:
    for _ in range(3):
        await asyncio.sleep(0.02)
    return "done"


async def block(seconds: float) -> str:
    await asyncio.sleep(0)
    time.sleep(seconds)  # noqa: ASYNC251 - the mistake
    return "done"


async def test_awaiting_is_not_logged_as_blocking(caplog: pytest.LogCaptureFixture):
    assert await watch_steps(wait_well(), LIMIT_S, "tool wait") == "done"
    assert caplog.messages == []


async def test_blocking_is_logged_with_the_handler_name_and_a_hint(
    caplog: pytest.LogCaptureFixture,
):
    assert await watch_steps(block(2 * LIMIT_S), LIMIT_S, "tool block") == "done"

    (message,) = caplog.messages
    assert message.startswith("tool block blocked the event loop for 0.1 s")
    assert "asyncio.sleep() for time.sleep()" in message
    assert "write the handler with def" in message


async def test_exceptions_propagate_through_watched_steps():
    async def fail() -> str:
        try:
            await asyncio.wait_for(asyncio.Event().wait(), 0.001)
        except TimeoutError:
            raise LookupError("nothing there") from None
        return "never"

    with pytest.raises(LookupError, match="nothing there"):
        await watch_steps(fail(), LIMIT_S, "tool fail")


async def test_cancellation_reaches_the_handler():
    interrupted = asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            interrupted.set()

    async def watch() -> None:
        await watch_steps(wait(), LIMIT_S, "tool wait")

    task = asyncio.create_task(watch())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert interrupted.is_set()


@pytest.mark.parametrize("is_debug", [True, False])
async def test_blocking_detection_is_on_in_debug(caplog: pytest.LogCaptureFixture, is_debug: bool):
    server: Any = MCPServer("watched", public=True)

    @server.tool
    async def sleepy() -> str:
        """Block for too long."""
        return await block(0.15)

    with override_settings(DEBUG=is_debug):
        await WireClient(server, V2026_07_28).call("sleepy")

    assert [m for m in caplog.messages if "tool sleepy blocked" in m] == caplog.messages[:is_debug]


@pytest.mark.parametrize("debug", [True, False])
async def test_resources_of_a_cancelled_handler_are_released_immediately(debug: bool):
    """An open cursor, for example, which would lock the database for others."""
    server = MCPServer("cancelled", public=True)
    held: list[weakref.ref[Held]] = []
    started = asyncio.Event()

    @server.tool
    async def wait() -> None:
        local = Held()
        held.append(weakref.ref(local))
        started.set()
        await asyncio.Event().wait()

    gc.disable()
    try:
        with override_settings(DEBUG=debug):
            task = asyncio.create_task(server.acall_tool("wait", {}))
            await started.wait()
            task.cancel()
            with pytest.raises((asyncio.CancelledError, MCPError)):
                await task
        del task
        await asyncio.sleep(0)
        assert held[0]() is None
    finally:
        gc.enable()


class Held:
    """Something that must not outlive its handler."""
