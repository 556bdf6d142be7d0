"""Messenger: messages between this process and the others that serve the site."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from django_mcp.protocol.json import JSONObject
from django_mcp.server.streams.outage import OutageLog
from django_mcp.server.streams.outbox import Outbox

if TYPE_CHECKING:
    from django_mcp.server.streams.bus import Bus

__all__ = ["Messenger"]

logger = logging.getLogger("django_mcp")

FLUSH_S = 1.0


class Messenger:
    """Sends messages to the other processes, and passes received ones to their handlers.

    Attributes:
        bus: carries the messages.
        loop: the event loop it lives on; None until first used.
    """

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.loop: asyncio.AbstractEventLoop | None = None
        self._handlers: dict[str, Callable[[JSONObject], None]] = {}
        self._outbox = Outbox(self.send)
        self._bad_messages = OutageLog("Could not take a message of another process")

    @property
    def is_running(self) -> bool:
        """Whether it lives on an event loop that runs."""
        return self.loop is not None and self.loop.is_running()

    def on(self, kind: str, handler: Callable[[JSONObject], None]) -> None:
        """Have `handler` called with each message of a kind from another process."""
        self._handlers[kind] = handler

    def receive(self, message: JSONObject) -> None:
        """Take a message of another process."""
        kind = message.get("kind")
        handler = self._handlers.get(kind) if type(kind) is str else None
        if handler is None:
            return
        try:
            handler(message)
        except Exception as error:  # noqa: BLE001 - whatever it says, the next one is taken
            self._bad_messages.failed(error)

    def tell(self, kind: str, **message: Any) -> None:
        """Send word to the other processes, without waiting for it to go out."""
        loop = asyncio.get_running_loop()
        if self.loop is not loop:
            # Under WSGI a loop lasts for one request, and a task of it no longer.
            self.bus.send_now({"kind": kind, **message})
            return
        if self.bus.is_shared:
            self._outbox.put({"kind": kind, **message})

    async def flush(self) -> None:
        """Wait until what was told on this event loop has gone out, for a second at most."""
        if self.loop is asyncio.get_running_loop():
            with suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_S):
                    await self._outbox.flush()

    async def send(self, *messages: JSONObject) -> bool:
        """Send messages to the other processes; return whether they have gone out.

        The bus logs why they could not.
        """
        try:
            await self.bus.send(*messages)
        except Exception as error:  # noqa: BLE001 - what the bus raises is its library's business
            # The store is the truth: a process that misses this finds it there within seconds.
            logger.debug("Could not reach the other processes: %r", error)
            return False
        return True

    def forget_messages(self) -> None:
        """Drop what waits to be sent: it belongs to another event loop, or to the parent process."""
        self.loop = None
        self._outbox = Outbox(self.send)
