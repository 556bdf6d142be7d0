"""Back-pressure for Daphne, whose `send` never waits for a slow client.

Daphne writes everything to Twisted, which buffers what the client has not read. Twisted asks the
registered producer to pause when its buffer is full (64 KiB), and to resume when it is empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

__all__ = ["wait_for_room"]


def wait_for_room(send: Callable[[Any], Awaitable[None]]) -> Callable[[Any], Awaitable[None]]:
    """Return a `send` for one streamed response that waits while the client is slow.

    It is the same `send` on servers whose own `send` waits, and on Daphne if a middleware wraps
    Daphne's `send`, because the Twisted request behind it cannot be found.
    """
    if type(send) is not partial or not send.args:
        return send
    request = send.args[0]
    if not callable(getattr(request, "registerProducer", None)):
        return send
    return _Producer(send, request)


class _Producer:
    """Send the messages of one response as a push producer of Twisted (`IPushProducer`)."""

    def __init__(self, send: Callable[[Any], Awaitable[None]], request: Any) -> None:
        self._send = send
        self._request = request
        self._is_registered = False
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def __call__(self, message: Any) -> None:
        """Send a message, and return when there is room for more."""
        if message["type"] == "http.response.start":
            self._register()
        elif not message.get("more_body"):
            # Nothing that has to wait follows, and Twisted requires this before the end.
            self._unregister()
        await self._send(message)
        await self._has_room.wait()

    def _register(self) -> None:
        # A closed connection has no channel.
        if self._request.channel is not None and self._request.producer is None:
            self._request.registerProducer(self, True)
            self._is_registered = True

    def _unregister(self) -> None:
        if self._is_registered and self._request.channel is not None:
            self._request.unregisterProducer()
        self._is_registered = False
        self._has_room.set()

    def pauseProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Make senders wait."""
        self._has_room.clear()

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Let senders continue."""
        self._has_room.set()

    def stopProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Let senders continue: the connection is closed, and what is sent now is dropped."""
        self._is_registered = False
        self._has_room.set()
