"""Data of a session that other processes need: the answers to its questions, and the events of its streams."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.db import IntegrityError
from django.db.models import QuerySet
from django.utils import timezone

from django_mcp.execution.tables import Usage, caller_of
from django_mcp.execution.workers import worker_id
from django_mcp.log import logger
from django_mcp.models.sessions import PendingAnswer, Stream, StreamEvent
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.protocol.sanitize import name_and_version
from django_mcp.server.exchange.quotas import Limits, QuotaReached
from django_mcp.server.exchange.session import Session
from django_mcp.server.ports import Event, Resumption, StoreUnavailable
from django_mcp.sessions.site.rows import ask_database, write_database
from django_mcp.sessions.site.writer import flush_sessions, session_writer

MAX_STREAM_EVENTS = 1000
MAX_STREAM_BYTES = 8 * 1024 * 1024
"""Size recorded of one stream. Its last event, the response, always is recorded."""

MAX_ID = 64

SMALL_BYTES = 1024
"""Smaller answers are not counted, since the number of questions is limited."""

_usage = Usage(
    PendingAnswer.objects.all,
    "size",
    Limits(own_count=250, own_bytes=16 * 1024 * 1024, count=10_000, bytes=256 * 1024 * 1024),
)


def _rows(session: Session, ask_id: str) -> QuerySet[PendingAnswer]:
    return PendingAnswer.objects.filter(session_id=UUID(session.key), ask_id=ask_id)


class DatabaseResponseRelay:
    """Store the first response to each request to a client. See `ResponseRelay`."""

    async def put(self, session: Session, ask_id: str, response: JSONObject) -> bool:
        if len(ask_id) > MAX_ID or "\0" in ask_id:
            return False
        now = timezone.now()
        waiting = _rows(session, ask_id).filter(answered_at=None, expires_at__gt=now)
        size = len(encode(response))

        def write() -> bool:
            is_counted = size > SMALL_BYTES and waiting.exists()
            scope = _usage.take(caller_of(session), size, count=0) if is_counted else None
            if scope is not None:
                raise QuotaReached(scope)
            # One statement, so that of two responses the first one stays.
            return bool(waiting.update(answer=response, answered_at=now, size=size))

        return await write_database(write, lambda: True, size)

    async def take(self, session: Session, ask_id: str) -> JSONObject | None:
        """See `ResponseRelay.take`; also returns None while the database is down, since it is retried."""
        with suppress(StoreUnavailable):
            row = await ask_database(_rows(session, ask_id).first)
            return row.answer if row is not None else None
        return None


class DatabasePendingResponses:
    """Store requests to clients in the site's database until they are answered. See `PendingResponses`."""

    relay = DatabaseResponseRelay()

    async def expect(self, session: Session, ask_id: str, timeout_s: float) -> bool:
        now = timezone.now()
        row = PendingAnswer(
            session_id=UUID(session.key),
            ask_id=ask_id,
            created_at=now,
            expires_at=now + timedelta(seconds=timeout_s),
        )

        def insert() -> None:
            scope = _usage.take(caller_of(session), 0)
            if scope is not None:
                raise QuotaReached(scope)
            row.save(force_insert=True)

        try:
            await write_database(insert, lambda: None)
        except IntegrityError:
            if await ask_database(_rows(session, ask_id).exists):
                return False
            # The session has ended, so the client cannot answer.
            raise StoreUnavailable from None
        return True

    async def forget(self, session: Session, ask_id: str) -> None:
        """See `PendingResponses.forget`; while the database is down the row is left to expire."""
        rows = _rows(session, ask_id)

        def delete() -> None:
            sizes = list(rows.values_list("size", flat=True))
            rows.delete()
            _usage.give_back(caller_of(session), sum(sizes), count=len(sizes))

        with suppress(StoreUnavailable):
            await write_database(delete, lambda: None)


@dataclass(slots=True)
class _Running:
    """A stream whose call runs in this process, and how much of it was recorded."""

    session_key: str
    count: int = 0
    bytes: int = 0


class DatabaseEvents:
    """Record events in the site's database. See `EventLog`."""

    def __init__(self) -> None:
        self._running: dict[str, _Running] = {}

    def open(self, stream_id: str, session: Session) -> None:
        self._running[stream_id] = _Running(session.key)
        client_name, client_version = name_and_version(session.client_info)
        session_writer.get().put_stream(
            Stream(
                id=UUID(stream_id),
                kind=Stream.Kind.CALL,
                worker_id=worker_id(),
                session_id=UUID(session.key),
                server=session.server_name,
                principal_key=session.principal_key or "",
                user_id=getattr(session.state, "user_id", None),
                revision=session.revision.name if session.revision is not None else "",
                client_name=client_name,
                client_version=client_version,
            )
        )

    def append(self, stream_id: str, session: Session, event: Event) -> None:
        running = self._running.get(stream_id)
        if running is None:
            return
        running.count += 1
        running.bytes += len(event.message)
        is_over = running.count > MAX_STREAM_EVENTS or running.bytes > MAX_STREAM_BYTES
        if is_over and not event.is_last:
            logger.warning("Stream %s: too much was sent, so not all of it is recorded", stream_id)
            return
        row = StreamEvent(
            stream_id=UUID(stream_id),
            session_id=UUID(session.key),
            number=event.number,
            message=event.message.decode(),
            is_last=event.is_last,
            size=len(event.message),
        )
        session_writer.get().put_event((row, session.server_name, session.quota_key))
        if event.is_last:
            self.close(stream_id, session)

    def close(self, stream_id: str, session: Session) -> None:
        if self._running.pop(stream_id, None) is not None:
            session_writer.get().end_stream(UUID(stream_id))

    async def read(self, stream_id: str, session: Session, after: int) -> Resumption | None:
        running = self._running.get(stream_id)
        if running is not None and running.session_key != session.key:
            return None
        stream, key = UUID(stream_id), UUID(session.key)
        rows = StreamEvent.objects.filter(stream_id=stream, session_id=key)

        def read() -> Resumption | None:
            if session_writer.get().has_waiting:
                flush_sessions()
            # First whether it runs: if it ends meanwhile, its last event is already recorded.
            alive = Stream.objects.filter(
                pk=stream, session_id=key, worker__lease_until__gt=timezone.now()
            )
            is_running = running is not None or alive.exists()
            events_after = rows.filter(number__gt=after).order_by("number")
            events = [
                Event(number=number, message=message.encode(), is_last=is_last)
                for number, message, is_last in events_after.values_list(
                    "number", "message", "is_last"
                )
            ]
            if not events and not is_running and not rows.exists():
                return None
            is_over = bool(events) and events[-1].is_last
            return Resumption(events=events, is_running=is_running and not is_over)

        return await ask_database(read)
