"""DatabaseEvents: the events sent on the streams of calls, so that any process can resume them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from django_mcp.execution.workers import worker_id
from django_mcp.models.sessions import Stream, StreamEvent
from django_mcp.protocol.texts import name_and_version
from django_mcp.server.exchange.connection import Session
from django_mcp.server.services.ports import Event, Replay
from django_mcp.sessions.rows import ask_database
from django_mcp.sessions.writer import flush_sessions, session_writer

logger = logging.getLogger("django_mcp")

MAX_STREAM_EVENTS = 1000
MAX_STREAM_BYTES = 8 * 1024 * 1024
"""Size recorded of one stream. Its last event, the response, always is recorded. Our own limit."""


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

    async def read(self, stream_id: str, session: Session, after: int) -> Replay | None:
        running = self._running.get(stream_id)
        if running is not None and running.session_key != session.key:
            return None
        stream, key = UUID(stream_id), UUID(session.key)
        rows = StreamEvent.objects.filter(stream_id=stream, session_id=key)

        def read() -> Replay | None:
            if session_writer.get().has_waiting:
                flush_sessions()
            # First whether it runs: if it ends meanwhile, its last event is already recorded.
            alive = Stream.objects.filter(
                pk=stream, session_id=key, worker__lease_until__gt=timezone.now()
            )
            is_running = running is not None or alive.exists()
            events = _read_events(rows, after)
            if not events and not is_running and not rows.exists():
                return None
            is_over = bool(events) and events[-1].is_last
            return Replay(events=events, is_running=is_running and not is_over)

        return await ask_database(read)


def _read_events(rows: QuerySet[StreamEvent], after: int) -> list[Event]:
    found = rows.filter(number__gt=after).order_by("number")
    return [
        Event(number=number, message=message.encode(), is_last=is_last)
        for number, message, is_last in found.values_list("number", "message", "is_last")
    ]
