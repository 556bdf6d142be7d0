"""The row of this process, with a lease that it renews, and that ends if it is killed."""

from __future__ import annotations

import os
import socket
import time
import uuid
from datetime import timedelta

from django.db import Error, connections, router, transaction
from django.db.models import QuerySet
from django.utils import timezone

from django_mcp.execution.outages import report_unmigrated
from django_mcp.log import logger
from django_mcp.models.sessions import Worker
from django_mcp.process import at_end, process_id, reset_on

LEASE_S = 10.0
"""How long a process counts as alive without renewing its lease."""

RENEW_EVERY_S = 3.0

IDLE_S = 4.0
"""How long after a renewal was due a process counts as idle; its lease has not ended then."""

GRACE_S = 10.0
"""How long after the end of its lease a process's rows are deleted."""

SWEEP_EVERY_S = 60.0
"""How often a process with nothing open looks for the rows of processes that were killed."""


def worker_id() -> uuid.UUID:
    """Return the key of this process's row, whether or not it is written yet."""
    return uuid.UUID(process_id())


class _WorkerLease:
    """The lease of this process.

    Its `number` changes when its row had to be inserted again: the rows of an ended lease are deleted.
    """

    def __init__(self) -> None:
        self.number = 0
        self.reset()

    def reset(self) -> None:
        """Become the lease of another process, or for another database."""
        self._started_at = timezone.now()
        self._next_renewal_s = 0.0
        self._next_sweep_s = 0.0

    def hold(self, *, is_due: bool = False) -> None:
        """Write this process's row, or renew its lease, if that is due. In a thread with connections.

        It also sweeps. A process with open streams or tasks calls it
        every `RENEW_EVERY_S`; calling it more often is cheap. If it `is_due`, it is renewed in any case.
        """
        # Another thread may renew it meanwhile.
        was_due_s = self._next_renewal_s
        if time.monotonic() < was_due_s and not is_due:
            return
        # It may have to wait for a lock, after which the time is another.
        with transaction.atomic(router.db_for_write(Worker)):
            self._renew()
            now_after_s = time.monotonic()
        # A process that renewed its own lease late lets the others renew theirs before it deletes them.
        is_steady = now_after_s < was_due_s + LEASE_S
        self._next_renewal_s = now_after_s + RENEW_EVERY_S
        if is_steady:
            self.sweep()

    def _renew(self) -> None:
        key = worker_id()
        # The row is locked first.
        list(Worker.objects.select_for_update().filter(pk=key).values_list("pk"))
        lease_until = timezone.now() + timedelta(seconds=LEASE_S)
        if not Worker.objects.filter(pk=key).update(lease_until=lease_until):
            self.number += 1
            row = Worker(
                pk=key,
                host=socket.gethostname()[:100],
                pid=os.getpid(),
                # An idle process has no row for a while.
                started_at=self._started_at,
                lease_until=lease_until,
            )
            Worker.objects.bulk_create([row], ignore_conflicts=True)

    def is_sweep_due(self) -> bool:
        """Return whether this process has not looked for killed processes for a while."""
        return time.monotonic() >= self._next_sweep_s

    def sweep(self) -> None:
        """Delete processes whose leases have ended long ago. In a thread with connections."""
        self._next_sweep_s = time.monotonic() + SWEEP_EVERY_S
        if keys := list(gone_workers().values_list("pk", flat=True)[:100]):
            Worker.objects.filter(pk__in=keys).delete()

    def is_idle(self) -> bool:
        """Return whether the lease was not renewed for so long that it is about to end."""
        return bool(self._next_renewal_s) and time.monotonic() > self._next_renewal_s + IDLE_S

    def let_go(self) -> None:
        """Delete this process's row if it is idle: it has not died."""
        self._next_renewal_s = 0.0
        Worker.objects.filter(pk=worker_id(), streams=None).delete()

    def end(self) -> None:
        """Delete this process's row, if it has one, at the end of the process."""
        if not self._next_renewal_s:
            return
        self._next_renewal_s = 0.0
        try:
            Worker.objects.filter(pk=worker_id()).delete()
        except Error as error:
            # The lease ends by itself.
            if not report_unmigrated(error):
                logger.warning("Could not delete this process's row: %r", error)
        finally:
            connections.close_all()


worker_lease = _WorkerLease()
"""The lease of this process."""

at_end(worker_lease.end)
reset_on(worker_lease.reset, settings=("DATABASES", "DATABASE_ROUTERS", "DJANGO_MCP"), fork=True)


def gone_workers() -> QuerySet[Worker]:
    """Return the processes that are dead."""
    return Worker.objects.filter(lease_until__lt=timezone.now() - timedelta(seconds=GRACE_S))
