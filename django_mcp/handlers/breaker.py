"""A breaker: while a database is down, it is asked by one at a time, once in a while."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from django.db import InterfaceError, OperationalError

from django_mcp.server.services.ports import StoreUnavailable

__all__ = ["DOWN", "Breaker"]

logger = logging.getLogger("django_mcp")

T = TypeVar("T")

PAUSE_S = 1.0
"""After a failure, how long the next requests are refused without asking. Our own limit."""

DOWN: tuple[type[Exception], ...] = (InterfaceError, OperationalError)
"""What a database raises that does not answer."""


class Runner(Protocol):
    """Runs a function in a thread, with usable connections."""

    def __call__(self, function: Callable[[], T]) -> Awaitable[T]: ...


class Breaker:
    """Remembers that a database is down, and lets one request at a time find out whether it is.

    Args:
        subject: what does not answer, for the log.
        timeout_s: how long a request waits for an answer.
        errors: what counts as no answer.
    """

    def __init__(
        self, subject: str, *, timeout_s: float, errors: tuple[type[Exception], ...] = DOWN
    ) -> None:
        self._subject = subject
        self._timeout_s = timeout_s
        self._errors = errors
        self._lock = threading.Lock()
        # Under WSGI each request has an event loop of its own, in a thread of its own.
        self._retry_s: float | None = None
        self._is_probing = False

    async def run(self, function: Callable[[], T], runner: Runner) -> T:
        """Run `function` by `runner`, and return what it returns.

        Raises:
            StoreUnavailable: there is no answer, or it takes too long.
        """
        if not self._enter():
            raise StoreUnavailable
        is_probe = self._is_down

        def ask() -> T:
            # It may have gone down while this waited for a thread.
            if self._is_down and not is_probe:
                raise StoreUnavailable
            try:
                return function()
            except self._errors as error:
                # Said here, since those that wait for this thread come before the event loop.
                self._fail(error)
                raise

        away: tuple[type[Exception], ...] = (*self._errors, TimeoutError)
        try:
            async with asyncio.timeout(self._timeout_s):
                found = await runner(ask)
        except StoreUnavailable:
            raise
        except away as error:
            self._fail(error)
            raise StoreUnavailable from error
        except BaseException:
            self._leave()
            raise
        self._succeed()
        return found

    @property
    def _is_down(self) -> bool:
        return self._retry_s is not None

    def _enter(self) -> bool:
        """Return whether the caller may query; it then has to report the outcome."""
        retry_s = self._retry_s
        if retry_s is None:
            return True
        with self._lock:
            may_probe = not self._is_probing and time.monotonic() >= retry_s
            self._is_probing |= may_probe
            return may_probe

    def _succeed(self) -> None:
        if self._retry_s is not None:
            logger.warning("%s answers again", self._subject)
            self._retry_s, self._is_probing = None, False

    def _fail(self, error: Exception) -> None:
        if self._retry_s is None:
            logger.error("%s does not answer: %r", self._subject, error)
        self._retry_s, self._is_probing = time.monotonic() + PAUSE_S, False

    def _leave(self) -> None:
        self._is_probing = False
