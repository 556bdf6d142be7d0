"""The helpers for tests of pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from django_mcp import MCPServer
from django_mcp.extensions.apps import App
from django_mcp.inprocess import MCPError
from django_mcp.test import MCPClient


def tell() -> dict[str, Any]:
    """Tell of one."""
    return {"count": 1}


@pytest.fixture
def client() -> MCPClient:
    server = MCPServer("apps", public=True)
    server.register_tool(tell, name="tell", app="shop/sales.html", read_only=True)
    server.register_tool(tell, name="plain", read_only=True)
    fragment = App(template="shop/sales.html", fragment="shop/rows.html")
    server.register_tool(tell, name="parts", app=fragment, read_only=True)
    return MCPClient(server)


def test_a_page_is_read(client: MCPClient):
    assert "<title>Cancel</title>" in client.app("tell")


@pytest.mark.parametrize("name", ["plain", "unknown"])
def test_a_tool_without_a_page_has_none(client: MCPClient, name: str):
    with pytest.raises(MCPError, match=name):
        client.app(name)


@pytest.mark.parametrize("name", ["tell", "parts"])
def test_a_page_in_order_passes(client: MCPClient, name: str):
    client.assert_app(name)


@pytest.mark.parametrize(
    ("page", "told"),
    [
        ("<p>One</p>", "it has no <html lang>"),
        ('<img src="https://a.example/a.png" alt="">', "it loads https://a.example/a.png"),
        ('<script src="/static/a.js"></script>', "it loads /static/a.js"),
        ('<form action="/send">', "it has <form action>"),
        ("<p onclick='go()'>", "<p onclick> is a handler"),
        ("<img src='data:image/png;base64,'>", "no alt text"),
        ("<input name='month'>", "the input month has no label"),
        ("x" * (1024 * 1024 + 1), "bytes, of at most 1048576"),
    ],
)
def test_a_page_with_a_fault_fails(client: MCPClient, templates: Path, page: str, told: str):
    (templates / "sales.html").write_text(page)

    with pytest.raises(AssertionError, match=told):
        client.assert_app("tell")


def test_labels_count_in_any_form(client: MCPClient, templates: Path):
    page = (
        "{% load mcp_apps %}{% mcp_app title='One' %}<label for=a>A</label><input id=a>"
        "<label>B <input></label><input aria-label=C>{% endmcp_app %}"
    )
    (templates / "sales.html").write_text(page)

    client.assert_app("tell")
