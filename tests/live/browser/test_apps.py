"""Pages of tools in a host: the official bridge of MCP Apps in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from django_mcp import MCPServer, ToolError
from django_mcp.extensions.apps import App
from django_mcp.test import AsyncMCPClient
from tests.live.browser.app_host import HOST, SANDBOXES, Host
from tests.live.browser.pages import AXE

PAGE = """{% load mcp_apps %}{% mcp_app title="Sales" %}
<h1>Sales in <span data-mcp-text="month"></span></h1>
<div data-mcp-result></div>
<button type="button" data-mcp-call="more" {% mcp_args page=2 %} data-mcp-swap="#rows">More</button>
<button type="button" data-mcp-call="fail">Fail</button>
<div id="rows"></div>
<p><a href="https://shop.example/sales">All sales</a></p>
<p><a href="javascript:mcp.call('more', {page: 9})">Script</a></p>
{% endmcp_app %}"""
ROWS = "{% for row in result.rows %}<p class=row>{{ row }}</p>{% endfor %}"


@pytest.fixture
def client(settings: Any, tmp_path: Path) -> AsyncMCPClient:
    (tmp_path / "sales.html").write_text(PAGE)
    (tmp_path / "rows.html").write_text(ROWS)
    settings.TEMPLATES = [{**engine, "DIRS": [str(tmp_path)]} for engine in settings.TEMPLATES]
    server = MCPServer("apps", public=True)

    @server.tool(read_only=True, app=App(template="sales.html", fragment="rows.html"))
    async def sales() -> dict[str, Any]:
        """Tell the sales."""
        return {"month": "May", "rows": ["<img src=x onerror=document.title='hacked'>", "{{ 7 }}"]}

    @server.tool(read_only=True, visible_to="app", app=App(fragment="rows.html"))
    async def more(page: int) -> dict[str, Any]:
        """Tell more."""
        return {"rows": [f"page {page}"]}

    @server.tool(read_only=True, visible_to="app")
    async def fail() -> dict[str, Any]:
        """Fail."""
        raise ToolError("There are no sales.")

    return AsyncMCPClient(server, capabilities=HOST)


@pytest.fixture
def host(page: Page, client: AsyncMCPClient) -> Host:
    return Host(page, client)


@pytest.mark.parametrize("sandbox", SANDBOXES)
async def test_a_page_shows_the_result_and_calls_tools(host: Host, sandbox: str):
    frame = await host.open("sales", sandbox=sandbox)

    await expect(frame.get_by_role("heading")).to_have_text("Sales in May")
    rows = frame.locator(".row")
    await expect(rows).to_have_text(["<img src=x onerror=document.title='hacked'>", "{{ 7 }}"])
    await frame.get_by_role("button", name="More").press("Enter")
    await expect(frame.locator("#rows")).to_have_text("page 2")
    assert await host.sent("call") == [{"name": "more", "arguments": {"page": 2}}]


async def test_a_failed_call_is_told(host: Host):
    frame = await host.open("sales")

    await frame.get_by_role("button", name="Fail").click()

    await expect(frame.get_by_role("status")).to_have_text("There are no sales.")


async def test_the_host_learns_name_and_size(host: Host):
    frame = await host.open("sales")
    await expect(frame.locator(".row")).to_have_count(2)

    await frame.get_by_role("button", name="More").click()
    await expect(frame.locator("#rows")).to_have_text("page 2")

    [told] = await host.sent("initialized")
    assert told["name"] == "Sales"
    await host.page.wait_for_function("log.filter((entry) => entry[0] === 'size').length > 1")
    sizes = await host.sent("size")
    assert sizes[-1]["height"] > sizes[0]["height"]


async def test_the_theme_of_the_host_is_followed(host: Host):
    variables = {"--color-background-primary": "rgb(1, 2, 3)"}
    frame = await host.open("sales", theme="dark", styles={"variables": variables})
    body = frame.locator("body")
    await expect(body).to_have_css("background-color", "rgb(1, 2, 3)")
    await expect(body).to_have_css("color", "rgb(240, 243, 246)")

    await host.page.evaluate("bridge.setHostContext({ theme: 'light' })")

    await expect(body).to_have_css("color", "rgb(31, 35, 40)")


async def test_links_are_opened_by_the_host(host: Host):
    frame = await host.open("sales")

    await frame.get_by_role("link", name="Script").click()
    await frame.get_by_role("link", name="All sales").click()

    await host.page.wait_for_function("log.some((entry) => entry[0] === 'open')")
    assert await host.sent("open") == [{"url": "https://shop.example/sales"}]
    assert await host.sent("call") == []


async def test_a_page_answers_when_it_is_taken_down(host: Host):
    frame = await host.open("sales")
    await expect(frame.locator(".row")).to_have_count(2)

    assert await host.page.evaluate("bridge.teardownResource({})") == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_a_page_is_accessible(host: Host, theme: str):
    frame = await host.open("sales", theme=theme)
    await expect(frame.locator(".row")).to_have_count(2)
    [inner] = [each for each in host.page.frames if each.parent_frame is not None]

    await inner.evaluate(AXE.read_text())
    violations = await inner.evaluate(
        "axe.run().then((found) => found.violations.map((each) => each.id))"
    )

    assert violations == []
