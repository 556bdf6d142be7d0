"""The live page by request and response: its content, its actions, and its permissions."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import AsyncClient, Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from django_mcp.admin.live_rows import NEWEST_CALLS, PER_PAGE, SHOWN, LiveFilter, changes
from django_mcp.auth.principal import make_key
from django_mcp.models import APIKey, CallRecord, Session, Stream, Subscription, Worker
from django_mcp.protocol.json import decode, encode
from tests.support.wire import V2025_11_25
from tests.unit.admin.test_pages import client_of, url

SCRIPT = "<script>alert(1)</script>\u202e"


pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def worker() -> Worker:
    return make_worker()


def make_worker(lease_s: int = 60) -> Worker:
    until = timezone.now() + timedelta(seconds=lease_s)
    return Worker.objects.create(host="web-1", pid=7, lease_until=until)


def make_session(**values: Any) -> Session:
    return Session.objects.create(
        digest=uuid.uuid4().hex,
        server="django-mcp",
        revision=V2025_11_25.name,
        expires_at=timezone.now() + timedelta(hours=1),
        **{"client_name": "desktop", **values},
    )


def make_stream(worker: Worker, **values: Any) -> Stream:
    found = {"server": "django-mcp", "kind": "get", **values}
    return Stream.objects.create(worker=worker, **found)


def act(client: Client, name: str, row: Any, **more: str) -> Any:
    pk = row if isinstance(row, str) else row.pk.hex
    return client.post(url("live_act"), {"act": name, "id": pk, **more})


# -- content


def test_connected_sessions_and_streams_are_shown(admin: Client, worker: Worker):
    user = get_user_model().objects.get()
    session = make_session(user=user, client_version="2")
    make_stream(worker, session=session, user=user, queued_events=3)
    found = admin.get(url("live_data")).json()

    [shown] = found["sessions"]
    assert (shown["id"], shown["client"], shown["user"]) == (session.pk.hex, "desktop 2", "boss")
    [stream] = found["streams"]
    assert (stream["session"], stream["queued"], stream["worker"]) == (session.pk.hex, 3, "web-1:7")
    assert found["workers"][0]["is_alive"] is True


def test_streams_of_a_dead_worker_are_not_shown_as_open(admin: Client):
    make_stream(make_worker(lease_s=-1))
    found = admin.get(url("live_data")).json()

    assert found["streams"] == []
    assert found["workers"][0]["is_alive"] is False


def test_subscriptions_of_expired_sessions_are_not_counted(admin: Client):
    over = make_session()
    for session in (over, make_session()):
        Subscription.objects.create(session=session, uri="x:y", uri_digest=uuid.uuid4().hex)
    Session.objects.filter(pk=over.pk).update(expires_at=timezone.now())

    assert admin.get(url("live_data")).json()["counts"]["subscriptions"] == 1


def test_hostile_names_are_truncated_and_escaped(admin: Client, worker: Worker):
    make_session(client_name=SCRIPT, client_version="9" * 50, principal_key="p" * 128)

    [shown] = admin.get(url("live_data")).json()["sessions"]
    assert "\\u202e" in shown["client"]
    assert "\u202e" not in shown["client"]
    assert max(len(str(value)) for value in shown.values()) < 100
    page = admin.get(url("session_changelist")).content.decode()
    assert "<script>alert" not in page


def test_many_rows_need_few_queries(admin: Client, worker: Worker):
    user = get_user_model().objects.get()
    now = timezone.now()
    Session.objects.bulk_create(
        Session(
            digest=uuid.uuid4().hex, server="s", revision="r", expires_at=now + timedelta(hours=1)
        )
        for _ in range(1000)
    )
    Stream.objects.bulk_create(Stream(worker=worker, server="s", kind="get") for _ in range(500))
    Worker.objects.update(
        in_flight={"callers": [["s", f"p{at}", str(user.pk), "r", "c", "", 1] for at in range(300)]}
    )
    Subscription.objects.bulk_create(
        Subscription(session=Session.objects.all()[0], uri="x:y", uri_digest=str(at))
        for at in range(3)
    )
    make_calls("p1", 5, user=user)
    # Including the query for the signed-in user.
    with CaptureQueriesContext(connection) as asked:
        found = admin.get(url("live_data")).json()

    assert len(asked) <= 10, [each["sql"] for each in asked]
    assert found["counts"] == {
        "sessions": 1000,
        "streams": 500,
        "subscriptions": 3,
        "workers": 1,
        "callers": SHOWN,
    }
    shown = [len(found[name]) for name in ("sessions", "streams", "callers")]
    assert shown == [PER_PAGE] * 3
    assert len(encode(found)) < 20_000


def make_calls(principal: str, count: int, user: Any = None) -> None:
    now = timezone.now()
    CallRecord.objects.bulk_create(
        CallRecord(
            started_at=now - timedelta(microseconds=at),
            minute=0,
            duration_ms=1,
            step=0,
            principal=principal,
            user=user,
        )
        for at in range(count)
    )


def test_recent_callers_are_shown_with_their_number_of_calls(admin: Client):
    make_calls("p1", 3, user=get_user_model().objects.get())
    make_calls("p2", 2)
    CallRecord.objects.filter(principal="p2").update(client_name="desktop")
    make_calls("gone", 1)
    CallRecord.objects.filter(principal="gone").update(
        started_at=timezone.now() - timedelta(minutes=16)
    )
    found = admin.get(url("live_data")).json()["callers"]

    callers = {each["user"]: (each["client"], each["calls"]) for each in found}
    assert callers == {"boss": ("?", 3), "p2": ("desktop", 2)}


@pytest.mark.slow
def test_only_the_newest_calls_are_counted_on_large_tables(admin: Client):
    make_calls("long ago", 1)
    CallRecord.objects.update(started_at=timezone.now() - timedelta(minutes=1))
    make_calls("busy", NEWEST_CALLS + 10)
    [shown] = admin.get(url("live_data")).json()["callers"]

    assert shown["user"] == "busy"
    assert shown["calls"].endswith("+")
    assert int(shown["calls"][:-1]) in range(NEWEST_CALLS, NEWEST_CALLS + 10)


def test_empty_counts_are_shown_as_zero(admin: Client):
    Worker.objects.all().delete()

    counts = dict.fromkeys(("sessions", "streams", "subscriptions", "workers", "callers"), 0)
    assert admin.get(url("live_data")).json()["counts"] == counts
    viewer = client_of("viewer", "view_session")
    assert viewer.get(url("live_data")).json()["counts"] == {"sessions": 0}


@pytest.mark.parametrize("name", ["session", "stream", "subscription"])
def test_the_lists_need_few_queries_and_are_read_only(
    admin: Client, worker: Worker, name: str, django_assert_max_num_queries: Any
):
    for _ in range(20):
        session = make_session()
        make_stream(worker, session=session)
        Subscription.objects.create(session=session, uri=SCRIPT, uri_digest=uuid.uuid4().hex)
    with django_assert_max_num_queries(14):
        page = admin.get(url(f"{name}_changelist"))
    assert page.status_code == 200
    assert admin.get(url(f"{name}_add")).status_code == 403


@pytest.mark.parametrize("name", ["live", "live_data", "live_feed"])
def test_the_live_page_requires_a_permission(name: str):
    assert client_of("clerk", "view_callrecord").get(url(name)).status_code == 403
    viewer = client_of("viewer", "view_session")
    assert viewer.get(url(name)).status_code in (200, 204)


def test_permission_to_view_sessions_shows_only_sessions(worker: Worker):
    make_stream(worker, session=make_session())
    viewer = client_of("viewer", "view_session")

    assert viewer.get(url("live_data")).json().keys() == {"at", "counts", "sessions"}
    page = viewer.get(url("live")).content.decode()
    assert 'id="mcp-sessions"' in page
    assert 'id="mcp-streams"' not in page


def test_requests_in_flight_are_summed_over_live_workers(admin: Client):
    user = get_user_model().objects.get()
    session = make_session()
    Worker.objects.all().delete()
    told = {
        "total": 3,
        "sessions": {session.pk.hex: 2},
        "callers": [
            ["django-mcp", "api-key:1:x", str(user.pk), V2025_11_25.name, "desktop", "1", 2],
            ["django-mcp", "", "", V2025_11_25.name, SCRIPT, "", 1],
        ],
        "threads": [32, 32, 5],
    }
    for lease_s in (60, 60, -1):
        worker = make_worker(lease_s)
        Worker.objects.filter(pk=worker.pk).update(in_flight=told)
    found = admin.get(url("live_data")).json()

    assert found["sessions"][0]["running"] == 4
    callers = {each["user"]: (each["running"], each["calls"]) for each in found["callers"]}
    assert callers == {"boss": (4, 0), "-": (2, 0)}
    assert sorted(str(each["running"]) for each in found["workers"]) == ["", "3", "3"]
    threads = sorted(str(each["threads"]) for each in found["workers"])
    assert threads == ["", "32 of 32, 5 waiting", "32 of 32, 5 waiting"]


def test_the_feed_sends_the_current_state(admin: Client, worker: Worker):
    make_session()

    async def first_event() -> tuple[Any, bytes]:
        client = AsyncClient()
        client.cookies = admin.cookies
        response: Any = await client.get(url("live_feed"))
        stream = aiter(response.streaming_content)
        event = await anext(stream)
        await stream.aclose()
        return response, event

    response, event = async_to_sync(first_event)()
    assert response["Content-Type"] == "text/event-stream"
    assert len(decode(event.removeprefix(b"data: "))["sessions"]) == 1


@pytest.mark.parametrize(("rate", "is_said"), [(False, True), (0.1, False)])
def test_the_page_explains_why_no_callers_are_shown(admin: Client, rate: float, is_said: bool):
    with override_settings(DJANGO_MCP={"SYNC_THREADS": 0, "PUBLIC": True, "RECORD_CALLS": rate}):
        assert (b"RECORD_CALLS" in admin.get(url("live")).content) is is_said
        viewer = client_of("viewer", "view_session")
        assert b"RECORD_CALLS" not in viewer.get(url("live")).content


# -- actions


def test_ending_a_session_is_logged(admin: Client):
    session = make_session()

    assert act(admin, "end", session).json() == {"done": "The session is ended."}
    assert not Session.objects.exists()
    assert LogEntry.objects.get().object_id == str(session.pk)
    assert act(admin, "end", session).json() == {"done": "It no longer exists."}
    assert LogEntry.objects.count() == 1


def test_closing_a_stream_is_logged(admin: Client, worker: Worker):
    stream = make_stream(worker)

    assert act(admin, "close", stream).status_code == 200
    assert not Stream.objects.exists()
    [noted] = LogEntry.objects.all()
    assert noted.change_message.startswith("The stream is closed.")
    assert act(admin, "close", stream).json() == {"done": "It no longer exists."}


def test_the_stream_of_a_running_call_is_not_closed(admin: Client, worker: Worker):
    """Otherwise a client that resumes the call would get an error that it was lost."""
    stream = make_stream(worker, session=make_session(), kind="call")

    assert act(admin, "close", stream).status_code == 400
    assert Stream.objects.exists()


def test_an_api_key_is_revoked_with_its_session(admin: Client):
    user = get_user_model().objects.get()
    key, _text = APIKey.objects.issue(user=user, name="k")
    session = make_session(principal_key=make_key("api-key", user.pk, f"mcp_{key.prefix}"))

    assert act(admin, "revoke", session).status_code == 200
    key.refresh_from_db()
    assert key.revoked_at is not None
    assert not Session.objects.exists()


def test_credentials_of_a_client_without_a_session_are_revoked(admin: Client, worker: Worker):
    user = get_user_model().objects.get()
    key, _text = APIKey.objects.issue(user=user, name="k")
    opened = make_key("api-key", user.pk, f"mcp_{key.prefix}")
    stream = make_stream(worker, kind="listen", principal_key=opened, user=user)

    assert act(admin, "revoke_and_close", stream).status_code == 200
    key.refresh_from_db()
    assert key.revoked_at is not None
    assert not Stream.objects.exists()
    noted = LogEntry.objects.get(content_type__model="stream").change_message
    assert noted.startswith("The credentials are revoked")
    other = make_stream(worker, kind="listen")
    assert act(admin, "revoke_and_close", other).status_code == 400
    closer = client_of("closer", "view_stream", "end_stream")
    assert act(closer, "revoke_and_close", other).status_code == 403
    assert Stream.objects.exists()


@pytest.mark.parametrize("name", ["revoke", "revoke_and_close"])
def test_already_revoked_credentials_are_reported_and_sessions_end(
    admin: Client, worker: Worker, name: str
):
    user = get_user_model().objects.get()
    key, _text = APIKey.objects.issue(user=user, name="k")
    APIKey.objects.update(revoked_at=timezone.now())
    opened = {"principal_key": make_key("api-key", user.pk, f"mcp_{key.prefix}"), "user": user}
    row = make_session(**opened) if name == "revoke" else make_stream(worker, **opened)

    assert act(admin, name, row).json()["done"].startswith("The credentials were revoked already")
    assert not type(row).objects.exists()


@pytest.mark.parametrize(
    "key", ["", "session:1", "jwt:1:x", "api-key:1", "api-key:1:mcp_x", "%:::"]
)
def test_credentials_that_cannot_be_revoked_are_left_alone(admin: Client, key: str):
    session = make_session(principal_key=key)

    assert act(admin, "revoke", session).status_code == 400
    assert Session.objects.exists()


def test_actions_require_permission_post_and_csrf_token(worker: Worker):
    session, stream = make_session(), make_stream(worker)
    viewer = client_of("viewer", "view_session", "view_stream", "change_apikey")
    for name, row in (("end", session), ("revoke", session), ("close", stream), ("ping", stream)):
        assert act(viewer, name, row).status_code == 403
    ender = client_of("ender", "view_session", "view_stream", "end_session")
    assert act(ender, "revoke", session).status_code == 403
    assert ender.get(url("live_act")).status_code == 405
    careful = Client(enforce_csrf_checks=True)
    careful.force_login(get_user_model().objects.get(username="ender"))
    assert act(careful, "end", session).status_code == 403
    assert Session.objects.exists()
    assert Stream.objects.exists()


@pytest.mark.parametrize(
    ("name", "pk"),
    [("end", "x"), ("explode", "0" * 32), ("", ""), ("end", "0" * 31 + "\x00")],
)
def test_an_unknown_action_is_rejected(admin: Client, name: str, pk: str):
    assert act(admin, name, pk).status_code == 400


def test_an_empty_message_is_not_sent(admin: Client, worker: Worker):
    stream = make_stream(worker, session=make_session())
    assert act(admin, "log", stream).status_code == 400
    assert act(admin, "log", stream, text="Back at six").status_code == 200


@pytest.mark.parametrize("name", ["ping", "log"])
def test_a_stream_without_a_session_only_has_the_close_action(
    admin: Client, worker: Worker, name: str
):
    assert act(admin, name, make_stream(worker), text="x").status_code == 400


def test_pinging_a_missing_client_reports_no_answer(
    admin: Client, worker: Worker, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("django_mcp.admin.live_actions.PING_LIMIT_S", 0.2)
    stream = make_stream(worker, session=make_session())

    assert act(admin, "ping", stream).json() == {"done": "The client does not answer."}


# -- connecting


@override_settings(ROOT_URLCONF="tests.urls")
def test_the_connect_page_shows_configurations_ready_to_copy():
    page = client_of("clerk").get(url("connect"))

    [first, *_rest] = page.context["endpoints"]
    assert first["url"] == "http://testserver/mcp"
    assert {client for client, *_ in first["clients"]} >= {"claude-code", "cursor"}
    assert "http://testserver/mcp" in page.content.decode()


# -- a part of it


def looked(viewer: Client, **query: Any) -> Any:
    return viewer.get(url("live_data"), query).json()


def test_sessions_and_streams_are_found_by_client_user_server_and_worker(admin: Client):
    ada = get_user_model().objects.create_user("ada")
    first, second = make_worker(), make_worker()
    wanted = make_session(client_name="editor", user=ada)
    make_stream(first, session=wanted, client_name="editor", user=ada)
    other = make_session()
    Session.objects.filter(pk=other.pk).update(server="other")
    make_stream(second, session=other, server="other")
    for query in ({"client": "DIT"}, {"user": "DA"}, {"worker": str(first.pk)}):
        found = looked(admin, **query)
        assert [row["id"] for row in found["sessions"]] == [wanted.pk.hex], query
        assert found["counts"]["streams"] == 1
    make_calls("Someone", 2)
    assert [row["calls"] for row in looked(admin, user="MEO")["callers"]] == [2]
    assert looked(admin, client="nobody")["callers"] == []
    assert [row["server"] for row in looked(admin, server="other")["sessions"]] == ["other"]
    assert looked(admin, client="\0x", worker="?", sessions="-")["sessions"] == []


def test_each_table_has_pages(admin: Client):
    for _ in range(PER_PAGE + 2):
        make_session()
    pages = [looked(admin, sessions=str(page)) for page in (1, 2, 3)]

    assert [len(page["sessions"]) for page in pages] == [PER_PAGE, 2, 0]
    assert len({row["id"] for page in pages for row in page["sessions"]}) == PER_PAGE + 2


def test_only_changed_rows_are_sent():
    rows = [{"id": str(at), "calls": 1} for at in range(3)]
    before = {"at": 1, "counts": {}, "callers": rows, "workers": rows}
    after = {"at": 2, "counts": {}, "callers": [{"id": "2", "calls": 2}, rows[0]], "workers": rows}

    assert changes(before, after) == {
        "at": 2,
        "counts": {},
        "callers": {"order": ["2", "0"], "rows": [{"id": "2", "calls": 2}]},
    }


def test_only_the_changed_values_of_a_row_are_sent():
    before = {"at": 1, "counts": {}, "workers": [{"id": "a", "name": "host:1", "running": 1}]}
    rows = [{"id": "a", "name": "host:1", "running": 2}, {"id": "b", "name": "host:2"}]

    sent = changes(before, {"at": 2, "counts": {}, "workers": rows})
    assert sent["workers"] == {"order": ["a", "b"], "rows": [{"id": "a", "running": 2}, rows[1]]}


def test_revoke_is_offered_only_for_revocable_credentials(admin: Client):
    make_session(principal_key=make_key("api-key", 1, "mcp_x"), client_name="keyed")
    make_session(principal_key="session:1", client_name="other")

    assert {row["client"]: row["revocable"] for row in looked(admin)["sessions"]} == {
        "keyed": True,
        "other": False,
    }


def test_an_invalid_query_string_is_ignored():
    assert LiveFilter.of({"sessions": "9" * 50, "worker": "x"}).worker is None


def test_idle_threads_are_counted_too(admin: Client):
    worker = make_worker()
    Worker.objects.filter(pk=worker.pk).update(in_flight={"threads": [0, 32, 0]})

    assert [row["threads"] for row in looked(admin)["workers"]] == ["0 of 32"]


def test_sessions_without_a_connection_are_marked(admin: Client):
    worker = make_worker()
    quiet, connected, recent = (make_session() for _ in range(3))
    make_stream(worker, session=connected)
    long_ago = timezone.now() - timedelta(minutes=5)
    Session.objects.exclude(pk=recent.pk).update(last_seen_at=long_ago)

    marked = {row["id"] for row in looked(admin)["sessions"] if row["is_quiet"]}
    assert marked == {quiet.pk.hex}
    told = {
        row: "none: the client may be gone" in admin.get(row_url(row)).content.decode()
        for row in (quiet, connected, recent)
    }
    assert told == {quiet: True, connected: False, recent: False}
    Worker.objects.update(lease_until=long_ago)
    assert len([row for row in looked(admin)["sessions"] if row["is_quiet"]]) == 2


def row_url(row: Session) -> str:
    return reverse("admin:django_mcp_session_change", args=[row.pk])
