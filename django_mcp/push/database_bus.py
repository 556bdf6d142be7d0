"""DatabaseBus: the hub's messages as rows that each process looks for once a second.

For sites with several processes and no Redis: slower, and one query a second for each process that
has something open. A process that has nothing open asks nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import TypeVar

from django.db import router, transaction
from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.handlers.connections import run_with_connections
from django_mcp.handlers.threads import run_in_pool
from django_mcp.models.bus import BusMessage
from django_mcp.protocol.json import JSONObject
from django_mcp.push.bus import Warner, has_running_loop, pack, process_id, unpack

__all__ = ["DatabaseBus", "prune_messages"]

T = TypeVar("T")

POLL_S = 1.0
KEPT_S = 60.0
PRUNE_EVERY_S = 15.0
BATCH = 1000
LATE_S = 5.0
"""How long a row with a lower number may appear after one with a higher: numbers are given out
before the commit."""


class DatabaseBus:
    """Write messages to a table, and read those of other processes from it; see `Bus`.

    Args:
        is_wanted: whether anything in this process could have use for a message.
    """

    is_shared = True

    def __init__(self, is_wanted: Callable[[], bool]) -> None:
        self._is_wanted = is_wanted
        self._poller: asyncio.Task[None] | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._next_pruning_s = 0.0
        self._trouble = Warner()
        self._is_idle = True
        self._idle_at = timezone.now()
        # Ids up to the first are settled; those above it that were seen are in the set.
        self._settled = 0
        self._marks: deque[tuple[float, int]] = deque()
        self._seen: set[int] = set()

    async def send(self, message: JSONObject) -> None:
        """See `Bus.send`."""
        body = pack(message)
        if body is not None:
            await self._apart(partial(self._write, body))

    def send_now(self, message: JSONObject) -> None:
        """See `Bus.send_now`."""
        body = pack(message)
        if body is None:
            return
        if has_running_loop():
            self._executor().submit(self._write_apart, body)
        else:
            self._write(body)

    def start(self, receive: Callable[[JSONObject], None]) -> None:
        """See `Bus.start`."""
        self._is_idle, self._idle_at = True, timezone.now()
        self._poller = asyncio.get_running_loop().create_task(self._poll(receive))

    async def ready(self) -> None:
        """See `Bus.ready`. What is said from now on is read when it is time to."""

    async def stop(self) -> None:
        """See `Bus.stop`."""
        if self._poller is not None:
            self._poller.cancel()
            await asyncio.gather(self._poller, return_exceptions=True)

    async def _poll(self, receive: Callable[[JSONObject], None]) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            if not self._is_wanted():
                self._is_idle, self._idle_at = True, timezone.now()
                continue
            try:
                found = await self._apart(self._read)
            except Exception as error:  # noqa: BLE001 - the top of this task's loop
                self._trouble.warn("Hearing nothing of other processes: %r", error)
                continue
            self._trouble.reset()
            for body in found:
                message = unpack(body)
                if message is not None:
                    receive(message)

    # -- in a thread

    def _read(self) -> list[str]:
        rows = BusMessage._default_manager.order_by("pk")
        if self._is_idle:
            # What was said before anything was open here concerns nobody here.
            news = rows.filter(created_at__gt=self._idle_at).first()
            latest = rows.last()
            before = news.pk - 1 if news is not None else (latest.pk if latest is not None else 0)
            self._settled = max(self._settled, before)
            self._marks.clear()
            self._is_idle = False
        found = []
        highest = self._settled
        news_since = rows.filter(pk__gt=self._settled)
        for pk, sender, body in news_since.values_list("pk", "sender", "body")[:BATCH]:
            highest = max(highest, pk)
            if pk not in self._seen:
                self._seen.add(pk)
                if sender != process_id():
                    found.append(body)
        self._settle(highest)
        return found

    def _settle(self, highest: int) -> None:
        now = time.monotonic()
        self._marks.append((now, highest))
        while self._marks and self._marks[0][0] < now - LATE_S:
            self._settled = max(self._settled, self._marks.popleft()[1])
        self._seen = {pk for pk in self._seen if pk > self._settled}

    def _write(self, body: str) -> None:
        # A block of its own: should it fail, what the caller wrote in its transaction still stands.
        with transaction.atomic(using=router.db_for_write(BusMessage)):
            BusMessage._default_manager.create(sender=process_id(), body=body)
        now = time.monotonic()
        if now >= self._next_pruning_s:
            self._next_pruning_s = now + PRUNE_EVERY_S
            prune_messages()

    def _write_apart(self, body: str) -> None:
        try:
            run_with_connections(partial(self._write, body), lambda: False)
        except Exception as error:  # noqa: BLE001 - the top of this thread's work
            self._trouble.warn("Could not reach the other processes: %r", error)

    async def _apart(self, function: Callable[[], T]) -> T:
        """Run a function in a thread of its own, which no handler can keep busy."""
        if not settings.SYNC_THREADS:
            return await run_in_pool(function)
        work = partial(run_with_connections, function, lambda: False)
        return await asyncio.get_running_loop().run_in_executor(self._executor(), work)

    def _executor(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, thread_name_prefix="django-mcp-bus")
        return self._threads


def prune_messages(*, is_dry_run: bool = False) -> int:
    """Delete messages that every process has had time to read; return how many."""
    old = BusMessage._default_manager.filter(
        created_at__lt=timezone.now() - timedelta(seconds=KEPT_S)
    )
    return old.count() if is_dry_run else old.delete()[0]
