"""Visits to pages in the database: opened by the handler that asks, completed by the page, once."""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from django.core.signing import BadSignature, Signer
from django.db import router, transaction
from django.utils import timezone

from django_mcp.handlers.threads import run_in_pool, run_later
from django_mcp.models.page_visits import PageVisit
from django_mcp.push.process_hub import process_hub
from django_mcp.server.delivery.notify import announce
from django_mcp.server.streams.stream import Change

__all__ = [
    "Outcome",
    "complete_visit",
    "find_visit",
    "open_visit",
    "prune_visits",
    "read_outcome",
    "token_of",
    "wait_until_done",
]

MAX_TOKEN_CHARS = 200
POLL_S = 1.0
"""How often a call that waits for a page looks whether it is done."""

PRUNE_EVERY_S = 60.0
"""Whoever opens a visit also removes what has expired, this often in each process."""

PRUNED_AT_ONCE = 1000

PAUSE_S = 0.02
"""Between two batches, so that other queries get their turn. Ours."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What has become of a visit.

    Attributes:
        is_done: whether the page said so.
        result: what it said.
    """

    is_done: bool
    result: Any = None


def token_of(visit_id: str) -> str:
    """Return what stands for a visit in the page's address. It opens nothing by itself."""
    return _signer().sign(visit_id)


def find_visit(token: object, path: str, user: Any) -> PageVisit | None:
    """Return the visit that a token stands for; None when it is not for this page and this user.

    None as well once it has expired. A completed one is found.
    """
    if not isinstance(token, str) or len(token) > MAX_TOKEN_CHARS:
        return None
    try:
        visit_id = uuid.UUID(_signer().unsign(token))
    except (BadSignature, ValueError):
        return None
    rows = PageVisit._default_manager.filter(
        pk=visit_id, path=path, user=user.pk, expires_at__gt=timezone.now()
    )
    return rows.first()


def complete_visit(visit: PageVisit, result: Any) -> bool:
    """Note that what was to be done on a page is done; False when it was noted before, or too late.

    After the commit the client that asked is told, where its revision has a word for it.
    """
    now = timezone.now()
    using = router.db_for_write(PageVisit)
    rows = PageVisit._default_manager.using(using).filter(
        pk=visit.pk, completed_at=None, expires_at__gt=now
    )
    # The handler has as long to read it as the user had to get here.
    kept_until = now + (visit.expires_at - visit.created_at)
    if not rows.update(completed_at=now, result=result, expires_at=kept_until):
        return False
    visit.completed_at, visit.result = now, result
    if visit.session_key:
        change = Change(
            server=visit.server,
            method="notifications/elicitation/complete",
            params={"elicitationId": visit.pk.hex},
            session=visit.session_key,
        )
        transaction.on_commit(partial(announce, process_hub(), change), using=using, robust=True)
    return True


def read_outcome(visit_id: str) -> Outcome:
    """Return what has become of a visit; of one that is not there any more, nothing."""
    rows = PageVisit._default_manager.filter(pk=visit_id, expires_at__gt=timezone.now())
    for completed_at, result in rows.values_list("completed_at", "result"):
        return Outcome(is_done=completed_at is not None, result=result)
    return Outcome(is_done=False)


async def wait_until_done(visit_id: str, seconds: float) -> None:
    """Return when a visit is completed, or after so many seconds."""
    clock = asyncio.get_running_loop().time
    until_s = clock() + seconds
    while not (await run_in_pool(partial(read_outcome, visit_id))).is_done:
        left_s = until_s - clock()
        if left_s <= 0:
            return
        await asyncio.sleep(min(POLL_S, left_s))


_next_pruning_s = 0.0


def open_visit(visit: PageVisit, seconds: float) -> str:
    """Write down that somebody is asked to visit a page, and return the visit's id."""
    global _next_pruning_s
    now_s = time.monotonic()
    if now_s >= _next_pruning_s:
        _next_pruning_s = now_s + PRUNE_EVERY_S
        run_later(_prune_all)
    visit.expires_at = visit.created_at + timedelta(seconds=seconds)
    visit.save(force_insert=True)
    return visit.pk.hex


def prune_visits(*, is_dry_run: bool = False) -> int:
    """Remove visits that have expired, up to `PRUNED_AT_ONCE`; return how many."""
    expired = PageVisit._default_manager.filter(expires_at__lte=timezone.now())
    if is_dry_run:
        return expired.count()
    ids = list(expired.values_list("pk", flat=True)[:PRUNED_AT_ONCE])
    return PageVisit._default_manager.filter(pk__in=ids).delete()[0] if ids else 0


def _prune_all() -> None:
    while prune_visits() >= PRUNED_AT_ONCE:
        time.sleep(PAUSE_S)


def _signer() -> Signer:
    # Made anew each time: it copies the keys, which tests change.
    return Signer(salt="django_mcp.pages")
