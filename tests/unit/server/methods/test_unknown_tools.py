"""The error for an unknown tool names one that the principal can see, and tells of no other."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import AnonymousUser, User

from django_mcp import MCPServer
from django_mcp.inprocess import UnknownTool
from django_mcp.registry.problems import MAX_COMPARED, MAX_NAME_CHARS


def refuse(server: MCPServer, name: str, user: object = None) -> str:
    with pytest.raises(UnknownTool) as refused:
        server.call_tool(name, {}, user=user or AnonymousUser())
    return str(refused.value)


def make_server(*names: str) -> MCPServer:
    server = MCPServer("unknown", public=True)
    for name in names:
        server.register_tool(lambda: "ok", name=name)
    return server


def test_the_nearest_name_is_suggested():
    server = make_server("find_orders", "get_order")

    assert refuse(server, "find_order") == "Unknown tool: find_order. Did you mean find_orders?"
    assert refuse(server, "FindOrders").endswith("Did you mean find_orders?")
    assert refuse(server, "weather") == "Unknown tool: weather"
    # Another verb is no slip of the pen.
    assert refuse(server, "ship_order") == "Unknown tool: ship_order"


def test_security_a_tool_that_is_not_visible_is_neither_suggested_nor_told_from_an_unknown_one():
    server, without = make_server("get_order"), make_server("get_order")
    server.register_tool(lambda: "ok", name="get_orders_of_all", permission="shop.view_order")

    for name in ("get_orders_of_all", "get_orders_of_al", "get_orders"):
        assert refuse(server, name) == refuse(without, name)


@pytest.mark.django_db
def test_a_user_gets_the_names_that_the_user_sees():
    server = make_server("get_order")
    server.register_tool(lambda: "ok", name="ship_order", permission="shop.view_order")
    root = User.objects.create_superuser("root")

    assert refuse(server, "ship_orders", root).endswith("Did you mean ship_order?")


def test_a_large_server_compares_the_names_that_share_a_word():
    server = make_server(*(f"tool{number}_x" for number in range(MAX_COMPARED)), "find_orders")

    assert refuse(server, "find_order").endswith("Did you mean find_orders?")
    assert refuse(server, "findorders") == "Unknown tool: findorders"


def test_a_long_name_is_compared_with_none():
    name = "x" * MAX_NAME_CHARS

    assert refuse(make_server(name[1:]), name).endswith("?")
    assert "Did you mean" not in refuse(make_server(name), f"{name}x")
