"""Delete sessions that are closed or expired, or whose process is gone, and report each deleted session once.

Rows are also deleted elsewhere, for example with their user's account; a Django signal reports that.
This module also has what deletes expired questions and events.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextvars import ContextVar
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.db import connections, router, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.signals import post_delete
from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.execution.tables import AT_ONCE, delete_some, moment
from django_mcp.known_servers import find_server
from django_mcp.models.sessions import PendingAnswer, Stream, StreamEvent
from django_mcp.models.sessions import Session as Row
from django_mcp.protocol.revisions import find_revision
from django_mcp.server.exchange.session import Closing, Session
from django_mcp.sessions.core.memory import MAX_EVENT_AGE_S
from django_mcp.sessions.site.data import drop_engine_data

SLACK_S = 60.0
"""How much the stored time of a session's last use may lag, since it is written periodically."""

LOST_AFTER_S = 20.0
"""Age from which a session whose stream has no row counts as lost."""

_deleted: ContextVar[list[Session] | None] = ContextVar("django_mcp_deleted", default=None)
"""Collects the sessions that are being deleted in this context; None: none are."""


def notify_closed(session: Session, reason: Closing) -> None:
    """Notify the session's server, if this process has one of its name, in the thread that deleted it."""
    server = find_server(session.server_name)
    if server is not None:
        server.engine.ports.connection_observer.session_closed(session, reason.value)


def close_sessions(
    keys: Collection[UUID | str], reason: Closing, *, is_waiting: bool = True
) -> list[UUID]:
    """Delete sessions with all their data; return the keys of those that existed.

    If two processes delete the same session, one of them returns it, and notifies its server after the
    commit. Rows that another transaction has locked are skipped unless it `is_waiting` for them.
    """
    using = router.db_for_write(Row)
    gathered: list[Session] = []
    token = _deleted.set(gathered)
    try:
        with transaction.atomic(using):
            rows = Row.objects.using(using).filter(pk__in=keys)
            rows.filter(pk__in=_lock(rows, using, is_waiting=is_waiting)).delete()
    finally:
        _deleted.reset(token)
    _drop_data(gathered, using)
    for session in gathered:
        transaction.on_commit(partial(notify_closed, session, reason), using=using, robust=True)
    return [UUID(session.key) for session in gathered]


def _lock(rows: Any, using: str, *, is_waiting: bool) -> list[UUID]:
    """Return the keys of the rows that exist, locked until this transaction ends."""
    features = connections[using].features
    if not features.has_select_for_update:
        # A write locks out other writers; this database has no other locks.
        rows.update(digest=F("digest"))
        return list(rows.order_by().values_list("pk", flat=True))
    # In a fixed order, so that two transactions that delete the same rows do not deadlock.
    may_skip = not is_waiting and features.has_select_for_update_skip_locked
    locked = rows.select_for_update(skip_locked=may_skip)
    return list(locked.order_by("pk").values_list("pk", flat=True))


def _note_deleted(instance: Row, using: str, **_kwargs: Any) -> None:
    session = to_session(instance)
    session.is_ended = True
    gathered = _deleted.get()
    if gathered is not None:
        gathered.append(session)
    else:
        _drop_data([session], using)
        callback = partial(notify_closed, session, Closing.DELETED)
        transaction.on_commit(callback, using=using, robust=True)


def _drop_data(sessions: Sequence[Session], using: str) -> None:
    """Delete what sessions have in sessions of Django, after the commit."""
    if sessions and settings.SESSION_DATA == "session_engine":
        drop = partial(drop_engine_data, [session.key for session in sessions])
        transaction.on_commit(drop, using=using, robust=True)


def to_session(row: Row) -> Session:
    """Return a new session object for a row."""
    return Session(
        revision=find_revision(row.revision),
        client_info=row.client_info,
        client_capabilities=row.capabilities,
        key=row.pk.hex,
        server_name=row.server,
        principal_key=row.principal_key or None,
        transport=row.transport,
        quota_key=row.quota_key,
        opened_s=row.created_at.timestamp(),
    )


def expired_sessions(now_s: float, idle_s: float) -> QuerySet[Row]:
    """Return the sessions, of all servers, that have expired or are idle too long."""
    idle_since = moment(now_s - idle_s - min(SLACK_S, idle_s / 2))
    return Row.objects.filter(Q(expires_at__lt=moment(now_s)) | Q(last_seen_at__lt=idle_since))


def lost_sessions(now_s: float) -> QuerySet[Row]:
    """Return the sessions of HTTP+SSE, of all servers, whose stream's process is gone."""
    streams = Stream.objects.filter(session_id=OuterRef("pk"))
    return Row.objects.filter(
        ~Exists(streams), transport="sse", created_at__lt=moment(now_s - LOST_AFTER_S)
    )


def prune_sessions(rows: QuerySet[Row], reason: Closing = Closing.EXPIRED) -> int:
    """Delete up to `AT_ONCE` of these sessions; return how many."""
    keys = list(rows.order_by().values_list("pk", flat=True)[:AT_ONCE])
    return len(close_sessions(keys, reason)) if keys else 0


def expired_answers() -> QuerySet[PendingAnswer]:
    """Return the questions that have expired."""
    return PendingAnswer.objects.filter(expires_at__lt=timezone.now() - timedelta(minutes=1))


def expired_events() -> QuerySet[StreamEvent]:
    """Return the events that are too old to be resumed."""
    before = timezone.now() - timedelta(seconds=MAX_EVENT_AGE_S)
    return StreamEvent.objects.filter(created_at__lt=before).order_by("created_at")


def find_prunes(server: str, now_s: float, idle_s: float) -> list[Callable[[], int]]:
    """Return what deletes everything of sessions that has expired; see `Pruner`."""
    expired = expired_sessions(now_s, idle_s).filter(server=server)
    lost = lost_sessions(now_s).filter(server=server)
    return [
        lambda: prune_sessions(expired),
        lambda: prune_sessions(lost, Closing.STREAM),
        lambda: delete_some(expired_answers()),
        lambda: delete_some(expired_events()),
    ]


post_delete.connect(_note_deleted, sender=Row, dispatch_uid="django_mcp.sessions.site.closing")
