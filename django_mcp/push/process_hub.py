"""The hub of this process, which all of a site's servers share, from its start to the end of the process.

When the process is told to stop, the streams are ended first: ASGI servers wait for them without ending
them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from typing import Any

from django_mcp.auth.verdicts import knows_any
from django_mcp.process import reset_on
from django_mcp.push.bus import SiteBus
from django_mcp.server.services.services import ServerHub
from django_mcp.server.streams.hub import Hub
from django_mcp.server.streams.stream import Ending
from django_mcp.server.streams.upkeep import maintain_streams

logger = logging.getLogger("django_mcp")

GRACE_S = 2.0
"""How long streams may take to end before the server gets the signal as well."""

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class _Link:
    """A signal handler that calls the previous one when the streams of a hub have ended."""

    def __init__(self, hub: ServerHub, previous: Any) -> None:
        self._hub = hub
        self._previous = previous

    def __call__(self, number: int, frame: Any) -> None:
        hub, loop = self._hub, self._hub.loop
        is_idle = not (hub.streams or hub.on_stop)
        if hub.is_closing or loop is None or not loop.is_running() or is_idle:
            self._pass_on(number, frame)
            return
        hub.is_closing = True
        loop.call_soon_threadsafe(lambda: hub.spawn(self._close(number)))

    async def _close(self, number: int) -> None:
        hub, loop = self._hub, asyncio.get_running_loop()
        logger.info("Closing %d streams", len(hub.streams))
        hub.end_streams(Ending.SHUTDOWN)
        preparing, until_s = hub.spawn(hub.prepare_to_stop()), loop.time() + GRACE_S
        while (hub.streams or not preparing.done()) and loop.time() < until_s:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        # The last messages are being sent. The handler must not run in a task: it may raise.
        loop.call_later(0.1, self._pass_on, number, None)

    def _pass_on(self, number: int, frame: Any) -> None:
        if callable(self._previous):
            self._previous(number, frame)
        elif self._previous == signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


def chain_signals(hub: ServerHub) -> None:
    """When the process is told to stop, end the streams of a hub before the server stops.

    Only in the main thread: in others no signal handler can be set.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in SIGNALS:
        previous = signal.getsignal(number)
        # A handler that was not set from Python cannot be called; an ignored signal stays ignored.
        if previous is None or previous is signal.SIG_IGN or isinstance(previous, _Link):
            continue
        signal.signal(number, _Link(hub, previous))


async def close_hub(hub: ServerHub) -> None:
    """Close what is open, when the application ends."""
    if hub.loop is asyncio.get_running_loop():
        hub.is_closing = True
        await hub.stop()


def _make() -> ServerHub:
    bus = SiteBus()
    hub: ServerHub = Hub(bus)
    maintain_streams(hub)
    # What is remembered of a key must not outlive it for long, though nothing is open.
    bus.is_wanted = lambda: hub.is_busy or knows_any("api-key")
    hub.on_start.append(chain_signals)
    return hub


_hub = _make()


def process_hub() -> ServerHub:
    """Return the hub of this process. It begins to live with the first stream or session call."""
    return _hub


# Servers hold on to it, so it is the same object in the child of a fork, empty.
reset_on(_hub.reset, fork=True)
