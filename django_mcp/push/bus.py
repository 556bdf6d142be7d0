"""SiteBus: sends the hub's messages between all processes of the site, in the way the settings select."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.conf import settings as site_settings

from django_mcp.conf import settings
from django_mcp.execution.outages import report_unmigrated
from django_mcp.process import reset_on
from django_mcp.protocol.json import JSONObject
from django_mcp.server.exchange.timers import find_running_loop
from django_mcp.server.memory.state import LocalBus
from django_mcp.server.streams.messenger import Bus, OutageLog

MAX_LEFT = 10_000
"""Messages that wait for the thread; when there are more, the oldest are dropped. Our own limit."""


class SiteBus:
    """The bus of the process's hub. It is chosen when first needed."""

    def __init__(self) -> None:
        self.is_wanted: Callable[[], bool] = lambda: True
        """Whether messages can concern anything here."""
        self._drop()
        reset_on(self._drop, settings=("DJANGO_MCP", "CHANNEL_LAYERS", "DATABASES"), fork=True)

    def _drop(self) -> None:
        self._bus: Bus | None = None
        self._outage = _Outage("Could not reach the other processes")
        self._lock = threading.Lock()
        self._left: deque[JSONObject] = deque(maxlen=MAX_LEFT)
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
            self._bus = self._make()
        return self._bus

    def _make(self) -> Bus:
        kind = choose_bus()
        if kind == "layer":
            from django_mcp.push.layer_bus import LayerBus

            return LayerBus(self._outage)
        if kind == "database":
            from django_mcp.push.database_bus import DatabaseBus

            return DatabaseBus(self.is_wanted, self._outage)
        return LocalBus()


class _Outage(OutageLog):
    def failed(self, error: object) -> None:
        if not report_unmigrated(error):
            super().failed(error)


IN_MEMORY = "channels.layers.InMemoryChannelLayer"


def choose_bus() -> str:
    """Return `layer`, `database` or `local`: the value of `PUSH_BUS`, or the best one available."""
    if settings.PUSH_BUS != "auto":
        return settings.PUSH_BUS
    if has_shared_layer():
        return "layer"
    if settings.SESSION_STORE != "model" or not _has_shared_database():
        return "local"
    return "database"


def has_shared_layer() -> bool:
    """Return whether there is a channel layer that more than one process can reach."""
    layers: dict[str, Any] = getattr(site_settings, "CHANNEL_LAYERS", None) or {}
    return bool(layers.get("default", {}).get("BACKEND", IN_MEMORY) != IN_MEMORY)


def _has_shared_database() -> bool:
    # Loads the machinery of models, which importing a server must not.
    from django.db import router

    from django_mcp.execution.db_connections import is_shared_database
    from django_mcp.models.sessions import BusMessage

    return is_shared_database(router.db_for_write(BusMessage))
