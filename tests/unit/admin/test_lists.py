"""Searching and filtering the lists by user and by server."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_mcp.extensions.tasks.site.models import Task
from django_mcp.models import APIKey, CallRecord, Session, Stream, Subscription
from django_mcp.servers import MCPServer
from tests.unit.admin.test_live import make_session, make_stream, make_worker
from tests.unit.admin.test_pages import make_calls, url
from tests.unit.admin.test_tasks import make_task

pytestmark = pytest.mark.usefixtures("here")


def make_call(**values: Any) -> None:
    make_calls(1, **values)


def make_open_stream(**values: Any) -> None:
    make_stream(make_worker(), **values)


LISTS: list[tuple[type[Model], Callable[..., Any]]] = [
    (Session, make_session),
    (Stream, make_open_stream),
    (Task, make_task),
    (CallRecord, make_call),
]


def make_subscription() -> None:
    Subscription.objects.create(session=make_session(), uri="x://m")


def make_key() -> None:
    user: Any = get_user_model().objects.create_user("mona")
    APIKey.objects.issue(user=user, name="m")


def found(client: Client, model: type[Model], **query: str) -> list[Any]:
    page = client.get(url(f"{model._meta.model_name}_changelist"), query)
    assert page.status_code == 200
    return list(page.context["cl"].result_list)


@pytest.mark.parametrize(("model", "make"), LISTS)
def test_rows_are_found_by_a_part_of_a_username_in_any_case(
    admin: Client, model: type[Model], make: Callable[..., Any]
):
    users: Any = get_user_model().objects
    for name in ("Miranda", "amir", "mona"):
        make(user=users.create_user(name))
    make()

    assert {row.user.username for row in found(admin, model, q="MIR")} == {"Miranda", "amir"}
    assert found(admin, model, q="nobody") == []


@pytest.mark.parametrize(("model", "make"), LISTS)
def test_rows_are_filtered_by_server_without_a_distinct_query(
    admin: Client, model: type[Model], make: Callable[..., Any]
):
    server = MCPServer("filtered")
    make()
    make()
    first = model._default_manager.all()[0]
    model._default_manager.filter(pk=first.pk).update(server=server.name)
    with CaptureQueriesContext(connection) as asked:
        rows = found(admin, model, server=server.name)

    assert [row.pk for row in rows] == [first.pk]
    table = model._meta.db_table
    for column in ("server", "revision"):
        assert not any(f'DISTINCT "{table}"."{column}"' in each["sql"] for each in asked)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (CallRecord, "name"),
        (CallRecord, "client"),
        (CallRecord, "server"),
        (CallRecord, "revision"),
        (CallRecord, "outcome__exact"),
        (Session, "server"),
        (Session, "transport"),
        (Stream, "server"),
        (Task, "revision"),
        (Task, "status__exact"),
    ],
)
def test_a_filter_value_invalid_for_the_database_is_ignored(
    admin: Client, model: type[Model], name: str
):
    address = url(f"{model._meta.model_name}_changelist")

    for value in ("\0", "m" * 60_000):
        assert admin.get(address, {name: value}).headers["Location"] == f"{address}?e=1"


@pytest.mark.parametrize(
    ("model", "make", "column"),
    [
        (Task, make_task, "call"),
        (Task, make_task, "rounds"),
        (Task, make_task, "result"),
        (Task, make_task, "error"),
        (Task, make_task, "secret"),
        (Task, make_task, "quota_key"),
        (Session, make_session, "digest"),
        (Session, make_session, "client_info"),
        (Stream, make_open_stream, "uri_digests"),
        (Subscription, make_subscription, "uri_digest"),
        (CallRecord, make_call, "arguments"),
        (APIKey, make_key, "digest"),
    ],
)
def test_no_list_is_filtered_by_a_column_that_it_does_not_show(
    admin: Client, model: type[Model], make: Callable[..., Any], column: str
):
    """Filters would tell what the column contains, one character after the other."""
    make()
    address = url(f"{model._meta.model_name}_changelist")

    for lookup in ("", "__contains", "__startswith", "__exact", "__gt", "__isnull", "__in"):
        assert admin.get(address, {f"{column}{lookup}": "1"}).status_code == 400


@pytest.mark.parametrize("lookup", ["regex", "iregex", "lower__regex"])
@pytest.mark.parametrize(
    ("model", "field"),
    [
        (CallRecord, "client_name"),
        (Session, "client_name"),
        (Stream, "client_name"),
        (Subscription, "uri"),
        (Task, "tool"),
        (APIKey, "name"),
    ],
)
def test_no_list_is_filtered_by_a_regular_expression(
    admin: Client, model: type[Model], field: str, lookup: str
):
    """A client chooses the text, and may choose one for which that takes exponential time."""
    address = url(f"{model._meta.model_name}_changelist")

    page = admin.get(address, {f"{field}__{lookup}": "(a+)+$"})
    assert page.status_code == 302
    assert page.headers["Location"] == f"{address}?e=1"
    assert admin.get(address, {f"{field}__contains": "a"}).status_code == 200


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (Session, "last_seen_at__year"),
        (Session, "created_at__year"),
        (Stream, "opened_at__year"),
        (CallRecord, "started_at__year"),
        (CallRecord, "started_at__month"),
    ],
)
@pytest.mark.parametrize("value", ["9" * 30, "-1", "x"])
def test_a_period_that_no_date_has_is_ignored(
    admin: Client, model: type[Model], name: str, value: str
):
    address = url(f"{model._meta.model_name}_changelist")
    query = {"started_at__year": "2026", name: value} if name.endswith("month") else {name: value}

    assert admin.get(address, query).headers["Location"] == f"{address}?e=1"


@pytest.mark.parametrize(
    ("page", "action"),
    [
        ("session", "end_selected"),
        ("stream", "close_selected"),
        ("apikey", "revoke"),
        ("apikey", "delete_selected"),
    ],
)
@pytest.mark.parametrize("key", ["x", "\0", "", "9" * 40])
def test_an_action_on_a_key_that_no_row_has_does_nothing(
    admin: Client, page: str, action: str, key: str
):
    address = url(f"{page}_changelist")
    answer = admin.post(address, {"action": action, "_selected_action": [key]}, follow=True)

    assert answer.redirect_chain == [(address, 302)]
    assert "It no longer exists." in answer.content.decode()


@pytest.mark.parametrize(
    ("model", "make"), [*LISTS, (Subscription, make_subscription), (APIKey, make_key)]
)
@pytest.mark.parametrize("text", ["m " * 1000, "m" * 20_000, "m" * 100_000])
def test_a_search_for_a_long_text_finds_nothing_and_compares_no_row(
    admin: Client, model: type[Model], make: Callable[..., Any], text: str
):
    make()
    with CaptureQueriesContext(connection) as asked:
        rows = found(admin, model, q=text)

    assert rows == []
    assert not any("LIKE" in each["sql"] for each in asked)


def test_a_name_invalid_for_the_database_finds_nothing(admin: Client):
    page = admin.get(url("disabledentry_changelist"), {"user": "\0"})
    assert "There is no such user." in page.content.decode()
    server = MCPServer("switched").name
    entry = {"server": server, "kind": "tools", "key": "\0", "to": "on"}
    assert admin.post(url("switch"), entry).status_code == 404


@pytest.mark.parametrize(("model", "make"), LISTS)
def test_list_filters_run_no_counts_and_no_period_scans(
    admin: Client, model: type[Model], make: Callable[..., Any]
):
    make()
    with CaptureQueriesContext(connection) as asked:
        address = url(f"{model._meta.model_name}_changelist")
        assert admin.get(address, {"_facets": "True"}).status_code == 200

    table = f'"{model._meta.db_table}"'
    looks = [each["sql"] for each in asked if table in each["sql"]]
    assert not any("__0" in each or "DISTINCT" in each or "MIN(" in each for each in looks)


def test_a_filter_with_many_choices_is_a_form_that_keeps_the_others(admin: Client):
    server = MCPServer("filtered")
    for at in range(20):
        server.register_tool(lambda: "", name=f"tool_{at:02}")
    make_calls(2, name="tool_03", outcome="fault")
    make_calls(3, name="tool_03")
    query = {"name": "tool_03", "outcome__exact": "fault", "q": "tool"}

    page = admin.get(url("callrecord_changelist"), query)
    assert len(page.context["cl"].result_list) == 2
    [form] = re.findall(
        r'<form method="get" class="mcp-text-filter">(?:(?!</form>).)*<select[^>]*name="name".*?</form>',
        page.content.decode(),
        re.DOTALL,
    )
    assert "<option selected>tool_03</option>" in form
    assert re.findall(r'type="hidden" name="(.*?)" value="(.*?)"', form) == [
        ("outcome__exact", "fault"),
        ("q", "tool"),
    ]
    assert "select2.full" in page.content.decode()


def test_a_filter_shows_a_value_that_is_not_among_its_choices(admin: Client):
    server = MCPServer("filtered")
    for at in range(20):
        server.register_tool(lambda: "", name=f"tool_{at:02}")
    make_calls(2, name="gone")

    page = admin.get(url("callrecord_changelist"), {"name": "gone"})
    assert len(page.context["cl"].result_list) == 2
    assert "<option selected>gone</option>" in page.content.decode()
