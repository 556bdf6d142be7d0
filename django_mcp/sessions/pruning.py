"""Delete expired sessions, questions and events, and what killed processes left behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from django.db.models import Exists, OuterRef, Q, QuerySet

from django_mcp.models.sessions import Session, Stream
from django_mcp.server.exchange.connection import Closing
from django_mcp.sessions.answers import prune_answers
from django_mcp.sessions.batches import prune_events
from django_mcp.sessions.closing import Closed, close_sessions, notify_closed
from django_mcp.sessions.rows import moment

__all__ = ["AT_ONCE", "expired_sessions", "lost_sessions", "prune_all", "prune_sessions"]

AT_ONCE = 500
"""Rows of a kind deleted at a time, so that no query waits long."""

PAUSE_S = 0.02
"""Pause between two batches, so that other queries can run. Our own limit."""

MAX_S = 50.0
"""How long one pruning may take: it ends before the next one starts. Our own limit."""

SLACK_S = 60.0
"""How much the stored time of a session's last use may lag, since it is written periodically."""

LOST_AFTER_S = 20.0
"""Age from which a session whose stream has no row counts as lost. Our own limit."""


def expired_sessions(
    now_s: float, idle_s: float, *, server: str | None = None, others_than: Collection[str] = ()
) -> QuerySet[Session]:
    """Return the expired sessions of one server, or of all servers except some.

    Args:
        now_s: seconds since the epoch.
        idle_s: how long a session of these servers may be idle.
    """
    idle_since = moment(now_s - idle_s - min(SLACK_S, idle_s / 2))
    rows = Session.objects.filter(Q(expires_at__lt=moment(now_s)) | Q(last_seen_at__lt=idle_since))
    return rows.exclude(server__in=others_than) if server is None else rows.filter(server=server)


def lost_sessions(now_s: float, *, server: str | None = None) -> QuerySet[Session]:
    """Return the sessions of HTTP+SSE whose stream's process is gone, of one server or of all.

    Args:
        now_s: seconds since the epoch.
    """
    streams = Stream.objects.filter(session_id=OuterRef("pk"))
    rows = Session.objects.filter(
        ~Exists(streams), transport="sse", created_at__lt=moment(now_s - LOST_AFTER_S)
    )
    return rows if server is None else rows.filter(server=server)


def prune_sessions(
    rows: QuerySet[Session], closed: Closed = notify_closed, reason: Closing = Closing.EXPIRED
) -> int:
    """Delete up to `AT_ONCE` of these sessions; return how many."""
    keys = list(rows.order_by().values_list("pk", flat=True)[:AT_ONCE])
    return len(close_sessions(keys, reason, closed)) if keys else 0


def prune_all(server: str, now_s: float, idle_s: float, closed: Closed = notify_closed) -> None:
    """Delete everything that has expired, in batches. Every process that keeps sessions calls this."""
    until_s = time.monotonic() + MAX_S
    expired, lost = (
        expired_sessions(now_s, idle_s, server=server),
        lost_sessions(now_s, server=server),
    )
    _repeat(lambda: prune_sessions(expired, closed), until_s)
    _repeat(lambda: prune_sessions(lost, closed, Closing.STREAM), until_s)
    _repeat(lambda: prune_answers(limit=AT_ONCE), until_s)
    _repeat(lambda: prune_events(limit=AT_ONCE), until_s)


def _repeat(prune: Callable[[], int], until_s: float) -> None:
    """Prune until a batch is not full, or it is `until_s`; the next pruning continues from there."""
    while prune() >= AT_ONCE and time.monotonic() < until_s:
        time.sleep(PAUSE_S)
