"""Ways to have a tool run: its rate, the capabilities it needs and its check hold on each of them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.cache import cache

import django_mcp
from django_mcp import MCPServer
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.contrib.tool_search import tool_search
from django_mcp.extensions.apps import App, ArgumentsForm
from django_mcp.inprocess import MCPError
from django_mcp.test import MCPClient
from example_project.shop.models import Product

pytestmark = pytest.mark.django_db

UI: dict[str, Any] = {
    "extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}
}
SAMPLING: dict[str, Any] = {"sampling": {}}
ROWS = 60

ran: list[str] = []
is_denied: list[bool] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    cache.clear()
    ran.clear()
    is_denied.clear()
    Product.objects.bulk_create(
        Product(sku=f"p{number:02}", name="Päckchen " * 12, category="garden", price=1)
        for number in range(ROWS)
    )


def may(user: Any) -> bool:
    return not is_denied


class Products(ModelTools):
    model = Product
    fields = ["sku", "name"]
    search = ["name"]
    everyone = True
    check = may

    def get_queryset(self, user: Any) -> Any:
        ran.append("search")
        return Product.objects.order_by("sku")


class ProductAdmin(admin.ModelAdmin):
    list_display = ("sku", "name")
    search_fields = ("name",)

    def get_queryset(self, request: Any) -> Any:
        ran.append("search")
        return super().get_queryset(request)


def make_server(rules: dict[str, Any]) -> MCPServer:
    server = MCPServer("ways", public=True, max_result_tokens=1_000)
    Products.register(server=server, annotations={"search": rules})
    return server


def by_name(rules: dict[str, Any]) -> tuple[MCPServer, Callable[[MCPClient], Any]]:
    return make_server(rules), lambda client: client.call("search_products", limit=ROWS)


def by_search(rules: dict[str, Any]) -> tuple[MCPServer, Callable[[MCPClient], Any]]:
    server = make_server(rules)
    tool_search(server)
    call = {"name": "search_products", "arguments": {"limit": ROWS}}
    return server, lambda client: client.call("run_read_tool", call)


def by_compact_tool(rules: dict[str, Any]) -> tuple[MCPServer, Callable[[MCPClient], Any]]:
    server, site = MCPServer("ways", public=True), admin.AdminSite()
    site.register(Product, ProductAdmin)
    admin_tools(
        models=["shop.product"],
        site=site,
        server=server,
        style="compact",
        check=may,
        annotations={"search": rules},
    )
    return server, lambda client: client.call("search_objects", model="shop.product")


def by_link(rules: dict[str, Any]) -> tuple[MCPServer, Callable[[MCPClient], Any]]:
    found = make_client(make_server({})).call("search_products", limit=ROWS)
    (link,) = [each for each in found.raw["content"] if each["type"] == "resource_link"]
    return make_server(rules), lambda client: client.read(link["uri"])


def by_form(rules: dict[str, Any]) -> tuple[MCPServer, Callable[[MCPClient], Any]]:
    server = make_server(rules)
    form = ArgumentsForm(keys=["search"], read="search_products")

    @server.tool(app=App(form=form))
    def change_products(search: str, results: list[str] | None = None) -> str:
        """Change some."""
        return search

    return server, lambda client: client.call("open_change_products", search="a")


WAYS = [by_name, by_search, by_compact_tool, by_link, by_form]
Way = Callable[[dict[str, Any]], tuple[MCPServer, Callable[[MCPClient], Any]]]


def make_client(server: MCPServer, **capabilities: Any) -> MCPClient:
    root, _ = User.objects.get_or_create(username="root", is_staff=True, is_superuser=True)
    return MCPClient(server, user=root, capabilities={**UI, **capabilities})


def is_refused(run: Callable[[MCPClient], Any], client: MCPClient) -> bool:
    """Return whether a call is refused; if so, the handler has not run."""
    before = len(ran)
    try:
        result = run(client)
    except MCPError:
        refused = True
    else:
        refused = getattr(result, "is_error", False)
    assert (len(ran) == before) is refused
    return refused


@pytest.mark.parametrize("way", WAYS)
def test_the_rate_of_a_tool_holds(way: Way):
    server, run = way({"throttle": "2/d"})
    client = make_client(server)

    assert [is_refused(run, client) for _ in range(4)] == [False, False, True, True]


@pytest.mark.parametrize("way", WAYS)
def test_the_ways_to_a_tool_are_counted_together(way: Way):
    server, run = way({"throttle": "2/d"})
    client = make_client(server)

    for _ in range(2):
        assert not client.call("search_products", {"limit": 1}).is_error

    assert is_refused(run, client)


@pytest.mark.parametrize("way", WAYS)
def test_a_tool_needs_its_capabilities(way: Way):
    server, run = way({"required_client_capabilities": SAMPLING})

    assert is_refused(run, make_client(server))
    assert not is_refused(run, make_client(server, **SAMPLING))


@pytest.mark.parametrize("way", WAYS)
def test_the_check_of_a_tool_decides(way: Way):
    server, run = way({})
    client = make_client(server)
    assert not is_refused(run, client)

    is_denied.append(True)

    assert is_refused(run, client)


def test_a_form_reads_nothing_with_arguments_that_the_reading_tool_does_not_take():
    server, read = MCPServer("notes", public=True), []

    name = {"type": "string", "pattern": "^[a-z]{1,10}$"}

    @server.tool(read_only=True, input_schema={"type": "object", "properties": {"name": name}})
    def read_note(arguments: dict[str, str]) -> dict[str, str]:
        """Read a note."""
        read.append(arguments["name"])
        return {**arguments, "text": "old"}

    @server.tool(app=App(form=ArgumentsForm(keys=["name"], read="read_note")))
    def write_note(name: str, text: str = "") -> str:
        """Write a note."""
        return name

    client = make_client(server)

    refused = client.call("open_write_note", name="../secret")
    assert refused.is_error
    assert "name" in refused.text
    assert read == []
    assert client.call("open_write_note", name="a").structured["values"]["text"] == "old"


def test_a_form_is_opened_as_often_as_its_tool_is_called():
    server = MCPServer("notes", public=True)

    @server.tool(app=App(form=ArgumentsForm(keys=["name"])), throttle="2/15min")
    def write_note(name: str, text: str = "") -> str:
        """Write a note."""
        return name

    client = make_client(server)
    for _ in range(2):
        assert not client.call("open_write_note", name="a").is_error

    with pytest.raises(MCPError, match="Too many requests"):
        client.call("open_write_note", name="a")
    assert not client.call("write_note", name="a").is_error


RUNNERS = {
    # What answers a request, after the checks of its method.
    "server/handlers/run.py",
    # What a form starts with.
    "extensions/apps/site/forms.py",
}


def test_no_other_module_runs_the_function_of_a_tool():
    """A module that does has to call `check_call` before, and belongs to the ways above."""
    package = Path(django_mcp.__file__).parent
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "function"
        and "handler" in ast.unparse(node.func.value)
    }

    assert found == RUNNERS
