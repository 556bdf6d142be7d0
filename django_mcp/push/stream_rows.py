"""The rows that tell the admin and other processes what is open here, and how much is in flight.

What there is is compared with what was written, every two seconds, so that nothing has to be written
while a stream opens or ends, or a request comes. The lease of this process is renewed on the way.
A stream whose row somebody has deleted is closed: the word to close it may have been lost.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from django_mcp.conf import settings
from django_mcp.handlers.threads import run_in_pool
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.texts import name_and_version
from django_mcp.push.in_flight import count_requests
from django_mcp.server.streams.stream import Ending, PushStream

if TYPE_CHECKING:
    from django_mcp.server.services.services import ServerHub

__all__ = ["has_rows", "is_any_listening", "sign_off", "write_rows"]

_State: TypeAlias = tuple[int, set[str] | None, int, str]
"""What a row says: how many resources a stream subscribed to, which (None: its session has them), what was
queued, and its revision."""

_written: dict[str, _State] = {}
"""What the row of each stream says."""

_lease = 0
"""Under which lease of this process they were written."""

_told: JSONObject | None = None
"""What was written of the requests in flight."""


def has_rows() -> bool:
    """Return whether the tables say that anything is open or in flight here."""
    return bool(_written) or _told is not None


async def write_rows(hub: ServerHub) -> None:
    """Have the tables say what is open and in flight now, and close what they have lost."""
    global _written, _told, _lease
    if settings.SESSION_STORE != "model":
        return
    now = {
        # The set is never changed but replaced, so that comparing it costs nothing.
        id: (
            len(each.uris),
            each.uris if each.session is None else None,
            each.queued_events,
            each.revision_name,
        )
        for id, each in hub.streams.items()
    }
    in_flight, streams = count_requests(hub), dict(hub.streams)
    if not (now or _written or in_flight != _told):
        return
    written, told, lease = _written, _told, _lease

    def write() -> tuple[int, set[str]]:
        found = _store(now, streams, written, lease)
        # A row that had to be made anew says nothing of it yet.
        if in_flight != (told if found[0] == lease else None):
            _tell(in_flight)
        return found

    # Where it fails, whatever was written of it can be written again.
    newer, lost = await run_in_pool(write)
    _written, _told, _lease = now, in_flight, newer
    for id in lost & hub.streams.keys():
        hub.streams[id].end(Ending.CLOSED)


async def sign_off(_hub: ServerHub) -> None:
    """Have the tables say nothing of a process that was idle for a while."""
    if settings.SESSION_STORE != "model":
        return
    from django_mcp.workers import has_idle_lease, let_lease_go

    if has_idle_lease():
        await run_in_pool(let_lease_go)


def _store(
    now: dict[str, _State],
    streams: dict[str, PushStream],
    written: dict[str, _State],
    lease: int,
) -> tuple[int, set[str]]:
    """Write what is other than it was; return the lease, and which streams have lost their rows."""
    # Loads models, which importing a server must not.
    from django.db import IntegrityError

    from django_mcp.models.sessions import Stream
    from django_mcp.workers import hold_lease, lease_number, worker_id

    hold_lease()
    if lease != lease_number():
        # With the row of this process went those of its streams.
        lease, known = lease_number(), set[str]()
    else:
        known = set(written)
    new = [streams[id] for id in now.keys() - known]
    try:
        _insert(new)
    except IntegrityError:
        # This process was slow to renew its lease, and forgotten.
        hold_lease(is_due=True)
        _insert(new)
    gone = written.keys() - now.keys()
    if gone:
        Stream.objects.filter(pk__in=[uuid.UUID(id) for id in gone]).delete()
    kept = now.keys() & known
    busy = [
        Stream(pk=uuid.UUID(id), uri_count=now[id][0], queued_events=now[id][2])
        for id in kept
        if now[id][:3] != written[id][:3]
    ]
    if busy:
        Stream.objects.bulk_update(busy, ["uri_count", "queued_events"], batch_size=200)
    hearing = [
        Stream(pk=uuid.UUID(id), uri_digests=_join_digests(now[id][1] or ()))
        for id in kept
        if now[id][1] != written[id][1]
    ]
    if hearing:
        Stream.objects.bulk_update(hearing, ["uri_digests"], batch_size=200)
    # Hands were shaken on the stream itself, after its row was written.
    shaken = [_to_row(streams[id], worker_id()) for id in kept if now[id][3] != written[id][3]]
    if shaken:
        fields = ["revision", "client_name", "client_version"]
        Stream.objects.bulk_update(shaken, fields, batch_size=200)
    return lease, _find_lost(kept, len(now), lease) if kept else set()


def _insert(streams: Collection[PushStream]) -> None:
    from django.db import router, transaction

    from django_mcp.models.sessions import Stream
    from django_mcp.workers import worker_id

    rows = [_to_row(stream, worker_id()) for stream in streams]
    with transaction.atomic(router.db_for_write(Stream)):
        Stream.objects.bulk_create(rows, ignore_conflicts=True, batch_size=200)


def _find_lost(kept: Iterable[str], count: int, lease: int) -> set[str]:
    """Return which of the streams that were written before have no row any more.

    Args:
        count: how many rows there should be in all.
        lease: under which they were written; if that has ended, nobody deleted them on purpose.
    """
    from django_mcp.models.sessions import Stream, Worker
    from django_mcp.workers import lease_number, worker_id

    rows = Stream.objects.filter(worker_id=worker_id()).exclude(kind=Stream.Kind.CALL)
    if rows.count() >= count:
        return set()
    wanted = list(kept)
    found: set[str] = set()
    for start in range(0, len(wanted), 200):
        keys = [uuid.UUID(id) for id in wanted[start : start + 200]]
        rows = Stream.objects.filter(pk__in=keys).order_by()
        found.update(pk.hex for pk in rows.values_list("pk", flat=True))
    # Asked last: what was there until now has not taken them along.
    is_held = Worker.objects.filter(pk=worker_id()).exists() and lease == lease_number()
    return set(wanted) - found if is_held else set()


def _tell(in_flight: JSONObject | None) -> None:
    from django_mcp.models.sessions import Worker
    from django_mcp.workers import worker_id

    Worker.objects.filter(pk=worker_id()).update(in_flight=in_flight)


def _to_row(stream: PushStream, worker: uuid.UUID) -> Any:
    from django_mcp.models.sessions import Stream

    client_name, client_version = name_and_version(stream.client_info)
    return Stream(
        pk=uuid.UUID(stream.id),
        kind=stream.kind.value,
        worker_id=worker,
        session_id=uuid.UUID(stream.session.key) if stream.session is not None else None,
        server=stream.server_name[:100],
        principal_key=(getattr(stream.principal, "key", None) or "")[:128],
        user_id=getattr(getattr(stream.principal, "user", None), "pk", None),
        revision=stream.revision_name,
        client_name=client_name,
        client_version=client_version,
        lists=",".join(sorted(stream.lists)),
        uri_count=len(stream.uris),
        uri_digests=_join_digests(stream.uris) if stream.session is None else "",
        queued_events=stream.queued_events,
    )


def is_any_listening(server: str, uri: str) -> bool:
    """Return whether a stream without a session subscribed to a resource, in any process."""
    from django.utils import timezone

    from django_mcp.models.sessions import Stream

    rows = Stream.objects.filter(server=server[:100], uri_digests__contains=_join_digests((uri,)))
    return rows.filter(worker__lease_until__gt=timezone.now()).exists()


def _join_digests(uris: Iterable[str]) -> str:
    # Half of a digest is enough to tell resources apart.
    found = (hashlib.sha256(uri.encode("utf-8", "surrogatepass")).hexdigest()[:32] for uri in uris)
    return " ".join(found)


def _forget() -> None:
    # The streams stayed behind in the parent process.
    global _told
    _written.clear()
    _told = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
