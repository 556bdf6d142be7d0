"""DatabaseAnswers: passes clients' answers from the process that receives them to the one waiting."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db import IntegrityError
from django.db.models import QuerySet
from django.utils import timezone

from django_mcp.execution.tables import Usage, caller_of
from django_mcp.models.sessions import PendingAnswer
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.server.exchange.connection import Session
from django_mcp.server.exchange.quotas import Limits, QuotaReached
from django_mcp.server.services.ports import StoreUnavailable
from django_mcp.sessions.rows import ask_database

MAX_ID = 64

SMALL_BYTES = 1024
"""Smaller answers are not counted, since the number of questions is limited. Our own limit."""

_usage = Usage(
    PendingAnswer.objects.all,
    "size",
    Limits(own_count=250, own_bytes=16 * 1024 * 1024, count=10_000, bytes=256 * 1024 * 1024),
)


class DatabaseAnswers:
    """Store pending questions and their first answers in the site's database. See `AnswerBox`."""

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
            await ask_database(insert)
        except IntegrityError:
            rows = PendingAnswer.objects.filter(session_id=row.session_id, ask_id=ask_id)
            if await ask_database(rows.exists):
                return False
            # The session has ended, so the client cannot answer.
            raise StoreUnavailable from None
        return True

    async def put(self, session: Session, ask_id: str, answer: JSONObject) -> bool:
        if len(ask_id) > MAX_ID or "\0" in ask_id:
            return False
        now = timezone.now()
        waiting = PendingAnswer.objects.filter(
            session_id=UUID(session.key),
            ask_id=ask_id,
            answered_at=None,
            expires_at__gt=now,
        )
        size = len(encode(answer))

        def write() -> bool:
            is_counted = size > SMALL_BYTES and waiting.exists()
            scope = _usage.take(caller_of(session), size, count=0) if is_counted else None
            if scope is not None:
                raise QuotaReached(scope)
            # One statement, so that of two answers the first one stays.
            return bool(waiting.update(answer=answer, answered_at=now, size=size))

        return await ask_database(write)

    async def take(self, session: Session, ask_id: str) -> JSONObject | None:
        """See `AnswerBox.take`; also returns None while the database is down, since it is retried."""
        rows = PendingAnswer.objects.filter(session_id=UUID(session.key), ask_id=ask_id)
        try:
            found = await ask_database(rows.first)
        except StoreUnavailable:
            return None
        return found.answer if found is not None else None

    async def forget(self, session: Session, ask_id: str) -> None:
        """See `AnswerBox.forget`; while the database is down the row is left to expire."""
        rows = PendingAnswer.objects.filter(session_id=UUID(session.key), ask_id=ask_id)

        def delete() -> None:
            sizes = list(rows.values_list("size", flat=True))
            rows.delete()
            _usage.give_back(caller_of(session), sum(sizes), count=len(sizes))

        try:
            await ask_database(delete)
        except StoreUnavailable:
            return


def expired_answers() -> QuerySet[PendingAnswer]:
    """Return the questions that have expired."""
    return PendingAnswer.objects.filter(expires_at__lt=timezone.now() - timedelta(minutes=1))
