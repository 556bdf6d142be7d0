"""The lists of sessions and streams: what their actions end, and what they log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.db import connection, connections
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import resolve

from django_mcp.admin.lists import VisibleList
from django_mcp.auth.principal import make_key
from django_mcp.models import APIKey, Session, Stream
from tests.unit.admin.test_live import act, make_session, make_stream, make_worker
from tests.unit.admin.test_object_permissions import BACKENDS, GRANTED, grant
from tests.unit.admin.test_pages import HERE, client_of, url


@pytest.fixture(autouse=True)
def _here(db: None) -> Iterator[None]:
    GRANTED.clear()
    with HERE:
        yield


def do(client: Client, action: str, *rows: Model) -> str:
    """Do something to rows of a list; return the page that says so."""
    data = {"action": action, "_selected_action": [row.pk for row in rows], "confirmed": "1"}
    address = url(f"{rows[0]._meta.model_name}_changelist")
    told: str = client.post(address, data, follow=True).content.decode()
    return told


def test_ending_selected_sessions_is_logged(admin: Client):
    kept, *ended = (make_session() for _ in range(3))
    make_stream(make_worker(), session=ended[0])

    assert "2 sessions were ended." in do(admin, "end_selected", *ended)
    assert list(Session.objects.all()) == [kept]
    assert not Stream.objects.exists()
    noted = {(each.object_id, each.change_message) for each in LogEntry.objects.all()}
    assert {pk for pk, _message in noted} == {str(each.pk) for each in ended}
    assert all(message.startswith("The session is ended.") for _pk, message in noted)


def test_selected_streams_are_closed_except_those_of_calls(admin: Client):
    worker = make_worker()
    call = make_stream(worker, session=make_session(), kind="call")
    told = do(admin, "close_selected", call, make_stream(worker))

    assert "1 stream was closed." in told
    assert "The stream of a call ends with the call, or with its session." in told
    assert list(Stream.objects.all()) == [call]
    assert LogEntry.objects.get().change_message.startswith("The stream is closed.")


def make_open_stream() -> Stream:
    return make_stream(make_worker())


@pytest.mark.parametrize(
    ("action", "make", "more"),
    [
        ("end_selected", make_session, "end_session"),
        ("close_selected", make_open_stream, "end_stream"),
    ],
)
def test_ending_requires_the_permission(action: str, make: Any, more: str):
    row = make()
    viewing = f"view_{row._meta.model_name}"
    do(client_of("viewer", viewing), action, row)
    assert type(row).objects.exists()

    do(client_of("ender", viewing, more), action, row)
    assert not type(row).objects.exists()


@pytest.mark.parametrize(
    ("action", "make"), [("end_selected", make_session), ("close_selected", make_open_stream)]
)
def test_only_sessions_with_object_permission_are_ended(action: str, make: Any, settings: Any):
    settings.AUTHENTICATION_BACKENDS = BACKENDS
    mine, seen, hidden = (make() for _ in range(3))
    for name, row in (("view", mine), ("end", mine), ("view", seen), ("end", hidden)):
        grant(name, row)
    do(client_of("clerk"), action, mine, seen, hidden)

    assert set(type(mine).objects.all()) == {seen, hidden}
    assert LogEntry.objects.get().object_id == str(mine.pk)


@pytest.mark.parametrize(
    ("action", "name"), [("revoke", "session"), ("revoke_and_close", "stream")]
)
def test_the_history_names_the_user_and_the_key_has_its_own_entry(
    admin: Client, action: str, name: str
):
    ada = get_user_model().objects.create_user("ada")
    key, _text = APIKey.objects.issue(user=ada, name="laptop")
    opened = make_key("api-key", ada.pk, f"mcp_{key.prefix}")
    whose = {"user": ada, "client_name": "desk\u202etop", "client_version": "2"}
    row: Model = (
        make_session(principal_key=opened, **whose)
        if name == "session"
        else make_stream(make_worker(), principal_key=opened, **whose)
    )
    assert act(admin, action, row).status_code == 200

    of_row = LogEntry.objects.get(content_type__model=name)
    assert of_row.change_message.endswith(
        f"User: ada; client: desk\\u202etop 2; principal: {opened}."
    )
    of_key = LogEntry.objects.get(content_type__model="apikey")
    assert (of_key.object_id, of_key.change_message) == (str(key.pk), "Revoked.")
    assert of_key.object_repr == str(key)


def test_the_history_shows_dashes_for_an_anonymous_session(admin: Client):
    act(admin, "end", make_session(client_name=""))

    assert LogEntry.objects.get().change_message.endswith("User: -; client: -; principal: -.")


@pytest.mark.parametrize(
    "name", ["live_act", "try", "session_changelist", "stream_changelist", "task_changelist"]
)
def test_action_views_are_exempt_from_atomic_requests(name: str):
    view: Any = resolve(url(name)).func

    assert set(connections) <= view._non_atomic_requests


# -- many rows


def send_page(client: Client, page: Any) -> Any:
    """Send the form of the page that asks, or says how far it is."""
    names = ("action", "select_across", "done", "total")
    data = {name: page.context[name] for name in names}
    chosen = {"_selected_action": page.context["selected"], "index": "0", "confirmed": "1"}
    return client.post(page.context["list_url"], {**data, **chosen})


def ask_to_end_all(client: Client, *rows: Session) -> Any:
    chosen = [str(row.pk) for row in rows[:1]]
    data = {"action": "end_selected", "select_across": "1", "_selected_action": chosen}
    return client.post(url("session_changelist"), data)


def test_ending_asks_for_confirmation(admin: Client):
    rows = [make_session() for _ in range(3)]
    page = ask_to_end_all(admin, *rows)

    text = page.content.decode()
    assert "3 rows are selected." in text
    assert all(f"<bdi>{row}</bdi>" in text for row in rows)
    assert Session.objects.count() == 3
    send_page(admin, page)
    assert not Session.objects.exists()


def test_many_sessions_are_ended_one_batch_per_request(admin: Client, monkeypatch: Any):
    monkeypatch.setattr(VisibleList.act_in_steps, "__kwdefaults__", {"at_once": 2})
    rows = [make_session() for _ in range(5)]
    page = ask_to_end_all(admin, *rows)
    told = []
    while "done" in page.context:
        page = admin.get(send_page(admin, page).headers["Location"])
        if "done" in page.context:
            told.append((page.context["done"], Session.objects.count()))

    assert told == [(2, 3), (4, 1)]
    assert not Session.objects.exists()
    assert LogEntry.objects.count() == 5
    assert "5 sessions were ended." in page.content.decode()


def test_a_batch_of_sessions_is_ended_at_once(admin: Client):
    def count(rows: int) -> int:
        made = [make_session(user=get_user_model().objects.get()) for _ in range(rows)]
        page = ask_to_end_all(admin, *made)
        with CaptureQueriesContext(connection) as asked:
            send_page(admin, page)
        assert not Session.objects.exists()
        return len(asked)

    assert count(50) == count(5)
