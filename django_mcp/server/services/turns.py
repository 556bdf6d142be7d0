"""Turns: one long step of a call at a time on an event loop; and what a call gets that has no thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

from django_mcp.protocol.errors import INTERNAL_ERROR, Refusal
from django_mcp.server.services.ports import StoreUnavailable

if TYPE_CHECKING:
    from django_mcp.server.exchange.call import Call
    from django_mcp.server.services.ports import HandlerScope

__all__ = ["BUSY", "NoThread", "Turns"]

T = TypeVar("T")

BUSY = "The server is busy with other calls: try again later"
_NO_THREAD = Refusal(
    code=INTERNAL_ERROR,
    message="The server is busy with other calls, and this one was not begun: try again",
    status=503,
    headers=((b"retry-after", b"2"),),
)


class NoThread(StoreUnavailable):
    """A call had no thread for as long as it may wait, or may not wait since too many do."""

    def to_refusal(self) -> Refusal:
        """Return what tells the client to try again."""
        return _NO_THREAD


class Turns:
    """Let one long check run at a time on an event loop.

    Several at once would end no sooner, since they share the interpreter's lock, and each would
    delay everything else.
    """

    def __init__(self) -> None:
        # Under WSGI each request has an event loop of its own.
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )

    async def run(self, scope: HandlerScope, call: Call, function: Callable[[], T]) -> T:
        """Return what a function returns, which runs in a thread when it is its turn."""
        lock = self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with lock:
            return await scope.run(function, call)
