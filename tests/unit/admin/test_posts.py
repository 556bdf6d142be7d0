"""What the pages do with a POST: they ask, redirect, or answer a script, so that reloading repeats nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin as django_admin
from django.contrib.auth import get_user_model
from django.db.models import Model
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone

from django_mcp.admin.lists import VisibleList
from django_mcp.extensions.tasks.site.models import Task
from django_mcp.models import (
    APIKey,
    CallRecord,
    DisabledEntry,
    ErrorGroup,
    Session,
    Stream,
    Subscription,
)
from django_mcp.protocol.json import encode
from django_mcp.servers import MCPServer
from tests.unit.admin.test_live import make_session, make_stream, make_worker
from tests.unit.admin.test_pages import HERE, make_calls, url
from tests.unit.admin.test_tasks import make_task


@pytest.fixture(autouse=True)
def _here(db: None) -> Iterator[None]:
    with HERE:
        yield


@pytest.fixture(autouse=True)
def server() -> MCPServer:
    server = MCPServer("posted", public=True)
    server.register_tool(lambda: "", name="greet")
    return server


def make_key() -> APIKey:
    return APIKey.objects.issue(user=get_user_model().objects.get(), name="laptop")[0]


def make_open_stream() -> Stream:
    return make_stream(make_worker())


def make_disabled() -> DisabledEntry:
    return DisabledEntry.objects.create(server="posted", kind="tools", key="greet")


def make_call() -> CallRecord:
    make_calls(1)
    return CallRecord.objects.get()


def make_subscription() -> Subscription:
    return Subscription.objects.create(session=make_session(), uri="x://m")


def make_error() -> ErrorGroup:
    now = timezone.now()
    return ErrorGroup.objects.create(
        fingerprint="f", outcome="fault", first_seen_at=now, last_seen_at=now
    )


ROWS: dict[type[Model], Callable[[], Any]] = {
    APIKey: make_key,
    CallRecord: make_call,
    DisabledEntry: make_disabled,
    ErrorGroup: make_error,
    Session: make_session,
    Stream: make_open_stream,
    Subscription: make_subscription,
    Task: make_task,
}
ENTRY = {"server": "posted", "kind": "tools", "key": "greet"}
CHANGING: dict[str, tuple[dict[str, Any], str]] = {
    "apikey_add": ({"name": "travel", "user": "boss"}, "redirects"),
    "apikey_change": ({"name": "renamed"}, "redirects"),
    "apikey_delete": ({"post": "yes"}, "redirects"),
    "apikey_changelist": ({"action": "revoke", "confirmed": "1"}, "redirects"),
    "session_changelist": ({"action": "end_selected", "confirmed": "1"}, "redirects"),
    "stream_changelist": ({"action": "close_selected", "confirmed": "1"}, "redirects"),
    "errorgroup_changelist": ({"action": "resolve_selected"}, "redirects"),
    "errorgroup_resolve": ({"to": "resolved"}, "redirects"),
    "errorgroup_delete": ({"post": "yes"}, "redirects"),
    "task_changelist": ({"action": "cancel", "confirmed": "1"}, "redirects"),
    "switch": ({**ENTRY, "to": "off", "confirmed": "1"}, "redirects"),
    "live_act": ({"act": "end"}, "answers a script"),
    "try": (
        {
            "server": "posted",
            "method": "tools/call",
            "params": {"name": "greet", "arguments": {}},
        },
        "answers a script",
    ),
}
"""The views that change something, by name: what is posted, and what they do then."""

SCRIPTS = ("application/json", "application/x-ndjson")


def pages() -> Iterator[tuple[type[Model], str, list[str]]]:
    """Yield each page of the package in the admin: its model, name, and the arguments of its URL."""
    for model, page in django_admin.site._registry.items():
        if model._meta.app_label == "django_mcp":
            for pattern in page.urls:
                if pattern.name:
                    names = list(pattern.pattern.converters)
                    yield model, pattern.name.removeprefix("django_mcp_"), names


def all_rows() -> list[Any]:
    models = apps.get_app_config("django_mcp").get_models()
    return [list(model._default_manager.order_by("pk").values()) for model in models]


@pytest.fixture
def boss() -> Client:
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("boss"))
    return client


@pytest.mark.parametrize(
    ("model", "name", "arguments"), [pytest.param(*each, id=each[1]) for each in pages()]
)
def test_a_post_that_changes_something_is_not_repeated_by_reloading(
    boss: Client, model: type[Model], name: str, arguments: list[str]
):
    row: Any = ROWS[model]() if name != "switch" else None
    before = all_rows()
    address = reverse(f"admin:django_mcp_{name}", args=[row.pk for _ in arguments])
    data, kind = CHANGING.get(name, ({"_selected_action": row and row.pk}, "changes nothing"))
    selected = {} if row is None else {"_selected_action": row.pk, "id": row.pk}
    if name == "try":
        answer = boss.post(address, encode(data), content_type="application/json")
    else:
        answer = boss.post(address, {**selected, **data})
    if kind == "changes nothing":
        assert all_rows() == before
        return

    if kind == "answers a script":
        assert answer.headers["Content-Type"] in SCRIPTS
        return
    assert answer.status_code == 302
    after = all_rows()
    assert after != before
    for _load in range(2):
        assert boss.get(answer.headers["Location"], follow=True).status_code == 200
    assert all_rows() == after


@override_settings(USE_THOUSAND_SEPARATOR=True)
def test_forms_send_numbers_without_separators(boss: Client):
    APIKey.objects.filter(pk=make_key().pk).update(id=12_345)
    row = make_session()
    rows = (Session(digest=f"{number:032}", expires_at=row.expires_at) for number in range(1_199))
    Session.objects.bulk_create(rows)
    key = boss.get(reverse("admin:django_mcp_apikey_change", args=[12_345])).content.decode()
    data = {"action": "end_selected", "select_across": "1", "_selected_action": row.pk}
    steps = boss.post(url("session_changelist"), data).content.decode()

    assert 'name="_selected_action" value="12345"' in key
    assert "1,200 rows are selected." in steps
    assert 'name="total" value="1200"' in steps


def test_the_table_names_only_pages():
    assert set(CHANGING) <= {name for _model, name, _arguments in pages()}


def test_a_batch_of_an_action_redirects_to_its_progress(boss: Client, monkeypatch: Any):
    monkeypatch.setattr(VisibleList.act_in_steps, "__kwdefaults__", {"at_once": 2})
    rows = [make_session() for _ in range(5)]
    data = {"action": "end_selected", "select_across": "1", "_selected_action": rows[0].pk}
    answer = boss.post(url("session_changelist"), {**data, "confirmed": "1", "total": "5"})
    assert answer.status_code == 302
    for _load in range(2):
        page = boss.get(answer.headers["Location"])
        assert page.context["done"] == 2
        assert page.context["is_fresh"]
    assert Session.objects.count() == 3


def test_an_action_that_was_left_does_not_go_on_by_itself(boss: Client, monkeypatch: Any):
    monkeypatch.setattr(VisibleList.act_in_steps, "__kwdefaults__", {"at_once": 2})
    rows = [make_session() for _ in range(3)]
    data = {"action": "end_selected", "select_across": "1", "_selected_action": rows[0].pk}
    data |= {"confirmed": "1", "total": "3"}
    progress = boss.post(url("session_changelist"), data).headers["Location"]
    monkeypatch.setattr("django_mcp.admin.lists.FRESH_S", 0)

    assert b"steps.js" not in boss.get(progress).content
    boss.post(url("session_changelist"), {**data, "done": "2"})
    assert boss.get(progress).headers["Location"] == url("session_changelist")
