"""SiteBus: carries the hub's messages the way the settings say, between all processes of the site."""

from __future__ import annotations

import asyncio
import logging
import os
import time
import uuid
from collections.abc import Callable
from typing import Any

from django.core.signals import setting_changed

from django_mcp.protocol.json import JSONObject, decode, encode
from django_mcp.push.choice import choose_bus
from django_mcp.server.interfaces import Bus
from django_mcp.server.memory_state import LocalBus

__all__ = ["MAX_MESSAGE_BYTES", "SiteBus", "Warner", "pack", "unpack"]

logger = logging.getLogger("django_mcp")

MAX_MESSAGE_BYTES = 64 * 1024
"""Of one message between processes; a larger one is dropped, with a line in the log. Ours."""


class SiteBus:
    """The bus of the process's hub. What it leads to is chosen when first needed."""

    def __init__(self) -> None:
        self.is_wanted: Callable[[], bool] = lambda: True
        """Whether anything here could have use for a message."""
        self._bus: Bus | None = None
        setting_changed.connect(self._forget, weak=False)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._drop)

    @property
    def is_shared(self) -> bool:
        """Whether it reaches other processes."""
        return self._current.is_shared

    async def send(self, message: JSONObject) -> None:
        """See `Bus.send`."""
        await self._current.send(message)

    def send_now(self, message: JSONObject) -> None:
        """See `Bus.send_now`."""
        try:
            self._current.send_now(message)
        except Exception as error:  # noqa: BLE001 - what the bus raises is its library's business
            logger.warning("Could not reach the other processes: %r", error)

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

            return LayerBus()
        if kind == "database":
            from django_mcp.push.database_bus import DatabaseBus

            return DatabaseBus(self.is_wanted)
        return LocalBus()

    def _forget(self, *, setting: str, **_kwargs: Any) -> None:
        if setting in ("DJANGO_MCP", "CHANNEL_LAYERS", "DATABASES"):
            self._drop()

    def _drop(self) -> None:
        self._bus = None


class Warner:
    """Log the same trouble once in a while, however often it comes."""

    def __init__(self, every_s: float = 60.0) -> None:
        self._every_s = every_s
        self._next_s = 0.0

    def warn(self, text: str, error: object) -> None:
        """Log a trouble, unless that was done a short time ago."""
        now = time.monotonic()
        if now >= self._next_s:
            self._next_s = now + self._every_s
            logger.warning(text, error)

    def reset(self) -> None:
        """Take note that all is well again."""
        self._next_s = 0.0


_oversized = Warner()


def pack(message: JSONObject) -> str | None:
    """Return a message as it travels; None when it is too large to."""
    packed = encode(message)
    if len(packed) > MAX_MESSAGE_BYTES:
        _oversized.warn(
            "Dropped a message to other processes that is too large: %s", message["kind"]
        )
        return None
    return packed.decode()


def unpack(body: Any) -> JSONObject | None:
    """Return a message that came; None when it is none of ours."""
    if not isinstance(body, str) or len(body) > MAX_MESSAGE_BYTES:
        return None
    try:
        found = decode(body.encode())
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


_process_id = uuid.uuid4().hex


def process_id() -> str:
    """Return what tells this process's messages from those of others."""
    return _process_id


def _renew() -> None:
    global _process_id
    _process_id = uuid.uuid4().hex


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def has_running_loop() -> bool:
    """Tell whether this thread runs an event loop, which must not be kept waiting."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
