"""Bus: the port that carries messages between the hubs of all processes of a site."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from django_mcp.protocol.json import JSONObject

__all__ = ["Bus"]


class Bus(Protocol):
    """Carries messages between the hubs of all processes that serve the site."""

    @property
    def is_shared(self) -> bool:
        """Whether it reaches other processes."""
        ...

    async def send(self, *messages: JSONObject) -> None:
        """Send messages to the hub of every other process, together. May lose one, never twice.

        What it raises, it has logged.
        """
        ...

    def send_now(self, message: JSONObject) -> None:
        """Send a message from any thread, where no event loop of the hub's runs."""
        ...

    def start(self, receive: Callable[[JSONObject], None]) -> None:
        """Call `receive` on the running event loop with each message from other processes.

        Where messages may have been lost, it is called with one of the kind `missed`.
        """
        ...

    async def ready(self) -> None:
        """Wait a moment, if need be, until messages are received."""
        ...

    async def stop(self) -> None:
        """Receive no longer."""
        ...
