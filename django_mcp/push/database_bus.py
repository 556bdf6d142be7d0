"""DatabaseBus: the hub's messages as rows that each process reads once a second."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import TypeVar

from django.db import router, transaction
from django.db.models import QuerySet
from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.execution.db_connections import avoid_pools, run_with_connections
from django_mcp.execution.own_writes import write_in_pool, writes_wait
from django_mcp.execution.pool import LoopPool
from django_mcp.execution.tables import Pruner, delete_some
from django_mcp.execution.threads import run_in_pool
from django_mcp.models.sessions import BusMessage
from django_mcp.process import process_id
from django_mcp.protocol.json import JSONObject
from django_mcp.push.wire import hand_over, pack
from django_mcp.server.streams.messenger import OutageLog

T = TypeVar("T")

POLL_S = 1.0
KEPT_S = 60.0
PRUNE_EVERY_S = 15.0
BATCH = 1000
LATE_S = 5.0
"""How long a row may appear after one with a higher number: numbers are given before the commit."""


class DatabaseBus:
    """Write messages to a table, and read those of other processes from it if they are wanted; see `Bus`."""

    is_shared = True

    def __init__(
        self,
        is_wanted: Callable[[], bool],
        outage: OutageLog,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._is_wanted = is_wanted
        self._poller: asyncio.Task[None] | None = None
        self._thread: LoopPool | None = None
        self._pruner = Pruner(PRUNE_EVERY_S)
        self._outage = outage
        self._is_idle = True
        self._idle_at = timezone.now()
        # No more rows appear up to the first id, and rows up to the second were read. Ids of rows that
        # were read between them are in the set.
        self._settled = self._highest = 0
        self._marks: deque[tuple[float, int]] = deque()
        self._seen: set[int] = set()

    async def send(self, *messages: JSONObject) -> None:
        if writes_wait():
            # Reading must not wait for SQLite's lock behind it.
            await write_in_pool(partial(self.send_now, *messages))
        else:
            await self._apart(partial(self.send_now, *messages))

    def send_now(self, *messages: JSONObject) -> None:
        rows = [BusMessage(sender=process_id(), body=body) for body in pack(messages)]
        if not rows:
            return
        # A separate block: if it fails, the caller's transaction remains usable.
        using = router.db_for_write(BusMessage)
        with transaction.atomic(using=using):
            BusMessage._default_manager.using(using).bulk_create(rows, batch_size=BATCH)
        self._pruner.prune_if_due(lambda: delete_some(old_messages()))

    def start(self, receive: Callable[[JSONObject], None]) -> None:
        self._is_idle, self._idle_at = True, timezone.now()
        self._poller = asyncio.get_running_loop().create_task(self._poll(receive))

    async def stop(self) -> None:
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
                rows, is_more = await self._apart(self._read)
            except Exception as error:  # noqa: BLE001 - the top of this task's loop
                is_more = False
                self._outage.failed(error)
                continue
            self._outage.worked()
            for body in rows:
                await hand_over(body, receive)

    # -- in a thread

    def _read(self) -> tuple[list[str], bool]:
        """Return the next messages of other processes, and whether there are more."""
        rows = BusMessage._default_manager.order_by("pk")
        if self._is_idle:
            # Messages from before anything was open here concern nothing here.
            news = rows.filter(created_at__gt=self._idle_at).first()
            latest = rows.last()
            before = news.pk - 1 if news is not None else (latest.pk if latest is not None else 0)
            self._settled = self._highest = max(self._settled, before)
            self._marks.clear()
            self._is_idle = False
        page = list(rows.filter(pk__gt=self._highest)[:BATCH])
        read = page
        if self._settled != self._highest:
            # Rows that appeared after rows with higher ids were read come first.
            recent = rows.filter(pk__gt=self._settled, pk__lte=self._highest)
            late = [pk for pk in recent.values_list("pk", flat=True) if pk not in self._seen]
            read = [*rows.filter(pk__in=late[:BATCH]), *page] if late else page
        if page:
            self._highest = page[-1].pk
        self._seen.update(row.pk for row in read)
        now = self._clock()
        self._marks.append((now, self._highest))
        while self._marks and self._marks[0][0] < now - LATE_S:
            self._settled = max(self._settled, self._marks.popleft()[1])
        self._seen = {pk for pk in self._seen if pk > self._settled}
        return [row.body for row in read if row.sender != process_id()], len(page) == BATCH

    async def _apart(self, function: Callable[[], T]) -> T:
        """Run a function in a separate thread, which no handler can keep busy."""
        if not settings.SYNC_THREADS:
            return await run_in_pool(function)
        if self._thread is None:
            self._thread = LoopPool(1, "django-mcp-bus", prepare=avoid_pools)
        work = partial(run_with_connections, function)
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def old_messages() -> QuerySet[BusMessage]:
    """Return the messages that every process has had time to read."""
    before = timezone.now() - timedelta(seconds=KEPT_S)
    return BusMessage._default_manager.filter(created_at__lt=before)
