"""Delete expired sessions, questions and events, and what killed processes left behind."""

from __future__ import annotations

from collections.abc import Callable, Collection

from django.db.models import Exists, OuterRef, Q, QuerySet

from django_mcp.execution.tables import AT_ONCE, delete_some
from django_mcp.models.sessions import Session, Stream
from django_mcp.server.exchange.connection import Closing
from django_mcp.sessions.answers import expired_answers
from django_mcp.sessions.batches import expired_events
from django_mcp.sessions.closing import Closed, close_sessions, notify_closed
from django_mcp.sessions.rows import moment

SLACK_S = 60.0
"""How much the stored time of a session's last use may lag, since it is written periodically."""

LOST_AFTER_S = 20.0
"""Age from which a session whose stream has no row counts as lost. Our own limit."""


def expired_sessions(
    now_s: float, idle_s: float, *, server: str | None = None, others_than: Collection[str] = ()
) -> QuerySet[Session]:
    """Return the expired sessions of one server, or of all servers except some.

    Args:
        idle_s: how long a session of these servers may be idle.
    """
    idle_since = moment(now_s - idle_s - min(SLACK_S, idle_s / 2))
    rows = Session.objects.filter(Q(expires_at__lt=moment(now_s)) | Q(last_seen_at__lt=idle_since))
    return rows.exclude(server__in=others_than) if server is None else rows.filter(server=server)


def lost_sessions(now_s: float, *, server: str | None = None) -> QuerySet[Session]:
    """Return the sessions of HTTP+SSE whose stream's process is gone, of one server or of all."""
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


def find_prunes(
    server: str, now_s: float, idle_s: float, closed: Closed = notify_closed
) -> list[Callable[[], int]]:
    """Return what deletes everything of sessions that has expired; see `Pruner`."""
    expired = expired_sessions(now_s, idle_s, server=server)
    lost = lost_sessions(now_s, server=server)
    return [
        lambda: prune_sessions(expired, closed),
        lambda: prune_sessions(lost, closed, Closing.STREAM),
        lambda: delete_some(expired_answers()),
        lambda: delete_some(expired_events()),
    ]
