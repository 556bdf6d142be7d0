"""Delete sessions, and say once of each that it is over: whoever deletes its row does.

Rows go in other ways than ours too, as with the account they belong to; a signal of Django's tells.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextvars import ContextVar
from functools import partial
from typing import Any
from uuid import UUID

from django.db import connections, router, transaction
from django.db.models import F
from django.db.models.signals import post_delete

from django_mcp.known_servers import find_known
from django_mcp.models.sessions import Session as Row
from django_mcp.protocol.revisions import find_revision
from django_mcp.server.exchange.connection import Closing, ConnectionState, Session

__all__ = ["Closed", "close_sessions", "tell_closed"]

Closed = Callable[[Session, Closing], object]
"""Is told of a session that is over, in the thread that deleted it, once that is committed."""

_deleted: ContextVar[list[Session] | None] = ContextVar("django_mcp_deleted", default=None)
"""Where sessions that are being deleted here are gathered; None: nobody here does."""


def tell_closed(session: Session, reason: Closing) -> None:
    """Tell the session's server, if there is one of its name in this process."""
    server = find_known(session.server_name)
    if server is not None:
        server.session_closed(session, reason)


def close_sessions(
    keys: Collection[UUID | str],
    reason: Closing,
    closed: Closed = tell_closed,
    *,
    is_waiting: bool = True,
) -> list[UUID]:
    """Delete sessions with all that belongs to them; return the keys of those that were there.

    Of two processes that delete the same session, one returns it, and tells `closed`.

    Args:
        keys: primary keys.
        reason: why they are over.
        closed: is told of each.
        is_waiting: for those that somebody else is busy with; else they are left alone.
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
    for session in gathered:
        transaction.on_commit(partial(closed, session, reason), using=using, robust=True)
    return [UUID(session.key) for session in gathered]


def _lock(rows: Any, using: str, *, is_waiting: bool) -> list[UUID]:
    """Return the keys of those rows that are there, and will be until this transaction ends."""
    features = connections[using].features
    if not features.has_select_for_update:
        # A write keeps others from writing, which is all the locks there are.
        rows.update(digest=F("digest"))
        return list(rows.order_by().values_list("pk", flat=True))
    # In one order, so that two who delete the same ones do not wait for each other.
    may_skip = not is_waiting and features.has_select_for_update_skip_locked
    locked = rows.select_for_update(skip_locked=may_skip)
    return list(locked.order_by("pk").values_list("pk", flat=True))


def _note_deleted(instance: Row, using: str, **_kwargs: Any) -> None:
    session = _to_session(instance)
    gathered = _deleted.get()
    if gathered is not None:
        gathered.append(session)
    else:
        told = partial(tell_closed, session, Closing.DELETED)
        transaction.on_commit(told, using=using, robust=True)


def _to_session(row: Row) -> Session:
    settled = ConnectionState(
        find_revision(row.revision),
        client_info=row.client_info,
        client_capabilities=row.capabilities,
    )
    found = Session.of(row.pk.hex, row.server, row.principal_key or None, settled)
    found.is_ended = True
    return found


post_delete.connect(_note_deleted, sender=Row, dispatch_uid="django_mcp.sessions.closing")
