"""DatabaseBus: the hub's messages as rows that each process looks for once a second.

For sites with several processes and no Redis: slower, and one query a second for each process that
has something open. A process that has nothing open asks nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import TypeVar

from django.db import router, transaction
from django.db.models import QuerySet
from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.handlers.db_connections import run_with_connections
from django_mcp.handlers.pool import LoopPool
from django_mcp.handlers.threads import run_in_pool
from django_mcp.models.bus import BusMessage
from django_mcp.process import has_running_loop, process_id
from django_mcp.protocol.json import JSONObject
from django_mcp.push.wire import hand_over, pack
from django_mcp.server.streams.outage import OutageLog

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
        outage: is told what works and what does not.
    """

    is_shared = True

    def __init__(self, is_wanted: Callable[[], bool], outage: OutageLog) -> None:
        self._is_wanted = is_wanted
        self._poller: asyncio.Task[None] | None = None
        self._thread: LoopPool | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._gate = asyncio.Lock()
        self._next: tuple[list[str], asyncio.Task[None]] | None = None
        self._next_pruning_s = 0.0
        self._outage = outage
        self._is_idle = True
        self._idle_at = timezone.now()
        # Ids up to the first are settled, and up to the second looked at; those between them that
        # were seen are in the set.
        self._settled = self._highest = 0
        self._marks: deque[tuple[float, int]] = deque()
        self._seen: set[int] = set()

    async def send(self, *messages: JSONObject) -> None:
        """See `Bus.send`."""
        texts = pack(messages)
        if not texts:
            return
        if asyncio.get_running_loop() is not self._loop:
            # One of a request under WSGI, say, or of a queue's worker: it may end with this message.
            await self._apart(partial(self._write, texts))
            return
        # When many streams open at once, each has something to say. What comes while something is
        # written goes together with the next.
        if self._next is None or self._next[1].done():
            bodies: list[str] = []
            task = asyncio.get_running_loop().create_task(self._write_next(bodies))
            self._next = bodies, task
        bodies, task = self._next
        bodies += texts
        await asyncio.shield(task)

    async def _write_next(self, bodies: list[str]) -> None:
        async with self._gate:
            self._next = None
            await self._apart(partial(self._write, bodies))

    def send_now(self, message: JSONObject) -> None:
        """See `Bus.send_now`."""
        texts = pack([message])
        if not texts:
            return
        if has_running_loop():
            self._pool().leave(partial(self._write_apart, texts))
        else:
            self._write(texts)

    def start(self, receive: Callable[[JSONObject], None]) -> None:
        """See `Bus.start`."""
        self._is_idle, self._idle_at = True, timezone.now()
        self._gate, self._next = asyncio.Lock(), None
        self._loop = asyncio.get_running_loop()
        self._poller = self._loop.create_task(self._poll(receive))

    async def ready(self) -> None:
        """See `Bus.ready`. What is said from now on is read when it is time to."""

    async def stop(self) -> None:
        """See `Bus.stop`."""
        if self._poller is not None:
            self._poller.cancel()
            await asyncio.gather(self._poller, return_exceptions=True)

    async def _poll(self, receive: Callable[[JSONObject], None]) -> None:
        is_more = False
        while True:
            await asyncio.sleep(0 if is_more else POLL_S)
            if not self._is_wanted():
                self._is_idle, self._idle_at, is_more = True, timezone.now(), False
                continue
            try:
                found, is_more = await self._apart(self._read)
            except Exception as error:  # noqa: BLE001 - the top of this task's loop
                is_more = False
                self._outage.failed(error)
                continue
            self._outage.worked()
            for body in found:
                await hand_over(body, receive)

    # -- in a thread

    def _read(self) -> tuple[list[str], bool]:
        """Return what other processes have said since, and whether there is more of it."""
        rows = BusMessage._default_manager.order_by("pk")
        if self._is_idle:
            # What was said before anything was open here concerns nobody here.
            news = rows.filter(created_at__gt=self._idle_at).first()
            latest = rows.last()
            before = news.pk - 1 if news is not None else (latest.pk if latest is not None else 0)
            self._settled = self._highest = max(self._settled, before)
            self._marks.clear()
            self._is_idle = False
        late = self._find_late(rows)
        read = [*rows.filter(pk__in=late)] if late else []
        page = list(rows.filter(pk__gt=self._highest)[:BATCH])
        found = self._take([*read, *page])
        self._settle()
        return found, len(page) == BATCH

    def _find_late(self, rows: QuerySet[BusMessage]) -> list[int]:
        """Return the ids of rows that were not there when rows with higher ones were read."""
        if self._settled == self._highest:
            return []
        recent = rows.filter(pk__gt=self._settled, pk__lte=self._highest)
        return [pk for pk in recent.values_list("pk", flat=True) if pk not in self._seen][:BATCH]

    def _take(self, rows: Sequence[BusMessage]) -> list[str]:
        """Return what other processes say in these rows, which count as seen from now on."""
        found = []
        for row in rows:
            self._highest = max(self._highest, row.pk)
            self._seen.add(row.pk)
            if row.sender != process_id():
                found.append(row.body)
        return found

    def _settle(self) -> None:
        now = time.monotonic()
        self._marks.append((now, self._highest))
        while self._marks and self._marks[0][0] < now - LATE_S:
            self._settled = max(self._settled, self._marks.popleft()[1])
        self._seen = {pk for pk in self._seen if pk > self._settled}

    def _write(self, bodies: Sequence[str]) -> None:
        rows = [BusMessage(sender=process_id(), body=body) for body in bodies]
        # A block of its own: should it fail, what the caller wrote in its transaction still stands.
        using = router.db_for_write(BusMessage)
        with transaction.atomic(using=using):
            BusMessage._default_manager.using(using).bulk_create(rows, batch_size=BATCH)
        now = time.monotonic()
        if now >= self._next_pruning_s:
            self._next_pruning_s = now + PRUNE_EVERY_S
            prune_messages()

    def _write_apart(self, texts: Sequence[str]) -> None:
        try:
            run_with_connections(partial(self._write, texts))
        except Exception as error:  # noqa: BLE001 - the top of this thread's work
            self._outage.failed(error)
        else:
            self._outage.worked()

    async def _apart(self, function: Callable[[], T]) -> T:
        """Run a function in a thread of its own, which no handler can keep busy."""
        if not settings.SYNC_THREADS:
            return await run_in_pool(function)
        work = partial(run_with_connections, function)
        return await asyncio.get_running_loop().run_in_executor(self._pool(), work)

    def _pool(self) -> LoopPool:
        if self._thread is None:
            self._thread = LoopPool(1, "django-mcp-bus")
        return self._thread


def prune_messages(*, is_dry_run: bool = False) -> int:
    """Delete messages that every process has had time to read; return how many."""
    old = BusMessage._default_manager.filter(
        created_at__lt=timezone.now() - timedelta(seconds=KEPT_S)
    )
    return old.count() if is_dry_run else old.delete()[0]
