"""Pages of tools on the wire: who is told of them, who may read them, and what they contain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from django_mcp import MCPServer
from django_mcp.extensions.apps import App, Csp, Rendered
from django_mcp.inprocess import MCPError
from django_mcp.test import MCPClient
from tests.unit.extensions.apps.waiting import may_go_on

HOST = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}
REVISIONS = ("2025-11-25", "2026-07-28")
SALES: dict[str, Any] = {
    "read_only": True,
    "app": App(template="shop/sales.html", fragment="shop/rows.html"),
}


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("apps", public=True)

    @server.tool(read_only=True, app=App(template="shop/sales.html", fragment="shop/rows.html"))
    def sales(month: str) -> dict[str, Any]:
        """Tell the sales of a month."""
        return {"month": month, "rows": ["<b>one</b>", "two"]}

    @server.tool(read_only=True, visible_to="app")
    def more() -> str:
        """Tell more."""
        return "more"

    return server


def tell() -> dict[str, Any]:
    """Tell nothing."""
    return {}


def find_tool(client: MCPClient, name: str) -> Any:
    return {tool["name"]: tool for tool in client.list_tools()}[name]


@pytest.mark.parametrize("revision", REVISIONS)
def test_hosts_are_told_of_the_page(server: MCPServer, revision: str):
    client = MCPClient(server, revision=revision, capabilities=HOST)

    assert find_tool(client, "sales")["_meta"]["ui"] == {"resourceUri": "ui://apps/shop/sales.html"}
    assert find_tool(client, "more")["_meta"]["ui"] == {"visibility": ["app"]}


@pytest.mark.parametrize(
    "capabilities",
    [
        {},
        {"extensions": {"io.modelcontextprotocol/ui": {}}},
        {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html"]}}},
    ],
)
@pytest.mark.parametrize("revision", REVISIONS)
def test_other_clients_are_not(server: MCPServer, revision: str, capabilities: Any):
    client = MCPClient(server, revision=revision, capabilities=capabilities)

    assert "_meta" not in find_tool(client, "sales")


def test_the_page_is_read(server: MCPServer):
    contents = MCPClient(server, capabilities=HOST).read("ui://apps/shop/sales.html")

    assert contents.mime_type == "text/html;profile=mcp-app"
    assert "<title>Cancel</title>" in contents.text
    assert "ui/initialize" in contents.text


def test_the_page_is_in_the_language_of_the_request(server: MCPServer):
    client = MCPClient(server, capabilities=HOST, headers={"accept-language": "de"})

    assert "<title>Abbrechen</title>" in client.read("ui://apps/shop/sales.html").text


def test_a_part_of_the_page_comes_with_the_result_and_is_escaped(server: MCPServer):
    result = MCPClient(server, capabilities=HOST).call("sales", month="May")

    assert result.meta["django_mcp/html"] == "<p>&lt;b&gt;one&lt;/b&gt;</p><p>two</p>"


def test_permissions_hide_the_page(django_user_model: type[User], db: None):
    server = MCPServer("closed", public=True)

    @server.tool(read_only=True, app="shop/sales.html", permission="auth.view_user")
    def sales() -> dict[str, Any]:
        """Tell the sales."""
        return {}

    with pytest.raises(MCPError, match="Resource not found"):
        MCPClient(server, capabilities=HOST).read("ui://closed/shop/sales.html")
    root = django_user_model.objects.create_superuser("root")
    assert MCPClient(server, capabilities=HOST, user=root).read("ui://closed/shop/sales.html").text


@pytest.mark.parametrize("uri", ["ui://apps/shop/other.html", "ui://other/shop/sales.html", "ui:"])
def test_other_pages_are_unknown(server: MCPServer, uri: str):
    with pytest.raises(MCPError, match="Resource not found"):
        MCPClient(server, capabilities=HOST).read(uri)


def test_what_the_page_needs_is_told_with_its_content():
    server = MCPServer("maps", public=True)
    app = App(
        template="shop/sales.html",
        csp=Csp(connect=["https://api.example"], resource=["https://*.tiles.example"]),
        permissions=["clipboard_write"],
        prefers_border=True,
    )
    server.register_tool(tell, name="map", app=app, read_only=True)

    contents = MCPClient(server, capabilities=HOST).read("ui://maps/shop/sales.html")

    assert contents.contents[0]["_meta"] == {
        "ui": {
            "csp": {
                "connectDomains": ["https://api.example"],
                "resourceDomains": ["https://*.tiles.example"],
            },
            "permissions": {"clipboardWrite": {}},
            "prefersBorder": True,
        }
    }


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"app": 5}, "write the name of a template, or App"),
        ({"app": ""}, "write the name of a template"),
        ({"visible_to": "page"}, "'app'"),
    ],
)
def test_wrong_options_are_refused(options: Any, told: str):
    server = MCPServer("wrong", public=True)

    with pytest.raises(Exception, match=told):
        server.register_tool(tell, name="one", **options)


def test_a_part_that_cannot_be_rendered_is_left_out(
    server: MCPServer, templates: Path, caplog: pytest.LogCaptureFixture
):
    (templates / "rows.html").write_text("{% include 'nothing.html' %}")

    result = MCPClient(server, capabilities=HOST).call("sales", month="May")

    assert result.structured["month"] == "May"
    assert "django_mcp/html" not in result.meta
    assert "Could not render shop/rows.html" in caplog.text


def test_a_part_gets_the_variables_that_its_app_makes(server: MCPServer, templates: Path):
    (templates / "rows.html").write_text("{{ arguments.month }} {{ names|join:' ' }}")

    def find_names(rendered: Rendered) -> dict[str, Any]:
        return {"names": [name for name in ("best", "secret") if rendered.find(name)]}

    app = App(template="shop/sales.html", fragment="shop/rows.html", context=find_names)
    server.register_tool(tell, name="best", app=app, read_only=True)
    server.register_tool(tell, name="secret", permission="auth.view_user", read_only=True)

    result = MCPClient(server, capabilities=HOST).call("best")

    assert result.meta["django_mcp/html"].strip() == "best"


@pytest.mark.parametrize(
    "result",
    [{"rows": ["x"] * 20_000}, {"rows": ["x"] * 10_000, "month": "y" * 10_000}],
    ids=["rows", "a long text for each row"],
)
def test_no_part_is_rendered_of_a_result_that_takes_long(
    result: dict[str, Any], caplog: pytest.LogCaptureFixture
):
    server = MCPServer("large", public=True)

    @server.tool(**SALES)
    def sales() -> dict[str, Any]:
        """Tell the sales."""
        return result

    answer = MCPClient(server, capabilities=HOST).call("sales")

    assert answer.structured == result
    assert "django_mcp/html" not in answer.meta
    assert "shop/rows.html was not rendered: the result of sales is too large" in caplog.text


def test_a_part_that_makes_the_result_too_large_is_left_out(templates: Path):
    (templates / "rows.html").write_text('{{ "x"|center:30000 }}')
    server = MCPServer("small", public=True, max_result_bytes=20_000)
    server.register_tool(tell, name="tell", **SALES)

    result = MCPClient(server, capabilities=HOST).call("tell")

    assert result.structured == {}
    assert "django_mcp/html" not in result.meta


def test_a_part_has_the_time_of_its_tool(
    templates: Path, settings: Any, caplog: pytest.LogCaptureFixture
):
    library = "tests.unit.extensions.apps.waiting"
    settings.TEMPLATES = [
        {**engine, "OPTIONS": {**engine["OPTIONS"], "libraries": {"waiting": library}}}
        for engine in settings.TEMPLATES
    ]
    (templates / "rows.html").write_text("{% load waiting %}{% wait %}")
    server = MCPServer("slow", public=True)
    server.register_tool(tell, name="tell", timeout=0.1, **SALES)

    try:
        result = MCPClient(server, capabilities=HOST).call("tell")
    finally:
        may_go_on.set()

    assert "django_mcp/html" not in result.meta
    assert "Could not render shop/rows.html" in caplog.text
