"""Visits to pages in the database: opened by a handler, completed once by the page."""

from __future__ import annotations

import asyncio
import uuid
from datetime import timedelta
from functools import partial
from typing import Any

from django.core.signing import BadSignature, Signer
from django.db import router, transaction
from django.db.models import QuerySet
from django.utils import timezone

from django_mcp.execution.tables import Pruner, Usage, delete_some
from django_mcp.execution.threads import run_in_pool
from django_mcp.models.calls import PageVisit
from django_mcp.push.process_hub import process_hub
from django_mcp.server.delivery.notify import announce
from django_mcp.server.exchange.quotas import Limits
from django_mcp.server.streams.stream import Change

MAX_TOKEN_CHARS = 200
POLL_S = 1.0
"""How often a waiting call checks whether its page is done."""

PRUNE_EVERY_S = 60.0
"""How often each process deletes expired visits, when it opens one."""


def token_of(visit_id: str) -> str:
    """Return a visit's token for the page's URL. It grants no access by itself."""
    return _signer().sign(visit_id)


def find_visit(token: object, path: str, user: Any) -> PageVisit | None:
    """Return the visit of a token; None if it is for another page or user, or has expired.

    A completed one is found.
    """
    if not isinstance(token, str) or len(token) > MAX_TOKEN_CHARS:
        return None
    try:
        visit_id = uuid.UUID(_signer().unsign(token))
    except (BadSignature, ValueError):
        return None
    return PageVisit._default_manager.filter(
        pk=visit_id, path=path, user=user.pk, expires_at__gt=timezone.now()
    ).first()


def complete_visit(visit: PageVisit, result: Any) -> bool:
    """Record that a page is completed; False if it was completed before, or has expired.

    After the commit the client is notified, if its revision supports that.
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


def find_completed(visit_id: str) -> PageVisit | None:
    """Return a visit if its page is completed."""
    rows = PageVisit._default_manager.filter(pk=visit_id, expires_at__gt=timezone.now())
    return rows.exclude(completed_at=None).first()


async def wait_until_done(visit_id: str, seconds: float) -> None:
    """Return when a visit is completed, or after so many seconds."""
    clock = asyncio.get_running_loop().time
    until_s = clock() + seconds
    while await run_in_pool(partial(find_completed, visit_id)) is None:
        left_s = until_s - clock()
        if left_s <= 0:
            return
        await asyncio.sleep(min(POLL_S, left_s))


class TooManyPages(Exception):
    """No further page can be opened now."""


_usage = Usage(
    PageVisit._default_manager.all,
    None,
    Limits(own_count=250, count=10_000),
    columns=("user",),
)
"""Stored visits of one user, and in all."""

_pruner = Pruner(PRUNE_EVERY_S)


def open_visit(visit: PageVisit, seconds: float) -> str:
    """Store a request to visit a page, and return the visit's id.

    Raises:
        TooManyPages: the user, or all users, have as many open pages as they may.
    """
    _pruner.prune_if_due(lambda: delete_some(expired_visits()))
    if _usage.take((str(visit.user_id),), 0) is not None:
        raise TooManyPages
    visit.expires_at = visit.created_at + timedelta(seconds=seconds)
    visit.save(force_insert=True)
    return visit.pk.hex


def expired_visits() -> QuerySet[PageVisit]:
    """Return the visits that have expired."""
    return PageVisit._default_manager.filter(expires_at__lte=timezone.now())


def _signer() -> Signer:
    # Created each time, since it copies the keys, which tests change.
    return Signer(salt="django_mcp.pages")
