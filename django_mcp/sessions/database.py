"""The way to the database from the event loop: in a thread, and not at all while it is down."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from django.db import InterfaceError, OperationalError, ProgrammingError

from django_mcp.handlers.threads import run_in_pool
from django_mcp.server.interfaces import StoreUnavailable

__all__ = ["ask_database"]

logger = logging.getLogger("django_mcp")

T = TypeVar("T")

TIMEOUT_S = 5.0
"""How long a request waits for what a session needs of the database. Ours."""

PAUSE_S = 1.0
"""After a failure, how long the next requests are refused without asking. Ours."""


_DOWN = (InterfaceError, OperationalError, ProgrammingError)


class _Breaker:
    """Remembers that the database is down, and lets one request at a time find out whether it is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Under WSGI each request has an event loop of its own, in a thread of its own.
        self._retry_s: float | None = None
        self._is_probing = False

    @property
    def is_down(self) -> bool:
        return self._retry_s is not None

    def enter(self) -> bool:
        """Tell whether the caller may ask; it has to say then how that went."""
        retry_s = self._retry_s
        if retry_s is None:
            return True
        with self._lock:
            may_probe = not self._is_probing and time.monotonic() >= retry_s
            self._is_probing |= may_probe
            return may_probe

    def succeed(self) -> None:
        if self._retry_s is not None:
            logger.warning("The database of the sessions answers again")
            self._retry_s, self._is_probing = None, False

    def fail(self, error: Exception) -> None:
        if self._retry_s is None:
            logger.error("The database of the sessions does not answer: %r", error)
        self._retry_s, self._is_probing = time.monotonic() + PAUSE_S, False

    def leave(self) -> None:
        self._is_probing = False


_breaker = _Breaker()


async def ask_database(function: Callable[[], T]) -> T:
    """Run `function` in a thread, with usable connections, and return what it returns.

    Raises:
        StoreUnavailable: the database does not answer, has no tables of ours, or is too slow.
    """
    breaker = _breaker
    if not breaker.enter():
        raise StoreUnavailable
    is_probe = breaker.is_down

    def ask() -> T:
        # It may have gone down while this waited for a thread.
        if breaker.is_down and not is_probe:
            raise StoreUnavailable
        try:
            return function()
        except _DOWN as error:
            # Said here, since those that wait for this thread come before the event loop.
            breaker.fail(error)
            raise

    try:
        async with asyncio.timeout(TIMEOUT_S):
            found = await run_in_pool(ask)
    except StoreUnavailable:
        raise
    except (*_DOWN, TimeoutError) as error:
        breaker.fail(error)
        raise StoreUnavailable from error
    except BaseException:
        breaker.leave()
        raise
    breaker.succeed()
    return found
