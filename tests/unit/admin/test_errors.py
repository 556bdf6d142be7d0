"""Failed calls: their groups, how they are found, and how they leave as CSV."""

from __future__ import annotations

import csv
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import AsyncClient, Client
from django.test.utils import CaptureQueriesContext

from django_mcp.models import CallRecord
from django_mcp.servers import MCPServer
from tests.unit.admin.test_links import page_of
from tests.unit.admin.test_pages import client_of, make_calls, url

pytestmark = pytest.mark.usefixtures("here")


def test_errors_are_grouped_by_entry_and_exception(admin: Client):
    for name, error, count in (("greet", "KeyError", 3), ("greet", "OSError", 2), ("buy", "", 1)):
        make_calls(count, name=name, error=error, outcome="fault", reference=f"ref-{name}")
    make_calls(4)
    make_calls(2, name="invented", outcome="refused")
    page = admin.get(url("errors"))

    groups = {(each["name"], each["error"]): each for each in page.context["groups"]}
    assert {key: each["count"] for key, each in groups.items()} == {
        ("greet", "KeyError"): 3,
        ("greet", "OSError"): 2,
        ("buy", ""): 1,
    }
    group = groups["greet", "KeyError"]
    assert group["first"] < group["last"]
    assert "ref-greet" in page.content.decode()
    assert admin.get(group["calls"]).context["cl"].result_count == 3
    assert admin.get(group["url"]).context["original"].error == "KeyError"


def test_many_groups_take_few_queries(admin: Client):
    def count(groups: int) -> int:
        for at in range(groups):
            make_calls(1, error=f"Error{at}", outcome="fault")
        with CaptureQueriesContext(connection) as asked:
            assert admin.get(url("errors")).status_code == 200
        return len(asked)

    assert count(2) == count(30)


def test_errors_take_the_permission_to_see_calls():
    assert client_of("clerk", "view_session").get(url("errors")).status_code == 403


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"client": "desk"}, 1),
        ({"client": "other"}, 0),
        ({"username": "ada"}, 1),
        ({"username": "\0"}, 0),
        ({"session": "5" * 32}, 1),
        ({"q": "5" * 32}, 1),
        ({"error": "KeyError"}, 1),
    ],
)
def test_calls_are_found_by_client_user_session_and_error(
    admin: Client, query: dict[str, str], found: int
):
    users: Any = get_user_model().objects
    ada = users.create_user("ada")
    make_calls(1)
    make_calls(1, client_name="desktop", user=ada, session="5" * 32, error="KeyError")
    page = admin.get(url("callrecord_changelist"), query, follow=True)

    if query != {"username": "\0"}:
        assert page.context["cl"].result_count == found


def test_times_have_seconds_and_outcomes_a_colour(admin: Client):
    make_calls(1, outcome="fault")
    page = admin.get(url("callrecord_changelist")).content.decode()

    assert f"{CallRecord.objects.get().started_at:%H:%M:%S}" in page
    assert 'class="mcp-outcome mcp-fault"' in page


# -- copies


def test_a_call_whose_arguments_were_kept_can_be_copied(admin: Client):
    server = MCPServer("copied")

    @server.tool(record_arguments=True)
    def greet(name: str) -> str:
        return name

    make_calls(1, server="copied", arguments='{"name": "it\'s"}')
    copies = dict(page_of(admin, CallRecord.objects.get()).context["copies"])

    ran: dict[str, Any] = {}
    exec(copies["Python"].replace("print(", "found = ("), ran)
    assert ran["found"].text == "it's"


def test_a_call_of_which_only_kinds_are_known_cannot(admin: Client):
    make_calls(1, arguments='{"name": "string"}')

    assert page_of(admin, CallRecord.objects.get()).context["copies"] == []


# -- export


def rows_of(response: Any) -> list[dict[str, str]]:
    text = b"".join(response.streaming_content).decode()
    return list(csv.DictReader(text.splitlines()))


def test_the_export_has_the_calls_of_the_list_and_no_formula(admin: Client):
    make_calls(2, name="=1+1", client_name="@x", principal="-p")
    make_calls(1, name="other")
    rows = rows_of(admin.get(url("calls_export"), {"name": "=1+1"}))

    assert [(row["name"], row["client_name"], row["principal"]) for row in rows] == [
        ("'=1+1", "'@x", "'-p")
    ] * 2
    assert LogEntry.objects.get().change_message == "Exported."


def test_the_export_streams_under_asgi(admin: Client):
    make_calls(3)

    async def read() -> bytes:
        client = AsyncClient()
        client.cookies = admin.cookies
        response: Any = await client.get(url("calls_export"))
        return b"".join([each async for each in response.streaming_content])

    assert len(async_to_sync(read)().splitlines()) == 4


def test_the_export_takes_a_permission_of_its_own():
    viewer = client_of("viewer", "view_callrecord")
    assert viewer.get(url("calls_export")).status_code == 403
    assert "export_url" not in viewer.get(url("callrecord_changelist")).context
    assert client_of("only", "export_callrecord").get(url("calls_export")).status_code == 403
    both = client_of("both", "view_callrecord", "export_callrecord")
    assert both.get(url("calls_export")).status_code == 200
