"""End streams when the process is told to stop: ASGI servers wait for them, and tell them nothing."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

from django_mcp.server.streams.stream import Ending

if TYPE_CHECKING:
    from django_mcp.server.services.services import ServerHub

__all__ = ["chain_signals", "close_hub"]

logger = logging.getLogger("django_mcp")

GRACE_S = 2.0
"""How long streams may take to end before the server gets the signal as well."""

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class _Link:
    """Stands before the handler of a signal that was there, and calls it when streams are closed."""

    def __init__(self, hub: ServerHub, previous: Any) -> None:
        self._hub = hub
        self._previous = previous

    def __call__(self, number: int, frame: Any) -> None:
        hub = self._hub
        loop = hub.loop
        if hub.is_closing or loop is None or not loop.is_running() or not _is_busy(hub):
            self._pass_on(number, frame)
            return
        hub.is_closing = True
        loop.call_soon_threadsafe(self._begin, loop, number)

    def _begin(self, loop: asyncio.AbstractEventLoop, number: int) -> None:
        logger.info("Closing %d streams", len(self._hub.streams))
        self._hub.end_streams(Ending.SHUTDOWN)
        preparing = loop.create_task(self._hub.prepare_to_stop())
        self._wait(loop, loop.time() + GRACE_S, number, preparing)

    def _wait(
        self,
        loop: asyncio.AbstractEventLoop,
        until_s: float,
        number: int,
        preparing: asyncio.Task[None],
    ) -> None:
        is_waiting = self._hub.streams or not preparing.done()
        if is_waiting and loop.time() < until_s:
            loop.call_later(0.05, self._wait, loop, until_s, number, preparing)
        else:
            # What they said last is on its way out.
            loop.call_later(0.1, self._pass_on, number, None)

    def _pass_on(self, number: int, frame: Any) -> None:
        if callable(self._previous):
            self._previous(number, frame)
        elif self._previous == signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


def _is_busy(hub: ServerHub) -> bool:
    return bool(hub.streams or hub.on_stop)


def chain_signals(hub: ServerHub) -> None:
    """Have the streams of a hub end when the process is told to stop, before its server does.

    Only in the main thread: elsewhere no handler can be set, and the process's end is not ours.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in SIGNALS:
        previous = signal.getsignal(number)
        # One that was not set from Python cannot be called; an ignored signal stays ignored.
        if previous is None or previous is signal.SIG_IGN or isinstance(previous, _Link):
            continue
        signal.signal(number, _Link(hub, previous))


async def close_hub(hub: ServerHub) -> None:
    """Close what is open, for an application that is told of its end."""
    if hub.loop is asyncio.get_running_loop():
        hub.is_closing = True
        await hub.stop()
