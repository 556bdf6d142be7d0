"""The catalogue: its search, its entries, and the form to rerun a call."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.test import Client

from django_mcp.models import APIKey, CallRecord, DisabledEntry
from django_mcp.servers import MCPServer
from tests.unit.admin.test_links import page_of
from tests.unit.admin.test_pages import client_of, url
from tests.unit.admin.test_reports import record_calls

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def server() -> MCPServer:
    cache.clear()
    server = MCPServer("listed")

    @server.tool(read_only=True, record_arguments=True)
    def greet(name: str) -> str:
        """Say hello."""
        return name

    @server.tool(destructive=True, task="allowed")
    def erase() -> str:
        return ""

    return server


def tools(client: Client, **query: str) -> dict[str, Any]:
    page = client.get(url("disabledentry_changelist"), {"server": "listed", **query})
    return {row["name"]: row for row in page.context["tables"][0].rows}


def test_entries_are_found_by_name_and_description(admin: Client, server: MCPServer):
    assert set(tools(admin)) == {"greet", "erase"}
    assert set(tools(admin, q="HELLO")) == {"greet"}
    assert set(tools(admin, q="rase")) == {"erase"}


def test_entries_show_their_kind_and_annotations(admin: Client, server: MCPServer):
    badges = {name: list(map(str, row["badges"])) for name, row in tools(admin).items()}

    assert badges == {"greet": ["read-only"], "erase": ["destructive", "task"]}


def test_entries_show_their_toolset_and_are_found_by_it(admin: Client, server: MCPServer):
    server.register_tool(lambda: "", name="ship", toolset="orders")
    DisabledEntry.objects.create(server="listed", kind="tools", key="ship")

    assert {name: row["toolset"] for name, row in tools(admin).items()} == {
        "greet": "",
        "erase": "",
        "ship": "orders",
    }
    assert set(tools(admin, q="orders")) == {"ship"}
    query = {"server": "listed", "kind": "tools", "key": "ship"}
    assert "orders" in admin.get(url("entry"), query).content.decode()


def test_entries_show_daily_calls_with_permission_to_view_calls(admin: Client, server: MCPServer):
    record_calls(server, 3)
    record_calls(server, 1, outcome="fault")
    assert tools(admin)["greet"]["calls"]["errors"] == 1
    assert tools(admin)["greet"]["calls"]["calls"] == 4
    # One point has calls, and is at the top.
    heights = [each.partition(",")[2] for each in tools(admin)["greet"]["line"].split()]
    assert len(heights) == 96
    assert set(heights) in ({"1", "19"}, {"1", "13", "19"}, {"1", "7", "19"}, {"1", "10", "19"})
    assert tools(client_of("viewer", "view_disabledentry"))["greet"]["calls"] is None


def test_tools_show_their_largest_result(admin: Client, server: MCPServer):
    record_calls(server, 1, result_chars=40_001)
    record_calls(server, 1, result_chars=10)
    record_calls(server, 1, name="erase", result_chars=100_001)

    shown = {name: (row["tokens"], row["has_large"]) for name, row in tools(admin).items()}
    assert shown == {"greet": (10_001, False), "erase": (25_001, True)}
    page = admin.get(url("disabledentry_changelist"), {"server": "listed"}).content.decode()
    assert re.search(r">25,001 <span[^>]*>large</span>", page)
    page = admin.get(url("callrecord_changelist")).content.decode()
    assert re.search(r"<td[^>]*>10,001</td>", page)

    blind = client_of("viewer", "view_disabledentry")
    assert tools(blind)["erase"]["tokens"] is None


def test_a_disabled_entry_shows_the_user_who_disabled_it(admin: Client, server: MCPServer):
    ada = get_user_model().objects.create_user("ada")
    DisabledEntry.objects.create(server="listed", kind="tools", key="greet", disabled_by=ada)

    for page in (
        admin.get(url("disabledentry_changelist"), {"server": "listed"}),
        admin.get(url("entry"), {"server": "listed", "kind": "tools", "key": "greet"}),
    ):
        assert re.search(r"<small><bdi>ada</bdi>, ", page.content.decode())


def test_a_recorded_call_is_rerun_with_its_stored_arguments(admin: Client, server: MCPServer):
    record_calls(server, 1)
    CallRecord.objects.update(arguments='{"name": "Ann"}')
    links = {
        str(title): link
        for title, link in page_of(admin, CallRecord.objects.get()).context["links"]
    }
    form = admin.get(links["Run it again"]).context["form"]
    assert form["values"] == {"name": "Ann"}

    blind = client_of("blind", "view_disabledentry", "try_entry")
    assert blind.get(links["Run it again"]).context["form"]["values"] == {}


def test_a_new_key_is_inserted_into_the_configurations(admin: Client):
    user = get_user_model().objects.get()
    data = {"name": "laptop", "user": user.username, "expires_at_0": "", "expires_at_1": ""}
    page = admin.post(url("apikey_add"), data, follow=True)

    key = page.context["text"]
    assert key.startswith(f"mcp_{APIKey.objects.get().prefix}_")
    assert all(key in text for each in page.context["endpoints"] for _, text, *_ in each["clients"])


def test_disabled_entries_that_are_not_registered_any_more_are_told(
    admin: Client, server: MCPServer
):
    DisabledEntry.objects.create(server="listed", kind="tools", key="greet")
    told = "These disabled entries are not registered any more."
    page = admin.get(url("disabledentry_changelist"), {"server": "listed"}).content.decode()
    assert told not in page

    DisabledEntry.objects.create(server="listed", kind="tools", key="welcome")

    page = admin.get(url("disabledentry_changelist"), {"server": "listed"}).content.decode()
    assert told in page
    assert "<bdi>welcome</bdi></p>" in page
