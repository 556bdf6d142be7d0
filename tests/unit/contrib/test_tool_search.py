"""Tools are found by words and called by two tools, and only those are listed."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from django_mcp import MCPServer
from django_mcp.contrib.tool_search import tool_search
from django_mcp.registry.search_index import SearchIndex
from django_mcp.test import MCPClient

pytestmark = pytest.mark.django_db

NAMES = ["find_tools", "run_read_tool", "run_write_tool"]


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("searched", public=True)

    @server.tool(read_only=True)
    def list_invoices(customer: str = "") -> str:
        """List what customers have to pay."""
        return f"invoices of {customer}"

    @server.tool(read_only=True, keywords=["weather"])
    def forecast(city: str) -> str:
        """Say what it will be like outside."""
        return city

    @server.tool
    def cancel_order(number: str) -> str:
        """Cancel an order."""
        return f"{number} cancelled"

    @server.tool(permission="auth.view_user", read_only=True)
    def list_salaries() -> str:
        """List what employees earn."""
        return "secret"

    tool_search(server)
    return server


@pytest.fixture
def client(server: MCPServer) -> MCPClient:
    return MCPClient(server)


def find(client: MCPClient, query: str, **more: Any) -> list[str]:
    found = client.call("find_tools", query=query, **more)
    assert not found.is_error, found.text
    return [tool["name"] for tool in found.structured["tools"]]


def refuse(client: MCPClient, tool: str, **arguments: Any) -> str:
    found = client.call(tool, **arguments)
    assert found.is_error
    return found.text


def test_only_three_tools_are_listed(client: MCPClient):
    tools = client.list_tools()

    assert [tool["name"] for tool in tools] == NAMES
    assert [tool["annotations"]["readOnlyHint"] for tool in tools] == [True, True, False]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("invoice", "list_invoices"),
        ("weather in Rome", "forecast"),
        ("CANCEL orders", "cancel_order"),
        ("what do customers pay", "list_invoices"),
        ("city", "forecast"),
    ],
)
def test_tools_are_found_by_what_they_say(client: MCPClient, query: str, name: str):
    assert find(client, query)[0] == name


def test_a_tool_that_is_found_says_how_to_call_it(client: MCPClient):
    (tool,) = client.call("find_tools", query="cancel").structured["tools"]

    assert tool["call_with"] == "run_write_tool"
    assert tool["description"] == "Cancel an order."
    assert tool["arguments"]["required"] == ["number"]


def test_nothing_that_fits_is_said(client: MCPClient):
    found = client.call("find_tools", query="zebra").structured

    assert found == {"tools": [], "note": "No tool has any of these words. Try others."}


def test_tools_are_called(client: MCPClient):
    assert client.call("run_read_tool", name="forecast", arguments={"city": "Rome"}).text == "Rome"
    assert client.call("run_read_tool", name="list_invoices").text == "invoices of "
    written = client.call("run_write_tool", name="cancel_order", arguments={"number": "A"})
    assert written.text == "A cancelled"


def test_what_writes_is_not_called_for_reading(client: MCPClient):
    told = refuse(client, "run_read_tool", name="cancel_order", arguments={"number": "A"})
    assert "Call it with run_write_tool." in told
    told = refuse(client, "run_write_tool", name="forecast", arguments={"city": "Rome"})
    assert "Call it with run_read_tool." in told


def test_hidden_tools_are_unknown(client: MCPClient):
    assert find(client, "salaries") == []
    hidden = refuse(client, "run_read_tool", name="list_salaries")
    unknown = refuse(client, "run_read_tool", name="list_celeries")

    assert hidden == unknown
    client.force_login(User.objects.create_superuser("root"))
    assert find(client, "salaries") == ["list_salaries"]
    assert client.call("run_read_tool", name="list_salaries").text == "secret"


def test_the_three_do_not_lead_to_each_other(client: MCPClient):
    assert find(client, "find tools") == []
    assert "no such tool" in refuse(client, "run_read_tool", name="find_tools")
    assert "no such tool" in refuse(client, "run_write_tool", name="run_write_tool")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"name": "forecast", "arguments": {"town": "Rome"}}, "/town"),
        ({"name": "forecast", "arguments": [1]}, "/arguments"),
        ({"name": "forecast"}, "/city: is required"),
        ({"name": "forcast"}, "Did you mean 'forecast'?"),
        ({}, "/name: is required"),
    ],
)
def test_wrong_arguments_are_told(client: MCPClient, arguments: Any, told: str):
    assert told in refuse(client, "run_read_tool", **arguments)


def test_tools_that_come_and_go_are_found_and_not(server: MCPServer, client: MCPClient):
    @server.tool(read_only=True)
    def count_zebras() -> str:
        """Count the zebras."""
        return "3"

    assert find(client, "zebra") == ["count_zebras"]
    server.registry.set_disabled(frozenset({("tools", "count_zebras")}))
    assert find(client, "zebra") == []


def test_a_server_without_visible_tools_lists_none(db: None):
    server = MCPServer("empty", public=True)

    @server.tool(permission="auth.view_user")
    def hidden() -> str:
        """Hide."""
        return ""

    tool_search(server)

    assert MCPClient(server).list_tools() == []


def test_a_long_name_is_not_compared(server: MCPServer, client: MCPClient):
    @server.tool(name="forecast" * 16)
    def long() -> str:
        """Say it at length."""
        return ""

    near, far = "forecast" * 15 + "forecas", "forecast" * 17
    assert "Did you mean 'forecastforecast" in refuse(client, "run_read_tool", name=near)
    assert "Did you mean" not in refuse(client, "run_read_tool", name=far)


def test_hidden_tools_do_not_change_the_order(db: None):
    def nothing() -> str:
        return ""

    def make(hidden: int) -> list[str]:
        server = MCPServer("ordered", public=True)
        server.tool(read_only=True, name="one", description="alpha")(nothing)
        server.tool(read_only=True, name="two", description="beta")(nothing)
        for number in range(hidden):
            server.tool(name=f"hidden{number}", description="alpha", permission="auth.view_user")(
                nothing
            )
        tool_search(server)
        return find(MCPClient(server), "beta alpha")

    assert make(8) == make(0)


def test_no_query_is_too_long(server: MCPServer):
    index = SearchIndex(server.registry.tools.values())

    words = " ".join(f"word{number}" for number in range(20))
    assert index.find(f"{words} invoice", server.registry.tools, 5) == []
    assert index.find(f"{words} {words}", server.registry.tools, 5) == []
    assert index.find("invoice", server.registry.tools, 5) == ["list_invoices"]


def test_found_tools_keep_to_the_budget_and_the_others_are_named(server: MCPServer):
    small = MCPServer("few-tokens-searched", public=True, max_result_tokens=300)
    for number in range(10):
        small.register_tool(lambda: "", name=f"count_{number}", description="Count. " + "x" * 300)
    tool_search(small)

    found = MCPClient(small).call("find_tools", query="count", limit=10).structured

    shown = [tool["name"] for tool in found["tools"]]
    assert 1 <= len(shown) < 4
    named = [name for name in (f"count_{number}" for number in range(10)) if name in found["note"]]
    assert sorted([*shown, *named]) == [f"count_{number}" for number in range(10)]
