"""Links between pages: the tabs, related objects of a row, and its actions."""

from __future__ import annotations

import html
import re
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

    for name in (
        "live",
        "charts",
        "errorgroup_changelist",
        "connect",
        "stream_changelist",
        "task_changelist",
    ):
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


HREF = re.compile(r'href="(/admin/[^"#]*)')


def crawl(client: Client) -> dict[str, int]:
    """Return the status of each page of the package that links of the admin lead to."""
    found: dict[str, int] = {}
    left = [reverse("admin:index")]
    while left:
        address = left.pop()
        plain = address.partition("?")[0]
        if plain in found or "/logout" in plain or "/jsi18n" in plain:
            continue
        page = client.get(address, follow=True)
        found[plain] = page.status_code
        if page.status_code == 200 and page["Content-Type"].startswith("text/html"):
            left += [html.unescape(each) for each in HREF.findall(page.content.decode())]
    return found


PERMISSIONS = (
    ["view_session"],
    ["view_stream"],
    ["view_callrecord"],
    ["view_disabledentry"],
    ["view_disabledentry", "try_entry"],
    ["change_disabledentry", "view_subscription"],
    ["add_apikey"],
    ["view_apikey"],
    ["view_task"],
)


@pytest.mark.parametrize("permissions", PERMISSIONS, ids=" ".join)
def test_no_link_leads_to_a_page_that_is_forbidden(permissions: list[str]):
    client = client_of("clerk", *permissions)
    user: Any = get_user_model().objects.get()
    session = make_session(user=user)
    make_stream(make_worker(), session=session, user=user)
    Subscription.objects.create(session=session, uri="x:y")
    make_task(user=user)
    make_calls(1, outcome="fault", user=user)
    APIKey.objects.issue(user=user, name="laptop")
    pages = crawl(client)

    assert len(pages) > 1
    assert {address for address, status in pages.items() if status != 200} == set()


def test_who_may_only_add_keys_is_not_sent_to_their_list():
    clerk = client_of("adder", "add_apikey")
    page = clerk.post(url("apikey_add"), {"name": "x"}, follow=True)

    assert clerk.get(page.context["list_url"]).status_code == 200
    assert clerk.get(page.request["PATH_INFO"], follow=True).status_code == 200
