"""The list of the catalogue on a server with many entries: groups, filters, order and pages."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import translation

from django_mcp.admin.catalogue_list import PAGE_ROWS
from django_mcp.models import DisabledEntry
from django_mcp.servers import MCPServer
from tests.unit.admin.test_pages import client_of, url
from tests.unit.admin.test_reports import record_calls

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def server() -> MCPServer:
    """A server with tools of the app `shop`, in two toolsets, and of none."""
    from example_project.shop.mcp import find_products

    cache.clear()
    server = MCPServer("listed")
    server.register_tool(find_products, name="b_find")
    server.register_tool(find_products, name="a_find")
    server.register_tool(find_products, name="c_report", toolset="reports")
    server.register_tool(lambda: "", name="d_loose", permission="shop.view_order")
    server.register_prompt(lambda: "", name="e_prompt")
    return server


def list_page(client: Client, **query: str) -> Any:
    page = client.get(url("disabledentry_changelist"), {"server": "listed", **query})
    assert page.status_code == 200
    return page


def names(client: Client, **query: str) -> list[str]:
    tables = list_page(client, **query).context["tables"]
    return [row["name"] for table in tables for row in table.rows]


def test_entries_are_grouped_by_app_and_toolset_with_numbers(admin: Client, server: MCPServer):
    page = list_page(admin)

    tools = page.context["tables"][0]
    told = [(each.title["app"], each.title["toolset"], each.count) for each in tools.sections]
    assert told == [("", "", 1), ("shop", "reports", 1), ("shop", "", 2)]
    assert names(admin) == ["d_loose", "c_report", "a_find", "b_find", "e_prompt"]
    heads = re.findall(r'<th scope="rowgroup".*?</th>', page.content.decode(), re.DOTALL)
    texts = [re.sub(r"<[^>]*>", "", head) for head in heads]
    assert texts[:3] == ["In no app (1)", "App shop · Toolset reports (1)", "App shop (2)"]


def test_the_heading_of_a_group_lists_it_alone(admin: Client, server: MCPServer):
    page = list_page(admin)
    links = [unescape(section.title["url"]) for section in page.context["tables"][0].sections]

    listed = [admin.get(url("disabledentry_changelist") + link) for link in links]
    assert [
        [row["name"] for table in page.context["tables"] for row in table.rows] for page in listed
    ] == [["d_loose", "e_prompt"], ["c_report"], ["a_find", "b_find"]]


def test_entries_are_filtered_by_kind_app_and_toolset(admin: Client, server: MCPServer):
    assert names(admin, kind="prompts") == ["e_prompt"]
    assert names(admin, app="shop") == ["c_report", "a_find", "b_find"]
    assert names(admin, app="-") == ["d_loose", "e_prompt"]
    assert names(admin, toolset="reports") == ["c_report"]
    assert names(admin, toolset="reports", app="-") == []
    assert names(admin, q="REPORTS") == ["c_report"]


@pytest.mark.parametrize("name", ["kind", "state", "app", "toolset", "o", "p"])
@pytest.mark.parametrize("value", ["nothing", "\0", "-", "-1", "9" * 5000, "é" * 300])
def test_values_that_nothing_has_are_ignored(
    admin: Client, server: MCPServer, name: str, value: str
):
    if (name, value) not in {("app", "-"), ("toolset", "-")}:
        assert len(names(admin, **{name: value})) == 5


def test_entries_are_filtered_by_state(admin: Client, server: MCPServer):
    DisabledEntry.objects.create(server="listed", kind="tools", key="b_find")
    DisabledEntry.objects.create(server="listed", kind="tools", key="z_gone")

    assert names(admin, state="enabled") == ["d_loose", "c_report", "a_find", "e_prompt"]
    assert names(admin, state="disabled") == ["b_find"]
    assert names(admin, state="gone") == ["z_gone"]
    assert names(admin)[-2:] == ["z_gone", "e_prompt"]
    assert names(admin, state="hidden", user="") == ["d_loose"]
    assert "d_loose" not in names(admin, state="visible", user="")


def test_entries_are_sorted_by_name_calls_errors_and_duration(admin: Client, server: MCPServer):
    record_calls(server, 3, name="a_find")
    record_calls(server, 2, name="b_find", outcome="fault")
    record_calls(server, 1, name="c_report", duration_s=5.0)

    assert names(admin, o="name")[:4] == ["a_find", "b_find", "c_report", "d_loose"]
    assert names(admin, o="-name")[:4] == ["d_loose", "c_report", "b_find", "a_find"]
    assert names(admin, o="-calls")[:4] == ["a_find", "b_find", "c_report", "d_loose"]
    assert names(admin, o="calls")[:4] == ["d_loose", "c_report", "b_find", "a_find"]
    assert names(admin, o="-errors")[0] == "b_find"
    assert names(admin, o="-p95")[0] == "c_report"
    assert names(admin, o="-p95")[-1] == "e_prompt"


def test_a_column_sorts_in_the_other_direction_when_it_is_chosen_again(
    admin: Client, server: MCPServer
):
    address = url("disabledentry_changelist")
    found = []
    page = list_page(admin, q="find")
    for _ in range(2):
        page = admin.get(address + page.context["listing"].heads["calls"]["url"])
        assert page.context["selection"].q == "find"
        head = page.context["listing"].heads["calls"]
        found.append((page.context["selection"].o, head["sort"]))
    assert found == [("-calls", "descending"), ("calls", "ascending")]
    assert page.content.decode().count('aria-sort="ascending"') == 1
    back = admin.get(address + page.context["listing"].groups_url)
    assert back.context["tables"][0].sections[0].title is not None


def test_without_permission_to_view_calls_the_order_says_nothing_of_them(server: MCPServer):
    record_calls(server, 3, name="d_loose")
    viewer = client_of("viewer", "view_disabledentry")

    page = list_page(viewer, o="-calls")
    assert page.context["selection"].o == ""
    assert "o=-calls" not in page.content.decode()
    assert names(viewer, o="-calls") == names(viewer)
    assert names(viewer, o="-name") != names(viewer)


def test_many_entries_are_on_pages_of_a_bounded_length(admin: Client):
    server = MCPServer("listed")
    count = 3 * PAGE_ROWS + 1
    for at in range(count):
        server.register_tool(lambda: "", name=f"tool_{at:03}")

    pages = [names(admin, p=str(at)) for at in range(1, 5)]
    assert [len(each) for each in pages] == [PAGE_ROWS, PAGE_ROWS, PAGE_ROWS, 1]
    assert [name for page in pages for name in page] == [f"tool_{at:03}" for at in range(count)]
    assert names(admin, p="99") == pages[-1]
    page = list_page(admin, p="2", q="tool_")
    assert page.context["tables"][0].count == count
    links = dict(page.context["listing"].page_links)
    assert list(links) == [1, 2, 3, 4]
    assert re.search(r'p=2" aria-current="page">2</a>', page.content.decode())
    last = admin.get(url("disabledentry_changelist") + links[4])
    assert [row["name"] for row in last.context["tables"][0].rows] == pages[-1]
    assert last.context["selection"].q == "tool_"


def test_a_page_reads_as_many_rows_of_calls_as_it_shows(
    admin: Client, server: MCPServer, django_assert_max_num_queries: Any
):
    record_calls(server, 3, name="a_find")
    list_page(admin)

    with django_assert_max_num_queries(12):
        list_page(admin)


def test_switching_an_entry_returns_to_the_same_list(admin: Client, server: MCPServer):
    DisabledEntry.objects.create(server="listed", kind="tools", key="b_find")
    query = {"app": "shop", "state": "disabled", "o": "-calls", "q": "find", "kind": "tools"}
    page = list_page(admin, **query)
    form = {"server": "listed", "kind": "tools", "key": "b_find", "to": "on"}

    back = admin.post(page.context["switch_url"], form, follow=True)
    assert back.context["selection"].query == query
    asked = admin.post(back.context["switch_url"], {**form, "to": "off"})
    assert not DisabledEntry.objects.exists()
    back = admin.post(
        asked.context["switch_url"], {**form, "to": "off", "confirmed": "1"}, follow=True
    )
    assert back.context["selection"].query == query
    assert [row["name"] for row in back.context["tables"][0].rows] == ["b_find"]


def test_a_list_without_entries_says_why(admin: Client, server: MCPServer):
    page = list_page(admin, q="nothing").content.decode()
    assert "No entry is like that." in page
    assert "Clear all filters" in page
    MCPServer("empty")
    page = list_page(admin, server="empty").content.decode()
    assert "This server has no entries." in page
    assert "Clear all filters" not in page


def test_filters_with_many_choices_have_a_search(admin: Client, server: MCPServer):
    few = list_page(admin).content.decode()
    assert re.search(r'<select id="mcp-toolset" name="toolset">', few)
    for at in range(20):
        server.register_tool(lambda: "", name=f"tool_{at}", toolset=f"set_{at:02}")

    page = list_page(admin, toolset="set_07").content.decode()
    assert re.search(r'<select id="mcp-toolset" name="toolset" class="mcp-searchable">', page)
    assert '<option value="set_07" selected>' in page
    assert "select2.full" in page
    assert "<script>" not in page


def test_numbers_are_written_as_the_language_does(admin: Client, server: MCPServer):
    record_calls(server, 1234, name="a_find")
    with translation.override("de"):
        page = admin.get(
            url("disabledentry_changelist"), {"server": "listed"}, headers={"Accept-Language": "de"}
        )
    assert re.search(r"1\.234</td>", page.content.decode())
