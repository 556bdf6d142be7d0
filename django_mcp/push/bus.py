"""SiteBus: carries the hub's messages the way the settings say, between all processes of the site."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from django.core.signals import setting_changed

from django_mcp.protocol.json import JSONObject
from django_mcp.push.bus_choice import choose_bus
from django_mcp.server.memory.state import LocalBus
from django_mcp.server.streams.bus import Bus
from django_mcp.server.streams.outage import OutageLog

__all__ = ["SiteBus"]


class SiteBus:
    """The bus of the process's hub. What it leads to is chosen when first needed."""

    def __init__(self) -> None:
        self.is_wanted: Callable[[], bool] = lambda: True
        """Whether anything here could have use for a message."""
        self._bus: Bus | None = None
        self._outage = _new_outage()
        setting_changed.connect(self._forget, weak=False)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._drop)

    @property
    def is_shared(self) -> bool:
        """Whether it reaches other processes."""
        return self._current.is_shared

    async def send(self, *messages: JSONObject) -> None:
        """See `Bus.send`."""
        try:
            await self._current.send(*messages)
        except Exception as error:
            self._outage.failed(error)
            raise
        self._outage.worked()

    def send_now(self, message: JSONObject) -> None:
        """See `Bus.send_now`."""
        try:
            self._current.send_now(message)
        except Exception as error:  # noqa: BLE001 - what the bus raises is its library's business
            self._outage.failed(error)
        else:
            self._outage.worked()

    def start(self, receive: Callable[[JSONObject], None]) -> None:
        """See `Bus.start`."""
        self._current.start(receive)

    async def ready(self) -> None:
        """See `Bus.ready`."""
        await self._current.ready()

    async def stop(self) -> None:
        """See `Bus.stop`."""
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

    def _forget(self, *, setting: str, **_kwargs: Any) -> None:
        if setting in ("DJANGO_MCP", "CHANNEL_LAYERS", "DATABASES"):
            self._drop()

    def _drop(self) -> None:
        self._bus = None
        self._outage = _new_outage()


def _new_outage() -> OutageLog:
    return OutageLog("Could not reach the other processes")
