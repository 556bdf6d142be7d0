"""How long the thread of a synchronous handler waits for a client to read what it sends ahead of the response."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any

from django_mcp.log import logger

PATIENCE_S = 1.0
"""How long a thread waits for a client that does not read, in all of a call. Not a limit of the protocol."""


QUICK_S = 0.05
"""A message that is sent within this time does not count, and the client is not slow any more."""


class Patience:
    """Sends the notifications of a synchronous handler, and waits for a slow client for a limited time.

    A client must not keep the threads of a site by not reading. When it has kept one for `PATIENCE_S`, the
    thread goes on after `QUICK_S`, and notifications that come while one is unread are dropped.
    """

    def __init__(self) -> None:
        self._waited_s = 0.0
        self._has_begun = False
        self._unread: Future[None] | None = None

    def send(self, sending: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> None:
        """Have a loop send a notification, and wait until the client has read it, within the limit."""
        if self._unread is not None and not self._unread.done():
            sending.close()
            return
        self._unread = None
        self._has_begun = False
        sent = asyncio.run_coroutine_threadsafe(self._measure(sending, loop), loop)
        while True:
            try:
                sent.result(max(PATIENCE_S - self._waited_s, QUICK_S))
            except TimeoutError:
                if sent.done():
                    # It has ended at this moment, or failed by this exception.
                    sent.result()
                elif not self._has_begun:
                    # The time in which the loop does other work is not the client's.
                    continue
                else:
                    self._unread = sent
                    sent.add_done_callback(_log_failure)
            return

    async def _measure(
        self, sending: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._has_begun = True
        begun_s = loop.time()
        try:
            await sending
        finally:
            took_s = loop.time() - begun_s
            self._waited_s = 0.0 if took_s < QUICK_S else self._waited_s + took_s


def _log_failure(sent: Future[None]) -> None:
    if not sent.cancelled() and sent.exception() is not None:
        logger.warning("Cannot send a notification", exc_info=sent.exception())
