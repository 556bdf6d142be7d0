"""What `manage.py check` says of pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks

from django_mcp import MCPServer
from django_mcp.extensions.apps import App, Csp

# Some checks of Django ask the database what it can do, once in a process.
pytestmark = pytest.mark.django_db


def tell() -> dict[str, Any]:
    """Tell of one."""
    return {"count": 1}


def say() -> str:
    """Say one."""
    return "one"


def find_messages() -> dict[str, str]:
    return {
        str(message.id): message.msg
        for message in run_checks(tags=["django_mcp"])
        if str(message.id).startswith("django_mcp.apps.")
    }


@pytest.fixture
def server() -> Iterator[MCPServer]:
    server = MCPServer("pages", public=True)
    yield server
    # Checks look at all servers that are left.
    for name in list(server.registry.tools):
        server.remove_tool(name)


def test_a_page_in_order_is_not_reported(server: MCPServer):
    app = App(
        template="shop/sales.html",
        fragment="shop/rows.html",
        csp=Csp(connect=["https://api.example"]),
        permissions=["camera"],
    )
    server.register_tool(tell, app=app, read_only=True)

    assert find_messages() == {}


@pytest.mark.parametrize(
    "app", [App(template="no.html"), App(template="shop/sales.html", fragment="no.html")]
)
def test_a_missing_template(server: MCPServer, app: App):
    server.register_tool(tell, app=app, read_only=True)

    assert "no.html, which no engine of TEMPLATES finds" in find_messages()["django_mcp.apps.E001"]


def test_a_page_that_fails_in_one_language(server: MCPServer, templates: Path, settings: Any):
    settings.LANGUAGES = [("en", "English"), ("de", "German")]
    page = "{% load i18n %}{% get_current_language as L %}{% if L == 'de' %}{% include 'no' %}{% endif %}"
    (templates / "sales.html").write_text(page)
    server.register_tool(tell, app="shop/sales.html", read_only=True)

    assert "cannot be rendered in de" in find_messages()["django_mcp.apps.E002"]


def test_a_static_file_that_is_missing(server: MCPServer, templates: Path):
    (templates / "sales.html").write_text("{% load mcp_apps %}{% mcp_style 'no.css' %}")
    server.register_tool(tell, app="shop/sales.html", read_only=True)

    assert "There is no static file no.css" in find_messages()["django_mcp.apps.E002"]


def test_a_tool_without_structured_output(server: MCPServer):
    server.register_tool(say, app="shop/sales.html", read_only=True)

    assert "no structured output" in find_messages()["django_mcp.apps.W001"]


def test_an_address_outside_of_the_page(server: MCPServer, templates: Path):
    (templates / "sales.html").write_text(
        "<html lang=en><title>A</title><img alt=A src='https://a.tiles.example/1.png'>"
    )
    server.register_tool(tell, name="one", app="shop/sales.html", read_only=True)
    assert "loads https://a.tiles.example/1.png" in find_messages()["django_mcp.apps.W002"]

    server.remove_tool("one")
    app = App(template="shop/sales.html", csp=Csp(resource=["https://*.tiles.example"]))
    server.register_tool(tell, name="one", app=app, read_only=True)
    assert find_messages() == {}


def test_a_fault_of_the_page(server: MCPServer, templates: Path):
    (templates / "sales.html").write_text("<html lang=en><title>A</title><form action=/>")
    server.register_tool(tell, app="shop/sales.html", read_only=True)

    assert "<form action>" in find_messages()["django_mcp.apps.W003"]


def test_a_tool_for_pages_that_no_page_calls(server: MCPServer, templates: Path):
    server.register_tool(tell, app="shop/sales.html", read_only=True)
    server.register_tool(tell, name="rows", visible_to="app", read_only=True)
    assert "no page of the server names it" in find_messages()["django_mcp.apps.W004"]

    page = "{% load mcp_apps %}{% mcp_app title='A' %}<button data-mcp-call=rows>{% endmcp_app %}"
    (templates / "rows.html").write_text(page)
    server.register_tool(tell, name="other", app="shop/rows.html", read_only=True)
    assert find_messages() == {}
