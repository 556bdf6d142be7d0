"""The hub of this process, which all of a site's servers share, and its bus to the hubs of the other processes.

When the process is to end, the streams are ended first: ASGI servers wait for them without ending them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django_mcp.auth.authenticator import knows_any
from django_mcp.conf import settings
from django_mcp.execution.outages import report_unmigrated
from django_mcp.log import logger
from django_mcp.process import reset_on
from django_mcp.protocol.json import JSONObject
from django_mcp.push.layers import describe_layer, has_shared_layer
from django_mcp.push.web_servers import find_ending
from django_mcp.server.exchange.timers import find_running_loop
from django_mcp.server.services import ServerHub
from django_mcp.server.streams.hub import Hub
from django_mcp.server.streams.messenger import Bus, LocalBus, OutageLog
from django_mcp.server.streams.stream import Ending
from django_mcp.server.streams.upkeep import maintain_streams

GRACE_S = 2.0
"""How long streams may take to end before the server gets the signal as well."""

LOOK_EVERY_S = 0.4
"""How often a process looks whether its server is about to end it."""

MAX_DEFERRED = 10_000
"""Messages that wait for the thread; when there are more, the oldest are dropped."""


_UNREACHABLE = "Could not reach the other processes"


class SiteBus:
    """The bus of the process's hub. It is chosen when first needed."""

    def __init__(self) -> None:
        self.is_wanted: Callable[[], bool] = lambda: True
        """Whether messages can concern anything here."""
        self._drop()
        reset_on(self._drop, settings=("DJANGO_MCP", "CHANNEL_LAYERS", "DATABASES"), fork=True)

    def _drop(self) -> None:
        self._bus: Bus | None = None
        self._outage = _Outage(_UNREACHABLE)
        self._lock = threading.Lock()
        self._left: deque[JSONObject] = deque(maxlen=MAX_DEFERRED)
        self._thread: ThreadPoolExecutor | None = None

    @property
    def is_shared(self) -> bool:
        """Whether it reaches other processes."""
        return self._current.is_shared

    async def send(self, *messages: JSONObject) -> None:
        try:
            await self._current.send(*messages)
        except Exception as error:
            self._outage.failed(error)
            raise
        self._outage.worked()

    def send_now(self, *messages: JSONObject) -> None:
        if find_running_loop() is None:
            self._send_blocking(messages)
            return
        with self._lock:
            is_first = not self._left
            self._left.extend(messages)
            self._thread = self._thread or ThreadPoolExecutor(1, "django-mcp-bus")
        if is_first:
            # The thread sends together what has come by then.
            self._thread.submit(self._send_left)

    def _send_left(self) -> None:
        from django_mcp.execution.db_connections import run_with_connections

        with self._lock:
            messages = tuple(self._left)
            self._left.clear()
        run_with_connections(lambda: self._send_blocking(messages))

    def _send_blocking(self, messages: tuple[JSONObject, ...]) -> None:
        try:
            self._current.send_now(*messages)
        except Exception as error:  # noqa: BLE001 - any error of the library behind the bus
            self._outage.failed(error)
        else:
            self._outage.worked()

    def start(self, receive: Callable[[JSONObject], None]) -> asyncio.Event | None:
        return self._current.start(receive)

    async def stop(self) -> None:
        await self._current.stop()

    @property
    def _current(self) -> Bus:
        if self._bus is None:
            kind = choose_bus()
            if kind == "layer":
                from django_mcp.push.layer_bus import LayerBus

                self._outage = _Outage(
                    f"{_UNREACHABLE} by the channel layer of CHANNEL_LAYERS, {describe_layer()}, so that "
                    "notifications between them are late or lost"
                )
                self._bus = LayerBus(self._outage)
            elif kind == "database":
                from django_mcp.push.database_bus import DatabaseBus

                self._bus = DatabaseBus(self.is_wanted, self._outage)
            else:
                self._bus = LocalBus()
        return self._bus


class _Outage(OutageLog):
    def failed(self, error: object) -> None:
        if not report_unmigrated(error):
            super().failed(error)


def choose_bus() -> str:
    """Return `layer`, `database` or `local`: the value of `PUSH_BUS`, or the best one available."""
    if settings.PUSH_BUS != "auto":
        return settings.PUSH_BUS
    if has_shared_layer():
        return "layer"
    if settings.SESSION_STORE != "model":
        return "local"
    # Loads `django.db`, which importing a server must not.
    from django.db import router

    from django_mcp.execution.db_connections import is_shared_database
    from django_mcp.models.sessions import BusMessage

    return "database" if is_shared_database(router.db_for_write(BusMessage)) else "local"


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
        await end_streams(self._hub)
        # The last messages are being sent. The handler must not run in a task: it may raise.
        asyncio.get_running_loop().call_later(0.1, self._pass_on, number, None)

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
    for number in (signal.SIGTERM, signal.SIGINT):
        previous = signal.getsignal(number)
        # A handler that was not set from Python cannot be called; an ignored signal stays ignored.
        if previous is None or previous is signal.SIG_IGN or isinstance(previous, _Link):
            continue
        signal.signal(number, _Link(hub, previous))


async def end_streams(hub: ServerHub) -> None:
    """End the streams of a hub and let it prepare for the end of the process, which takes `GRACE_S` at most."""
    hub.is_closing = True
    if hub.streams:
        logger.info("Closing %d streams", len(hub.streams))
    hub.end_streams(Ending.SHUTDOWN)
    preparing = hub.spawn(hub.prepare_to_stop())
    until_s = time.monotonic() + GRACE_S
    while (hub.streams or not preparing.done()) and time.monotonic() < until_s:  # noqa: ASYNC110
        await asyncio.sleep(0.05)


async def close_hub(hub: ServerHub) -> None:
    """Close what is open, when the application ends."""
    if hub.loop is asyncio.get_running_loop():
        await end_streams(hub)
        await hub.stop()


def watch_server(hub: ServerHub) -> None:
    """End the streams of a hub when its server ends its process without a signal, as to replace it."""
    is_ending = find_ending()
    if is_ending is not None:
        hub.spawn(_watch(hub, is_ending))


async def _watch(hub: ServerHub, is_ending: Callable[[], bool]) -> None:
    loop = asyncio.get_running_loop()
    while hub.loop is loop and not hub.is_closing:
        if hub.streams and is_ending():
            await end_streams(hub)
        await asyncio.sleep(LOOK_EVERY_S)


_bus = SiteBus()
_hub: ServerHub = Hub(_bus)
maintain_streams(_hub)
# What is remembered of a key must not outlive it for long, though nothing is open.
_bus.is_wanted = lambda: _hub.is_busy or knows_any("api-key")
_hub.on_start += (chain_signals, watch_server)


def process_hub() -> ServerHub:
    """Return the hub of this process. It begins to live with the first stream or session call."""
    return _hub


# Servers hold on to it, so it is the same object in the child of a fork, empty.
reset_on(_hub.reset, fork=True)
