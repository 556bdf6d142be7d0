"""Turns: one long step of a call at a time on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from django_mcp.server.exchange.call import Call
    from django_mcp.server.services.ports import HandlerScope

__all__ = ["Turns"]

T = TypeVar("T")


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
