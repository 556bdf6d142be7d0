"""The preview of a page in the catalogue, by request and response."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client, override_settings

from django_mcp import MCPServer
from django_mcp.extensions.apps import App, Csp
from django_mcp.models import DisabledEntry
from django_mcp.protocol.json import decode
from tests.support.policies import policy_of
from tests.unit.admin.test_pages import HERE, client_of, try_it, url

SECTION = 'id="mcp-preview"'


@pytest.fixture(autouse=True)
def here(db: None) -> Any:
    with HERE:
        yield


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("previewed", public=True)
    tiles = Csp(
        connect=["https://api.example"],
        resource=["https://*.tiles.example"],
        frame=["https://a.example"],
    )
    server.register_tool(tell, app="shop/sales.html", read_only=True)
    server.register_tool(tell, name="tiles", app=App(template="shop/sales.html", csp=tiles))
    server.register_tool(
        tell, name="closed", app="shop/rows.html", permission="auth.view_user", read_only=True
    )
    part = App(template="shop/sales.html", fragment="shop/rows.html")
    server.register_tool(tell, name="parts", app=part, read_only=True)
    server.register_tool(tell, name="plain", read_only=True)
    return server


def tell() -> dict[str, Any]:
    """Tell of one."""
    return {"rows": ["<b>one</b>"]}


@pytest.fixture
def admin() -> Client:
    return client_of("boss", is_superuser=True)


def show_entry(client: Client, tool: str) -> Any:
    return client.get(url("entry"), {"server": "previewed", "kind": "tools", "key": tool})


def show_page(client: Client, tool: str, server: str = "previewed") -> Any:
    return client.get(url("preview"), {"server": server, "tool": tool})


def test_a_page_is_framed_with_the_policy_of_a_host(admin: Client, server: MCPServer):
    response = show_page(admin, "tell")

    assert response.status_code == 200
    assert "<title>Cancel</title>" in response.content.decode()
    assert policy_of(response) == (
        "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; "
        "style-src 'unsafe-inline'; img-src data:; font-src data:; media-src data:; connect-src 'none'; "
        "frame-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )
    assert response["X-Frame-Options"] == "SAMEORIGIN"
    assert "no-store" in response["Cache-Control"]


def test_declared_origins_are_in_the_policy(admin: Client, server: MCPServer):
    policy = policy_of(show_page(admin, "tiles"))

    assert "script-src 'unsafe-inline' https://*.tiles.example;" in policy
    assert "img-src data: https://*.tiles.example;" in policy
    assert "connect-src https://api.example;" in policy
    assert "frame-src https://a.example;" in policy


@pytest.mark.parametrize("tool", ["plain", "unknown", ""])
def test_a_tool_without_a_page_has_none(admin: Client, server: MCPServer, tool: str):
    response = show_page(admin, tool)

    assert response.status_code == 404
    assert response["Content-Type"].startswith("text/plain")


def test_an_unknown_server_is_not_found(admin: Client, server: MCPServer):
    assert show_page(admin, "tell", "none").status_code == 404


def test_a_page_that_the_operator_may_not_read_looks_like_none(server: MCPServer):
    clerk = client_of("clerk", "view_disabledentry", "try_entry")

    closed = show_page(clerk, "closed")

    assert closed.status_code == 404
    assert "<title>" not in closed.content.decode()
    assert show_page(clerk, "tell").status_code == 200


@pytest.mark.parametrize("permission", ["view_disabledentry", "try_entry"])
def test_both_permissions_are_needed(server: MCPServer, permission: str):
    assert show_page(client_of("clerk", permission), "tell").status_code == 403


def test_a_page_that_fails_is_told_without_its_error(
    admin: Client, server: MCPServer, templates: Path
):
    (templates / "sales.html").write_text("{% include 'nothing.html' %}")

    response = show_page(admin, "tell")

    assert response.status_code == 404
    assert response["Content-Type"].startswith("text/plain")
    assert "nothing.html" not in response.content.decode()


def test_the_entry_has_the_section_and_may_frame_its_own_pages(admin: Client, server: MCPServer):
    framing, plain = show_entry(admin, "tell"), show_entry(admin, "plain")

    assert SECTION in framing.content.decode()
    assert "frame-src 'self'" in policy_of(framing)
    assert "script-src 'self';" in policy_of(framing)
    assert SECTION not in plain.content.decode()
    assert "frame-src" not in policy_of(plain)


def test_a_page_cannot_put_another_origin_into_the_frame_of_a_site_with_its_own_theme(
    admin: Client, server: MCPServer, templates: Path
):
    theme = templates.parent / "admin"
    theme.mkdir()
    (theme / "base_site.html").write_text('{% extends "admin/base.html" %}')

    framing, plain = (policy_of(show_entry(admin, each)) for each in ("tell", "plain"))

    assert "; frame-src 'self'" in framing
    assert "script-src" not in framing
    assert "frame-src" not in plain


def test_who_may_not_try_and_what_is_disabled_have_no_preview(admin: Client, server: MCPServer):
    clerk = client_of("clerk", "view_disabledentry")
    assert SECTION not in show_entry(clerk, "tell").content.decode()

    DisabledEntry.objects.create(server="previewed", kind="tools", key="tell")
    assert SECTION not in show_entry(admin, "tell").content.decode()


def test_the_section_is_translated(admin: Client, server: MCPServer):
    with override_settings(LANGUAGE_CODE="de"):
        text = show_entry(admin, "tell").content.decode()

    assert ">Vorschau</h2>" in text
    assert 'data-opens="Die Seite möchte öffnen:"' in text


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
def test_a_tried_call_has_the_part_of_the_page(admin: Client, server: MCPServer, revision: str):
    response = try_it(
        admin,
        server="previewed",
        revision=revision,
        method="tools/call",
        params={"name": "parts", "arguments": {}},
    )

    answer = decode(list(response.streaming_content)[-1])
    result = decode(answer["text"])["result"]
    assert result["_meta"]["django_mcp/html"] == "<p>&lt;b&gt;one&lt;/b&gt;</p>"


def test_the_catalogue_marks_a_tool_with_a_page(admin: Client, server: MCPServer):
    page = admin.get(url("disabledentry_changelist"), {"server": "previewed", "q": "parts"})

    assert '<span class="mcp-badge">app</span>' in page.content.decode()
