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
        ('<img srcset="a.png 1x, https://a.example/2.png 2x" alt="">', "it loads a.png.*/2.png"),
        ("<style>@import 'https://a.example/a.css';</style>", "it loads https://a.example/a.css"),
        ("<style>p { background: url( /a.png ) }</style>", "it loads /a.png"),
        ("<p style='background: url(\"//a.example/a.png\")'>", "it loads //a.example/a.png"),
        ("<a href=' java\nscript:go()'>A</a>", "<a href> is a script"),
        ("<button formaction='/send'>Send</button>", "it has <form action>"),
        ("<p id=a></p><p id=a></p>", "2 elements have the id a"),
        ("<main><div></main>", "<div> is not closed"),
        ("<p></b>", "it has </b> without <b>"),
        ("<script>let a = 1", "<script> is not closed"),
        ("<button data-mcp-args='{a: 1}'>A</button>", "no JSON object"),
        (
            """<b data-mcp-call=plain data-mcp-args='{"pgae": 1}'></b>""",
            "it calls plain with 'pgae', which is no argument of it",
        ),
        ("<b src='//[' onload=x></b><img alt=a src='//['>", r"it loads //\["),
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


def test_files_that_are_in_the_page_load_nothing(client: MCPClient, templates: Path):
    data = "data:image/png;base64,iVBORw0KGgo="
    page = (
        "{% load mcp_apps %}{% mcp_app title='One' %}"
        f"<style>p {{ background: url({data}) }} /* url(/a.png) */ b {{ fill: url(#a) }}</style>"
        f"<img src='{data}' srcset='{data} 1x, {data} 2x' alt=''><ul><li>A<li>B</ul>"
        "<svg><title>A</title><path d='M0 0'/><use href='#a'/></svg>{% endmcp_app %}"
    )
    (templates / "sales.html").write_text(page)

    client.assert_app("tell")


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ("<img src='https://a.example/a.png' alt=''>", "it loads https://a.example/a.png"),
        ("<p id=one></p>", "2 elements have the id one"),
        ("<input name=month>", "the input month has no label"),
        ("<div>", "<div> is not closed"),
    ],
)
def test_the_part_of_a_result_is_examined_too(
    client: MCPClient, templates: Path, part: str, told: str
):
    page = "{% load mcp_apps %}{% mcp_app title='One' %}<b id=one></b>{% endmcp_app %}"
    (templates / "sales.html").write_text(page)
    (templates / "rows.html").write_text(part)

    with pytest.raises(AssertionError, match=told):
        client.assert_app("parts")
