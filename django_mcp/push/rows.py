"""The rows of open streams, which tell the admin and other processes what is open here.

What is open is compared with what was written, every two seconds, so that nothing has to be written
while a stream opens or ends. The lease of this process is renewed on the way.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from django_mcp.conf import settings
from django_mcp.handlers.threads import run_in_pool
from django_mcp.server.push import PushStream

if TYPE_CHECKING:
    from django_mcp.server.hub import Hub

__all__ = ["has_rows", "write_rows"]

_written: dict[str, tuple[int, int]] = {}
"""Of each stream that has a row: how many resources it hears of, and what was queued."""


def has_rows() -> bool:
    """Tell whether there are rows of this process."""
    return bool(_written)


async def write_rows(hub: Hub) -> None:
    """Have the table say what is open now."""
    global _written
    if settings.SESSION_STORE != "model":
        return
    now = {id: (len(each.uris), each.queued_events) for id, each in hub.streams.items()}
    if not now and not _written:
        return
    known = _written.keys()
    new = [hub.streams[id] for id in now.keys() - known]
    changed = {id: now[id] for id in now.keys() & known if now[id] != _written[id]}
    # Where it fails, whatever was written of it can be written again.
    await run_in_pool(partial(_store, new, known - now.keys(), changed))
    _written = now


def _store(new: list[PushStream], gone: Iterable[str], changed: dict[str, tuple[int, int]]) -> None:
    # Loads models, which importing a server must not.
    from django.db import IntegrityError, router, transaction

    from django_mcp.models.sessions import Stream
    from django_mcp.sessions.workers import hold_lease, worker_id

    hold_lease()
    rows = [_to_row(stream, worker_id()) for stream in new]
    try:
        with transaction.atomic(router.db_for_write(Stream)):
            Stream.objects.bulk_create(rows, ignore_conflicts=True, batch_size=200)
    except IntegrityError:
        # This process was slow to renew its lease, and forgotten.
        hold_lease(is_due=True)
        Stream.objects.bulk_create(rows, ignore_conflicts=True, batch_size=200)
    if gone:
        Stream.objects.filter(pk__in=[uuid.UUID(id) for id in gone]).delete()
    if changed:
        busy = [
            Stream(pk=uuid.UUID(id), uri_count=uris, queued_events=queued)
            for id, (uris, queued) in changed.items()
        ]
        Stream.objects.bulk_update(busy, ["uri_count", "queued_events"], batch_size=200)


def _to_row(stream: PushStream, worker: uuid.UUID) -> Any:
    from django_mcp.models.sessions import Stream

    client = stream.client_info or {}
    return Stream(
        pk=uuid.UUID(stream.id),
        kind=stream.kind.value,
        worker_id=worker,
        session_id=uuid.UUID(stream.session.key) if stream.session is not None else None,
        server=stream.server_name[:100],
        principal_key=(getattr(stream.principal, "key", None) or "")[:128],
        user_id=getattr(getattr(stream.principal, "user", None), "pk", None),
        revision=stream.revision_name,
        client_name=_text(client.get("name"), 100),
        client_version=_text(client.get("version"), 50),
        lists=",".join(sorted(stream.lists)),
        uri_count=len(stream.uris),
        queued_events=stream.queued_events,
    )


def _text(value: Any, length: int) -> str:
    return value.replace("\0", "")[:length] if isinstance(value, str) else ""


def _forget() -> None:
    # The streams stayed behind in the parent process.
    _written.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
