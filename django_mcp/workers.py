"""The row of this process, with a lease that it renews, and that ends if it is killed."""

from __future__ import annotations

import atexit
import logging
import os
import socket
import time
import uuid
from datetime import timedelta

from django.core.signals import setting_changed
from django.db import Error, connections
from django.utils import timezone

from django_mcp.models.sessions import Worker

__all__ = [
    "LEASE_S",
    "RENEW_EVERY_S",
    "has_idle_lease",
    "hold_lease",
    "lease_number",
    "let_lease_go",
    "prune_workers",
    "worker_id",
]

logger = logging.getLogger("django_mcp")

LEASE_S = 10.0
"""How long a process counts as alive without renewing its lease. Our own limit."""

RENEW_EVERY_S = 3.0

IDLE_S = 4.0
"""How long after a renewal was due a process counts as idle; its lease has not ended then."""

GRACE_S = 10.0
"""How long after the end of its lease a process's rows are deleted. Our own limit."""

_id: uuid.UUID | None = None
_started_at = timezone.now()
_next_renewal_s = 0.0
_number = 0


def lease_number() -> int:
    """Return how many leases this process has had: the rows of an ended one are deleted."""
    return _number


def worker_id() -> uuid.UUID:
    """Return the key of this process's row, whether or not it is written yet."""
    global _id
    if _id is None:
        _id = uuid.uuid4()
    return _id


def hold_lease(*, is_due: bool = False) -> None:
    """Write this process's row, or renew its lease, if that is due. In a thread with connections.

    It also deletes processes whose leases have ended.

    A process with open streams or tasks calls it every `RENEW_EVERY_S`; calling it more often is cheap.

    Args:
        is_due: renew it in any case, for example if the row is missing.
    """
    global _next_renewal_s, _number
    now_s = time.monotonic()
    if now_s < _next_renewal_s and not is_due:
        return
    lease_until = timezone.now() + timedelta(seconds=LEASE_S)
    key = worker_id()
    if not Worker.objects.filter(pk=key).update(lease_until=lease_until):
        _number += 1
        row = Worker(
            pk=key,
            host=_host(),
            pid=os.getpid(),
            # An idle process has no row for a while.
            started_at=_started_at,
            lease_until=lease_until,
        )
        Worker.objects.bulk_create([row], ignore_conflicts=True)
    # A process that renewed its own lease late lets the others renew theirs before it deletes them.
    is_steady = now_s < _next_renewal_s + LEASE_S
    _next_renewal_s = now_s + RENEW_EVERY_S
    if is_steady:
        prune_workers()


def has_idle_lease() -> bool:
    """Return whether the lease was not renewed for so long that it is about to end."""
    return bool(_next_renewal_s) and time.monotonic() > _next_renewal_s + IDLE_S


def let_lease_go() -> None:
    """Delete this process's row if it is idle: it has not died."""
    global _next_renewal_s
    _next_renewal_s = 0.0
    Worker.objects.filter(pk=worker_id(), streams=None).delete()


def prune_workers(*, is_dry_run: bool = False) -> int:
    """Delete dead processes, with their streams; return how many there were."""
    gone = Worker.objects.filter(lease_until__lt=timezone.now() - timedelta(seconds=GRACE_S))
    if is_dry_run:
        return gone.count()
    keys = list(gone.values_list("pk", flat=True)[:100])
    if keys:
        Worker.objects.filter(pk__in=keys).delete()
    return len(keys)


def _host() -> str:
    return socket.gethostname()[:100]


def _leave() -> None:
    """Delete this process's row, if it has one."""
    if not _next_renewal_s:
        return
    try:
        Worker.objects.filter(pk=worker_id()).delete()
    except Error as error:
        # The lease ends by itself.
        logger.warning("Could not sign off from the database: %r", error)
    finally:
        connections.close_all()


def _forget() -> None:
    # After a fork, this is another process.
    global _id, _next_renewal_s, _started_at
    _id, _next_renewal_s, _started_at = None, 0.0, timezone.now()


def _forget_on_change(*, setting: str, **_kwargs: object) -> None:
    if setting in ("DATABASES", "DATABASE_ROUTERS", "DJANGO_MCP"):
        _forget()


atexit.register(_leave)
setting_changed.connect(_forget_on_change, dispatch_uid="django_mcp.workers")
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
