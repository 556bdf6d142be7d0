"""`manage.py mcp_prune`: expired rows are counted and deleted; nothing else is."""

from __future__ import annotations

import uuid
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db.models import Model
from django.utils import timezone

from django_mcp.extensions.tasks.site.models import Task
from django_mcp.models import (
    APIKey,
    BusMessage,
    CallRecord,
    CallTally,
    ErrorGroup,
    GivenLink,
    KeptState,
    LastCall,
    PageVisit,
    PendingAnswer,
    Session,
    SessionItem,
    Stream,
    StreamEvent,
    Subscription,
    UsedState,
    Worker,
)
from django_mcp.server.exchange.digests import digest_of

NAMES = (
    "processes",
    "sessions",
    "messages",
    "calls",
    "tallies",
    "errors",
    "last calls",
    "questions",
    "events",
    "states",
    "pages",
    "links",
    "keys",
    "tasks",
)


OF_OAUTH = [
    "tokens of OAuth",
    "exchanged tokens of OAuth",
    "used assertions",
    "clients of OAuth",
    "sign-ins",
]
"""What the OAuth part adds; its own tests make such rows."""

NONE_SETTLED = "tasks of processes that are gone: 0 settled"


def make_session(server: str, seen: timedelta, age: timedelta = timedelta(days=1)) -> Session:
    now = timezone.now()
    session = Session.objects.create(
        digest=uuid.uuid4().hex,
        server=server,
        revision="2025-11-25",
        last_seen_at=now - seen,
        expires_at=now + age,
    )
    SessionItem.objects.create(session=session, key="a", value=1)
    Subscription.objects.create(session=session, uri="a:1", uri_digest="1")
    return session


def make_all() -> None:
    """Two expired rows of each kind, and a current one."""
    now, hour = timezone.now(), timedelta(hours=1)
    # The process of the tests may have written itself down for an earlier one.
    Worker.objects.all().delete()
    make_session("example-shop", 2 * hour)
    make_session("no-more", 2 * hour)
    kept = make_session("example-shop", timedelta(0))
    user = get_user_model().objects.create_user("visitor")
    for past in (2 * hour, hour, -hour):
        PageVisit.objects.create(user=user, server="a", path="/", expires_at=now - past)
        PendingAnswer.objects.create(session=kept, ask_id=uuid.uuid4().hex, expires_at=now - past)
        StreamEvent.objects.create(
            stream_id=uuid.uuid4(),
            session=kept,
            number=1,
            message="",
            size=0,
            created_at=now - past,
        )
        worker = Worker.objects.create(host="a", pid=1, lease_until=now - past)
        Stream.objects.create(worker=worker, session=kept, kind="call", server="example-shop")
        BusMessage.objects.create(sender="a", body="{}", created_at=now - past)
        Task.objects.create(
            id=uuid.uuid4().hex,
            server="a",
            call={},
            rounds={},
            created_at=now,
            updated_at=now,
            expires_at=now - past,
            ttl_ms=1,
            poll_ms=1,
        )
        CallRecord.objects.create(
            started_at=now - past * 1000, minute=0, duration_ms=1, step=0, method="tools/call"
        )
        ErrorGroup.objects.create(
            fingerprint=uuid.uuid4().hex,
            outcome="fault",
            first_seen_at=now - past * 1000,
            last_seen_at=now - past * 1000,
        )
        minute = int((now - past * 1000).timestamp() // 60)
        CallTally.objects.create(width=15, minute=minute, step=0, calls=1)
        LastCall.objects.create(digest=str(minute), started_s=60 * minute)
    for number, (revoked, expires) in enumerate([(90, None), (None, 90), (89, 1), (None, None)]):
        APIKey.objects.create(
            user=user,
            name="key",
            prefix=str(number),
            digest=str(number),
            revoked_at=None if revoked is None else now - timedelta(days=revoked),
            expires_at=None if expires is None else now - timedelta(days=expires),
        )
    for digest in ("gone 1", "gone 2"):
        GivenLink.objects.create(digest=digest, expires_at=now - hour)
    GivenLink.objects.create(digest="kept", expires_at=now + hour)
    for model in (KeptState, UsedState):
        model.objects.create(digest="gone", expires_at=now - hour, **_value(model))
        model.objects.create(digest="kept", expires_at=now + hour, **_value(model))


def _value(model: Any) -> dict[str, Any]:
    return {"value": b"", "size": 0} if model is KeptState else {}


def prune(*options: str) -> list[str]:
    out = StringIO()
    call_command("mcp_prune", *options, stdout=out)
    return out.getvalue().splitlines()


@pytest.mark.django_db
def test_expired_rows_are_deleted():
    make_all()

    assert prune() == [
        *(f"{name}: 2 deleted" for name in NAMES),
        *(f"{name}: 0 deleted" for name in OF_OAUTH),
        NONE_SETTLED,
    ]

    assert set(APIKey.objects.values_list("prefix", flat=True)) == {"2", "3"}
    left: tuple[type[Model], ...] = (Session, SessionItem, Subscription, PendingAnswer, StreamEvent)
    left += (
        Worker,
        Stream,
        CallRecord,
        CallTally,
        ErrorGroup,
        LastCall,
        KeptState,
        UsedState,
        GivenLink,
        PageVisit,
        BusMessage,
        Task,
    )
    assert [model._default_manager.count() for model in left] == [1] * len(left)
    assert prune() == [*(f"{name}: 0 deleted" for name in (*NAMES, *OF_OAUTH)), NONE_SETTLED]


@pytest.mark.django_db
def test_a_dry_run_is_announced_and_deletes_nothing():
    make_all()

    settled = "tasks of processes that are gone: 0 would be settled"
    expected = [
        *(f"{name}: 2 would be deleted" for name in NAMES),
        *(f"{name}: 0 would be deleted" for name in OF_OAUTH),
        settled,
    ]
    assert prune("--dry-run") == expected
    assert prune("--dry-run") == expected


@pytest.mark.django_db
def test_a_task_of_a_dead_process_ends():
    now = timezone.now()
    Task.objects.create(
        id=digest_of("lapsed"),
        secret="lapsed",
        server="example-shop",
        tool="gone",
        revision="2026-07-28",
        call={},
        rounds={},
        status="working",
        run="x",
        leased_until=now - timedelta(minutes=1),
        created_at=now,
        updated_at=now,
        expires_at=now + timedelta(hours=1),
        ttl_ms=1,
        poll_ms=1,
    )

    assert prune("--dry-run")[-1] == "tasks of processes that are gone: 1 would be settled"
    assert prune()[-1] == "tasks of processes that are gone: 1 settled"

    assert Task.objects.get().status == "failed"


@pytest.mark.django_db
def test_more_rows_than_one_batch_are_deleted():
    now = timezone.now()
    session = make_session("example-shop", timedelta(0))
    StreamEvent.objects.bulk_create(
        StreamEvent(
            stream_id=uuid.uuid4(),
            session=session,
            number=1,
            message="",
            size=0,
            created_at=now - timedelta(hours=1),
        )
        for _ in range(1201)
    )

    assert "events: 1201 deleted" in prune()
