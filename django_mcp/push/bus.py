"""SiteBus: carries the hub's messages the way the settings say, between all processes of the site."""

from __future__ import annotations

import asyncio
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from django.core.signals import setting_changed

from django_mcp.protocol.json import JSONObject, decode, encode
from django_mcp.push.bus_choice import choose_bus
from django_mcp.server.memory.state import LocalBus
from django_mcp.server.services.ports import Bus
from django_mcp.server.streams.outage import OutageLog

__all__ = ["MAX_MESSAGE_BYTES", "SiteBus", "Warner", "hand_over", "pack", "unpack"]

logger = logging.getLogger("django_mcp")

MAX_MESSAGE_BYTES = 64 * 1024
"""Of one text between processes. A message that does not fit is dropped, with a line in the log. Ours."""

SLICE = 64
"""Messages that are taken at once, before other work of the event loop has its turn. Ours."""


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


_oversized = Warner()


def pack(messages: Iterable[JSONObject]) -> list[str]:
    """Return messages as they travel: in as few texts of `MAX_MESSAGE_BYTES` as they fit into.

    A message that does not fit into one by itself is dropped.
    """
    texts: list[str] = []
    parts: list[bytes] = []
    size_bytes = 0
    for message in messages:
        part = encode(message)
        if len(part) + 2 > MAX_MESSAGE_BYTES:
            _oversized.warn(
                "Dropped a message to other processes that is too large: %s", message["kind"]
            )
            continue
        if size_bytes + len(part) + 2 > MAX_MESSAGE_BYTES:
            texts.append(f"[{b','.join(parts).decode()}]")
            parts, size_bytes = [], 0
        parts.append(part)
        size_bytes += len(part) + 1
    if parts:
        texts.append(f"[{b','.join(parts).decode()}]")
    return texts


def unpack(body: Any) -> list[JSONObject]:
    """Return the messages in a text that came; none when it is not one of ours."""
    if not isinstance(body, str) or len(body) > MAX_MESSAGE_BYTES:
        return []
    try:
        found = decode(body.encode())
    except ValueError:
        return []
    messages = found if isinstance(found, list) else [found]
    return [each for each in messages if isinstance(each, dict)]


async def hand_over(body: Any, receive: Callable[[JSONObject], None]) -> None:
    """Call `receive` with each message in a text; streams are written to in between."""
    for number, message in enumerate(unpack(body)):
        receive(message)
        if number % SLICE == SLICE - 1:
            await asyncio.sleep(0)


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
