"""The rows that show the admin and other processes what is open in this process, and what is in flight.

What is open is compared on each tick of the hub (`TICK_S`) with what was written, so that nothing has
to be written while a stream opens or ends, or a request comes. This also renews the lease of this
process. A stream whose row was deleted is closed: the message to close it may have been lost.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
import uuid
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any, TypeAlias

from django.db import IntegrityError, router, transaction
from django.utils import timezone

from django_mcp.execution.own_writes import DEFER_AFTER_S, write_in_pool, writes_wait
from django_mcp.execution.tables import insert_missing, moment
from django_mcp.execution.threads import find_pool_states, run_in_pool
from django_mcp.execution.workers import LEASE_S, worker_id, worker_lease
from django_mcp.models.sessions import Stream, Worker
from django_mcp.process import PerProcess
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.sanitize import clean, name_and_version
from django_mcp.push.call_reports import LISTEN, cancel_calls, report_calls
from django_mcp.server.clients import SessionHandle, StreamHandle
from django_mcp.server.exchange.call import Call
from django_mcp.server.exchange.caller import key_of
from django_mcp.server.exchange.session import Session
from django_mcp.server.services import ServerHub
from django_mcp.server.streams.stream import Ending, PushStream, StreamKind

_State: TypeAlias = tuple[tuple[int, int], tuple[set[str] | None, str]]
"""The contents of a stream's row: the number of its URIs and of its queued messages; its URIs (None: they are
those of its session) and its revision. The last changes when a stream begins with a handshake."""

_FIELDS = (
    ("uri_count", "queued_events"),
    ("uri_digests", "revision", "client_name", "client_version"),
)
"""The fields that each part of a state is written to."""

MAX_NAMED = 200
"""Sessions and callers that are listed, those with most calls first."""

MAX_HELD = 5
HELD_AFTER_S = 5.0
"""Threads that are listed with what they run, and after how long."""


def count_requests(hub: ServerHub) -> JSONObject | None:
    """Return the calls in flight in a process; None: there are none.

    The shape is `{"total": 3, "sessions": {key: 2}, "callers": [[server, principal key, primary
    key of the user, revision, client name, client version, 1]], "threads": [busy threads, all
    threads, calls that wait for one], "held": [[what occupies a thread for long, since when]],
    "exhausted": since when no thread became free, or None, "long": [what `report_calls` says of
    calls], "long_count": how many there are}`.
    """
    # A task goes on after its request was answered.
    running = [call for call in hub.calls if call.method != LISTEN and call.detached_run is None]
    sessions = Counter(
        call.connection.key for call in running if isinstance(call.connection, Session)
    )
    pool, now_s = find_pool_states().get("SYNC_THREADS"), time.time()
    busy = [] if pool is None else pool.running
    threads = [0, 0, 0] if pool is None else [len(busy), pool.max_threads, pool.waiting]
    long, long_count = report_calls(hub)
    # A handler runs on after its call has timed out.
    if not running and not busy and not long:
        return None
    callers = Counter(map(_caller, running))
    return {
        "total": len(running),
        "sessions": dict(sessions.most_common(MAX_NAMED)),
        "callers": [[*who, count] for who, count in callers.most_common(MAX_NAMED)],
        "threads": threads,
        "held": [
            [what, int(now_s - seconds)]
            for what, seconds in busy[:MAX_HELD]
            if seconds >= HELD_AFTER_S
        ],
        "exhausted": (
            round(now_s - (pool.short_s or 0.0)) if pool is not None and pool.is_exhausted else None
        ),
        "long": long,
        "long_count": long_count,
    }


def _caller(call: Call) -> tuple[str, ...]:
    principal = call.exchange.caller.principal
    user = getattr(getattr(principal, "user", None), "pk", None)
    return (
        clean(call.options.name, 100),
        key_of(principal) or "",
        "" if user is None else str(user),
        call.rules.name,
        *name_and_version(call.connection.client_info),
    )


class StreamRows:
    """The rows of a process: compared with the hub of the process, and written."""

    def __init__(self) -> None:
        self._written: dict[str, _State] = {}
        self._in_flight: JSONObject | None = None
        self._writing: asyncio.Task[None] | None = None
        self._lease = 0
        """The number of the lease of this process under which they were written."""

    @property
    def are_any(self) -> bool:
        """Whether the tables contain anything of this process."""
        return bool(self._written) or self._in_flight is not None

    async def write(self, hub: ServerHub) -> None:
        """Write what is open and in flight now, and close streams whose rows were deleted.

        It goes on without this if SQLite is locked, since its caller has more to do.
        """
        if not writes_wait():
            await self._write(hub)
            return
        loop, writing = asyncio.get_running_loop(), self._writing
        if writing is None or writing.done() or writing.get_loop() is not loop:
            writing = self._writing = loop.create_task(self._write(hub))
        await asyncio.wait((writing,), timeout=DEFER_AFTER_S)
        if writing.done():
            writing.result()

    async def _write(self, hub: ServerHub) -> None:
        now: dict[str, _State] = {
            id: ((len(each.uris), each.queued_events), (_own_uris(each), each.revision_name))
            for id, each in hub.streams.items()
        }
        in_flight, streams = count_requests(hub), dict(hub.streams)
        if not (now or self._written or in_flight or self._in_flight):
            return
        has_long = in_flight is not None and bool(in_flight["long"])

        def write() -> tuple[int, set[str], list[str]]:
            lease, lost = self._store(now, streams)
            # A new row of the process contains no requests.
            if in_flight != (self._in_flight if lease == self._lease else None):
                Worker.objects.filter(pk=worker_id()).update(in_flight=in_flight)
            return lease, lost, _take_cancelled() if has_long else []

        # If it fails, all of it is written again.
        lease, lost, cancelled = await write_in_pool(write)
        cancel_calls(hub, cancelled)
        self._written, self._in_flight, self._lease = now, in_flight, lease
        for id in lost & hub.streams.keys():
            hub.streams[id].end(Ending.CLOSED)

    def _store(
        self, now: dict[str, _State], streams: dict[str, PushStream]
    ) -> tuple[int, set[str]]:
        """Write what has changed; return the lease, and the streams whose rows were deleted."""
        worker_lease.hold()
        written, lease = self._written, worker_lease.number
        # With the row of this process, those of its streams are deleted.
        known = set(written) if lease == self._lease else set()
        new = [streams[id] for id in now.keys() - known]
        try:
            _insert(new)
        except IntegrityError:
            # The row was deleted because this process renewed its lease too late.
            worker_lease.hold(is_due=True)
            _insert(new)
        gone = written.keys() - now.keys()
        if gone:
            Stream.objects.filter(pk__in=[uuid.UUID(id) for id in gone]).delete()
        kept = now.keys() & known
        for part, fields in enumerate(_FIELDS):
            changed = [_to_row(streams[id]) for id in kept if now[id][part] != written[id][part]]
            if changed:
                Stream.objects.bulk_update(changed, fields, batch_size=200)
        # The rows that are missing were closed by the site, unless the lease under which they were written
        # has ended.
        rows = Stream.objects.filter(worker_id=worker_id()).exclude(kind=Stream.Kind.CALL)
        if not kept or rows.count() >= len(now):
            return lease, set()
        stored = {pk.hex for pk in rows.order_by().values_list("pk", flat=True)}
        # Checked last: the row of the process was there until now, so its deletion has deleted no others.
        is_held = Worker.objects.filter(pk=worker_id()).exists() and lease == worker_lease.number
        return lease, kept - stored if is_held else set()


def _take_cancelled() -> list[str]:
    """Return the calls of this process that operators cancel, and forget them."""
    row = Worker.objects.filter(pk=worker_id())
    cancelled: list[str] = row.values_list("cancelled", flat=True).first() or []
    if cancelled:
        # Unless another was added meanwhile: then all are cancelled again.
        row.filter(cancelled=cancelled).update(cancelled=None)
    return cancelled


stream_rows = PerProcess(StreamRows)


async def sign_off(_hub: ServerHub) -> None:
    """Delete the row of a process that was idle for a while, and now and then those of killed processes."""
    if worker_lease.is_idle():
        await write_in_pool(worker_lease.let_go, otherwise=lambda: None)
    if worker_lease.is_sweep_due():
        await write_in_pool(worker_lease.sweep, otherwise=lambda: None)


async def take_over(hub: ServerHub) -> None:
    """Activate streams of sessions whose newer streams were in processes that have died.

    The row of a newer stream is not there at once, so those that were claimed lately are left out.
    """
    before_s = asyncio.get_running_loop().time() - LEASE_S
    inactive = {
        uuid.UUID(key): stream
        for key, stream in hub.find_inactive().items()
        if stream.claimed_s < before_s
    }
    if not inactive:
        return
    rows = Stream.objects.filter(session__in=inactive, worker__lease_until__gt=timezone.now())
    others = rows.exclude(worker_id=worker_id()).exclude(kind=Stream.Kind.CALL)
    session_rows = others.order_by("opened_at").values_list("session_id", "opened_at")
    newest = await run_in_pool(lambda: dict(session_rows))
    for key, stream in inactive.items():
        is_older = key in newest and newest[key].timestamp() > stream.opened_at
        if not is_older and stream.claimed_s < before_s:
            hub.take_over(key.hex, stream)
            await asyncio.sleep(0)


def _own_uris(stream: PushStream) -> set[str] | None:
    if stream.session is not None:
        return None
    # The set of a pipe changes. That of a listening stream does not, so that comparing it costs nothing.
    return set(stream.uris) if stream.kind is StreamKind.STDIO else stream.uris


def _insert(streams: Collection[PushStream]) -> None:
    rows = [_to_row(stream) for stream in streams]
    with transaction.atomic(router.db_for_write(Stream)):
        insert_missing(rows, "server", batch_size=200)


def _to_row(stream: PushStream) -> Any:
    client_name, client_version = name_and_version(stream.client_info)
    return Stream(
        pk=uuid.UUID(stream.id),
        kind=stream.kind.value,
        worker_id=worker_id(),
        session_id=uuid.UUID(stream.session.key) if stream.session is not None else None,
        server=stream.server_name[:100],
        principal_key=(key_of(stream.principal) or "")[:128],
        user_id=getattr(getattr(stream.principal, "user", None), "pk", None),
        revision=stream.revision_name,
        opened_at=moment(stream.opened_at),
        client_name=client_name,
        client_version=client_version,
        lists=",".join(sorted(stream.lists)),
        uri_count=len(stream.uris),
        uri_digests=_join_digests(list(stream.uris)) if stream.session is None else "",
        queued_events=stream.queued_events,
    )


def is_any_listening(server: str, uri: str) -> bool:
    """Return whether a stream without a session subscribed to a resource, in any process."""
    rows = Stream.objects.filter(server=server[:100], uri_digests__contains=_join_digests((uri,)))
    return rows.filter(worker__lease_until__gt=timezone.now()).exists()


def read_streams(server: str) -> list[tuple[StreamHandle, SessionHandle | None]]:
    """Return the open streams of a server in other processes, with their sessions."""
    rows = (
        Stream.objects.filter(server=server, worker__lease_until__gt=timezone.now())
        .exclude(kind=Stream.Kind.CALL)
        .exclude(worker_id=worker_id())
        .select_related("session")
        .order_by("opened_at", "pk")
    )
    return [(_to_stream(row), _to_session(row.session)) for row in rows]


def _to_stream(row: Any) -> StreamHandle:
    return StreamHandle(
        id=row.pk.hex,
        kind=row.kind,
        server=row.server,
        principal=row.principal_key or None,
        session=row.session_id.hex if row.session_id is not None else None,
        client_info={"name": row.client_name, "version": row.client_version},
        revision=row.revision,
        uris=row.uri_count,
        queued_events=row.queued_events,
        queued_bytes=0,
    )


def _to_session(row: Any) -> SessionHandle | None:
    if row is None:
        return None
    return SessionHandle(
        key=row.pk.hex,
        server=row.server,
        principal=row.principal_key or None,
        client_info=row.client_info,
        revision=row.revision,
    )


def _join_digests(uris: Iterable[str]) -> str:
    # Half of a digest is enough to tell resources apart.
    digests = (
        hashlib.sha256(uri.encode("utf-8", "surrogatepass")).hexdigest()[:32] for uri in uris
    )
    return " ".join(digests)
