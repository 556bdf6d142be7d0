"""The outbox: messages to the other processes, from when they are told until they have gone out.

Change notices say "read this again". So they are merged while they wait, go out in any order, and
are tried again when the bus fails. All other messages go out in order, and once at most.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import count, islice
from typing import Any

from django_mcp.protocol.json import JSONObject

__all__ = ["Outbox"]

logger = logging.getLogger("django_mcp")

MAX_NOTICES = 10_000
"""Changes that wait to go out. When there are more, one message for all resources replaces them. Our own limit."""

MAX_OTHERS = 2000
"""Other messages that wait to go out. More are dropped, with a line in the log. Our own limit."""

BATCH = 500
"""Messages that are handed to the bus at once. Our own limit."""

NOTICE_BATCHES = 4
"""Batches of change notices that are on their way at once. Our own limit."""

PACE_S = 0.02
"""Time from one batch to the next. A layer keeps few messages for each process, whatever their size. Our own limit."""

RETRY_S = 0.5
"""How long change notices wait after the bus has failed. Our own limit."""

Send = Callable[..., Awaitable[bool]]
"""Sends messages to the other processes, and returns whether it could."""


class Outbox:
    """Messages to the other processes that have not gone out yet. It lives on one event loop.

    Args:
        send: hands messages to the bus.
    """

    def __init__(self, send: Send) -> None:
        self._notices = _Lane(send, NOTICE_BATCHES, is_retried=True)
        self._others = _Lane(send, 1, is_retried=False)
        self._numbers = count()
        self._dropped = 0

    def put_notice(self, server: str, list_name: str | None, uri: str | None) -> None:
        """Tell of a changed list or resource. One that waits already is not added again.

        When too many resources wait, one message replaces them: any resource may have changed.
        """
        waiting = self._notices.waiting
        key, any_resource = (server, list_name, uri), (server, None, None)
        if key in waiting or (uri is not None and any_resource in waiting):
            return
        if len(waiting) < MAX_NOTICES or uri is None:
            named = {"server": server, "list": list_name, "uri": uri}
            change = {name: value for name, value in named.items() if value is not None}
            self._notices.put(key, {"kind": "change", "change": change})
            return
        logger.warning("Changes wait to be told to other processes: too many to name each resource")
        for each in [each for each in waiting if each[2] is not None]:
            del waiting[each]
            waiting[each[0], None, None] = {"kind": "missed", "server": each[0]}
        self._notices.put(any_resource, {"kind": "missed", "server": server})

    def put(self, message: JSONObject) -> None:
        """Send a message after those that were put before it."""
        if len(self._others.waiting) < MAX_OTHERS:
            self._others.put(next(self._numbers), message)
            return
        self._dropped += 1
        # Each power of two: a line for each message would be a flood of its own.
        if self._dropped & (self._dropped - 1) == 0:
            logger.warning("Dropped %d messages to other processes: too many", self._dropped)

    async def flush(self) -> None:
        """Return when all messages but change notices have gone out, or could not."""
        await self._others.flush()


class _Lane:
    """Messages that wait, by key, and the tasks that send them in batches."""

    def __init__(self, send: Send, max_tasks: int, *, is_retried: bool) -> None:
        self._send = send
        self._max_tasks = max_tasks
        self._is_retried = is_retried
        self._tasks: set[asyncio.Task[None]] = set()
        self._next: asyncio.Handle | None = None
        self._pumped_s = 0.0
        self.waiting: dict[Any, JSONObject] = {}

    def put(self, key: Any, message: JSONObject) -> None:
        self.waiting[key] = message
        # What is told in the same step of the loop goes together.
        self._pump_in(0.0)

    async def flush(self) -> None:
        while self.waiting or self._tasks:
            await asyncio.wait((*self._tasks, asyncio.create_task(asyncio.sleep(0.001))))

    def _pump_in(self, delay_s: float) -> None:
        if self._next is None:
            loop = asyncio.get_running_loop()
            due_s = max(loop.time() + delay_s, self._pumped_s + PACE_S)
            self._next = loop.call_at(due_s, self._pump)

    def _pump(self) -> None:
        self._next = None
        loop = asyncio.get_running_loop()
        while self.waiting and len(self._tasks) < self._max_tasks:
            batch = {key: self.waiting.pop(key) for key in list(islice(self.waiting, BATCH))}
            task = loop.create_task(self._send_batch(batch))
            self._tasks.add(task)
            task.add_done_callback(self._sent)
            self._pumped_s = loop.time()

    async def _send_batch(self, batch: dict[Any, JSONObject]) -> None:
        if not await self._send(*batch.values()) and self._is_retried:
            self.waiting = {**batch, **self.waiting}
            self._pump_in(RETRY_S)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self.waiting:
            self._pump_in(0.0)
