"""Links between pages: the tabs, related objects of a row, and its actions."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from django_mcp.models import APIKey, CallRecord, Session, Subscription
from django_mcp.servers import MCPServer
from tests.unit.admin.test_live import make_session, make_stream, make_worker
from tests.unit.admin.test_pages import client_of, make_calls, url
from tests.unit.admin.test_tasks import make_task

pytestmark = pytest.mark.usefixtures("here")


def page_of(client: Client, row: Model) -> Any:
    name = row._meta.model_name
    return client.get(reverse(f"admin:django_mcp_{name}_change", args=[row.pk]))


def make_key() -> APIKey:
    return APIKey.objects.issue(user=get_user_model().objects.all()[0], name="laptop")[0]


def test_the_app_index_links_to_all_pages(admin: Client):
    page = admin.get(reverse("admin:app_list", args=["django_mcp"])).content.decode()

    for name in ("live", "charts", "errors", "connect", "stream_changelist", "task_changelist"):
        assert f'href="{url(name)}"' in page


def test_the_detail_page_highlights_the_tab_of_its_list(admin: Client):
    tabs = page_of(admin, make_session()).context["tabs"]

    assert [tab["url"] for tab in tabs if tab["is_here"]] == [url("session_changelist")]


def test_a_session_links_to_its_streams_and_calls(admin: Client):
    session, other = make_session(), make_session()
    for each in (session, other):
        make_stream(make_worker(), session=each)
        Subscription.objects.create(session=each, uri="x:y", uri_digest=each.pk.hex)
        make_task(session=each.pk.hex)
        make_calls(1, session=each.pk.hex)
    links = page_of(admin, session).context["links"]

    assert len(links) == 4
    for _title, address in links:
        assert admin.get(address).context["cl"].result_count == 1


def test_a_call_links_to_its_tool_session_and_error(admin: Client):
    server = MCPServer("linked")

    @server.tool
    def greet() -> str:
        return ""

    session = make_session()
    make_calls(2, server="linked", session=session.pk.hex, client_name="desktop", error="KeyError")
    links = page_of(admin, CallRecord.objects.all()[0]).context["links"]

    assert [str(title) for title, _ in links] == [
        "Catalogue: greet",
        "Session",
        "Calls of this session",
        "Calls of this client",
        "Calls with this error",
    ]
    assert all(admin.get(address).status_code == 200 for _, address in links)


def test_objects_without_view_permission_are_not_linked():
    session = make_session()
    links = page_of(client_of("clerk", "view_session", "view_stream"), session).context["links"]

    assert [str(title) for title, _ in links] == ["Streams"]


@pytest.mark.parametrize(
    ("make", "verb"),
    [(make_session, "End"), (make_task, "Cancel"), (make_key, "Revoke")],
)
def test_the_detail_page_has_the_actions_of_the_list(admin: Client, make: Any, verb: str):
    row = make()
    page = page_of(admin, row)
    [(name, label)] = page.context["acts"]
    assert str(label) == verb
    address = url(f"{row._meta.model_name}_changelist")
    asked = admin.post(address, {"action": name, "index": "0", "_selected_action": row.pk})
    assert "1 row is selected." in asked.content.decode()
    assert page_of(client_of("viewer", f"view_{row._meta.model_name}"), row).status_code in (
        200,
        302,
    )


def test_finished_objects_have_no_actions(admin: Client):
    assert page_of(admin, make_task(status="completed")).context["acts"] == []


def test_view_permission_shows_no_actions():
    session: Session = make_session()

    assert page_of(client_of("viewer", "view_session"), session).context["acts"] == []
