"""Ready-made apps in a host: tables, cards and charts in a browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Frame, FrameLocator, Page, expect

from django_mcp import MCPServer
from django_mcp.extensions.apps import App, ArgumentsForm, Card, Chart, Confirm, Table
from django_mcp.test import AsyncMCPClient
from tests.live.browser.app_host import HOST, Host
from tests.live.browser.pages import AXE

HOSTILE = "</script><script>document.title='hacked'</script>{{ 7 }}<img src=x onerror=document.title='hacked'>"
LONG = "Donaudampfschifffahrtsgesellschaftskapitän" * 4
ORDERS = [
    {
        "number": f"A{n}",
        "customer": name,
        "total": f"{n}.50",
        "placed_at": f"2026-05-0{n}T10:00:00Z",
    }
    for n, name in enumerate(["Ada", HOSTILE, LONG, "Bea", "Cleo"], start=1)
]
ROW = {
    "type": "object",
    "properties": {
        "number": {"type": "string"},
        "customer": {"type": "string"},
        "total": {"type": "string", "format": "decimal"},
        "placed_at": {"type": "string", "format": "date-time"},
    },
}


def make_server() -> MCPServer:
    server = MCPServer("ready", public=True)
    orders = [dict(row) for row in ORDERS]
    actions = ["get_order", "open_change_order", "delete_order", "no_tool"]
    table = Table(key="number", actions=actions, title="Orders")
    schema = {"type": "object", "properties": {"results": {"type": "array", "items": ROW}}}
    inputs: dict[str, Any] = {
        "type": "object",
        "properties": {
            "search": {"type": "string"},
            "ordering": {"type": "string", "enum": ["number", "-number"]},
            "page": {"type": "integer"},
        },
    }

    @server.tool(read_only=True, app=table, input_schema=inputs, output_schema=schema)
    async def find_orders(arguments: dict[str, Any]) -> dict[str, Any]:
        """Find orders."""
        rows = [row for row in orders if arguments.get("search", "") in row["customer"]]
        rows.sort(key=lambda row: row["number"], reverse=arguments.get("ordering") == "-number")
        start = 3 * (arguments.get("page", 1) - 1)
        return {"results": rows[start : start + 3], "has_more": len(rows) > start + 3}

    filters = {
        "paid": {"type": "boolean"},
        "customer": {"type": "string"},
        "kind": {"enum": ["small", "large"]},
        "day": {"type": "string", "format": "date"},
    }
    filtered = {"type": "object", "properties": {**inputs["properties"], **filters}}

    @server.tool(read_only=True, app=Table(), input_schema=filtered, output_schema=schema)
    async def filter_orders(arguments: dict[str, Any]) -> dict[str, Any]:
        """Filter orders."""
        return {"results": orders[:1] if arguments.get("paid") is True else orders}

    @server.tool(read_only=True, app=Card(key="number", title="Order"), output_schema=ROW)
    async def get_order(number: str) -> dict[str, Any]:
        """Get one."""
        return next(row for row in orders if row["number"] == number)

    form = App(form=ArgumentsForm(keys=("number",), read="get_order"))

    @server.tool(app=form, destructive=False, output_schema=ROW)
    async def change_order(number: str, customer: str) -> dict[str, Any]:
        """Change one."""
        [order] = [row for row in orders if row["number"] == number]
        order["customer"] = customer
        return order

    def ask(_user: Any, number: str) -> str:
        return f"Delete {number}?"

    @server.tool(confirm=Confirm(question=ask))
    async def delete_order(number: str) -> str:
        """Delete one."""
        orders[:] = [row for row in orders if row["number"] != number]
        return f"{number} was deleted."

    chart = Chart(x="month", y=["sold", "returned"], title="Sales")

    @server.tool(read_only=True, app=chart, output_schema={"type": "object"})
    async def sales() -> dict[str, Any]:
        """Tell the sales."""
        rows = [{"month": f"2026-{n:02}-01", "sold": n * n, "returned": n} for n in range(1, 13)]
        return {"rows": rows}

    @server.tool(read_only=True, app=Chart(), output_schema={"type": "object"})
    async def best_sellers() -> dict[str, Any]:
        """Tell what is sold most."""
        names = ("Mug", HOSTILE, LONG)
        return {"rows": [{"product": each, "sold": n} for n, each in enumerate(names, start=1)]}

    return server


@pytest.fixture
async def host(page: Page) -> AsyncIterator[Host]:
    yield Host(page, AsyncMCPClient(make_server(), capabilities=HOST))
    assert await page.title() == "Host"


def cells(frame: FrameLocator, column: int = 1) -> Any:
    return frame.locator(f"tbody tr > :nth-child({column})")


def find_inner(host: Host) -> Frame:
    [inner] = [each for each in host.page.frames if each.parent_frame is not None]
    return inner


async def find_violations(host: Host) -> list[str]:
    inner = find_inner(host)
    await inner.evaluate(AXE.read_text())
    violations: list[str] = await inner.evaluate(
        "axe.run().then((found) => found.violations.map((each) => `${each.id} ${each.nodes[0].html}`))"
    )
    return violations


async def test_a_table_is_sorted_searched_and_turned_over(host: Host):
    frame = await host.open("find_orders")
    await expect(cells(frame)).to_have_text(["A1", "A2", "A3"])

    await frame.get_by_role("button", name="Next page").click()
    await expect(cells(frame)).to_have_text(["A4", "A5"])
    await frame.get_by_role("button", name="Number").press("Enter")
    await expect(cells(frame)).to_have_text(["A1", "A2", "A3"])
    await frame.get_by_role("button", name="Number").press("Enter")
    await expect(cells(frame)).to_have_text(["A5", "A4", "A3"])
    # Who uses a keyboard stays where they were.
    await expect(frame.get_by_role("button", name="Number")).to_be_focused()
    await frame.get_by_role("searchbox").fill("Ada")
    await frame.get_by_role("searchbox").press("Enter")
    await expect(cells(frame)).to_have_text(["A1"])
    await expect(frame.get_by_role("searchbox")).to_be_focused()
    await frame.get_by_role("searchbox").fill("nobody")
    await frame.get_by_role("button", name="Search").click()
    await expect(frame.get_by_text("There is nothing to show.")).to_be_visible()

    assert [each["arguments"] for each in await host.sent("call")] == [
        {"page": 2},
        {"ordering": "number"},
        {"ordering": "-number"},
        {"ordering": "-number", "search": "Ada"},
        {"ordering": "-number", "search": "nobody"},
    ]


async def test_a_table_is_filtered_with_values_of_their_types(host: Host):
    frame = await host.open("filter_orders", {"kind": "small"})
    await expect(cells(frame)).to_have_count(len(ORDERS))
    await expect(frame.get_by_label("Kind")).to_have_value('"small"')
    assert await find_violations(host) == []

    await frame.get_by_label("Paid").select_option("Yes")
    await frame.get_by_label("Kind").select_option("---------")
    await frame.get_by_label("Day").fill("2026-05-01")
    await frame.get_by_role("button", name="Search").click()
    await expect(cells(frame)).to_have_count(1)
    await expect(frame.get_by_label("Paid")).to_have_value("true")
    await frame.get_by_label("Paid").select_option("---------")
    await frame.get_by_label("Customer").fill("Ada")
    await frame.get_by_label("Customer").press("Enter")
    await expect(cells(frame)).to_have_count(len(ORDERS))
    await expect(frame.get_by_label("Customer")).to_be_focused()
    await frame.get_by_role("button", name="Number").click()
    await expect(frame.get_by_label("Customer")).to_have_value("Ada")

    assert [each["arguments"] for each in await host.sent("call")] == [
        {"paid": True, "day": "2026-05-01"},
        {"day": "2026-05-01", "customer": "Ada"},
        {"day": "2026-05-01", "customer": "Ada", "ordering": "number"},
    ]


async def test_a_row_opens_a_card_and_the_card_is_closed(host: Host):
    frame = await host.open("find_orders")

    await frame.get_by_role("button", name="Get order A2").press("Enter")

    heading = frame.get_by_role("heading", name="Order A2")
    await expect(heading).to_be_focused()
    await expect(frame.get_by_role("definition").filter(has_text="{{ 7 }}")).to_have_text(HOSTILE)
    assert await find_violations(host) == []
    await frame.get_by_role("button", name="Close").click()
    await expect(heading).to_have_count(0)
    await expect(frame.get_by_role("heading", name="Orders")).to_be_focused()


@pytest.mark.django_db(transaction=True)
async def test_what_is_deleted_vanishes_from_the_table(host: Host):
    frame = await host.open("find_orders")

    await frame.get_by_role("button", name="Delete order A1").click()
    await expect(frame.get_by_text("Delete A1?")).to_be_visible()
    assert await find_violations(host) == []
    await frame.locator("#mcp-detail").get_by_role("button", name="Delete order").press("Enter")

    await expect(frame.get_by_text("A1 was deleted.")).to_be_visible()
    await expect(cells(frame)).to_have_text(["A2", "A3", "A4"])
    await expect(frame.get_by_role("heading", name="Delete order")).to_be_focused()


async def test_a_row_opens_a_form_and_the_table_shows_what_was_sent(host: Host):
    frame = await host.open("find_orders")

    await frame.get_by_role("button", name="Change order A1").click()
    await frame.get_by_label("Customer").fill("Zoe")
    await frame.get_by_role("button", name="Send").click()

    await expect(cells(frame, 2).first).to_have_text("Zoe")
    await expect(frame.get_by_text("This was sent.")).to_be_visible()
    await frame.get_by_role("button", name="Show the form again").click()
    await expect(frame.get_by_label("Customer")).to_have_value("Zoe")
    await expect(cells(frame)).to_have_count(3)


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_a_table_is_accessible(host: Host, theme: str):
    frame = await host.open("find_orders", theme=theme)
    await expect(cells(frame)).to_have_count(3)

    assert await find_violations(host) == []


@pytest.mark.parametrize("direction", ["ltr", "rtl"])
@pytest.mark.parametrize("width", [320, 600, 900])
async def test_only_a_table_scrolls_sideways(host: Host, width: int, direction: str):
    frame = await host.open("find_orders")
    await expect(cells(frame)).to_have_count(3)
    await host.page.evaluate("width => document.querySelector('iframe').width = width", width)
    inner = find_inner(host)
    await inner.evaluate("direction => document.documentElement.dir = direction", direction)
    await frame.get_by_role("button", name="Get order A3").click()
    await expect(frame.get_by_role("heading", name="Order A3")).to_be_visible()

    page = "document.documentElement"
    assert await inner.evaluate(f"{page}.scrollWidth <= {page}.clientWidth")
    assert await find_violations(host) == []


COLOURED = """() => {
  const canvas = document.querySelector("canvas"), { width, height } = canvas;
  const colours = new Set(), { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 200) colours.add(data.slice(at, at + 3).join());
  return [...colours];
}"""


@pytest.mark.parametrize(
    ("tool", "theme", "colour"),
    [
        ("sales", "light", "11,92,173"),
        ("sales", "dark", "108,182,255"),
        ("best_sellers", "light", "11,92,173"),
    ],
)
async def test_a_chart_is_drawn(host: Host, tool: str, theme: str, colour: str):
    frame = await host.open(tool, theme=theme)
    await expect(frame.locator("canvas")).to_be_visible()

    assert colour in await find_inner(host).evaluate(COLOURED)
    assert await find_violations(host) == []
    await frame.get_by_text("The chart as a table").click()
    await expect(frame.locator("details tbody tr")).to_have_count(12 if tool == "sales" else 3)
    assert await find_violations(host) == []


async def test_a_chart_follows_the_theme_and_the_width(host: Host):
    frame = await host.open("sales", theme="light")
    await expect(frame.locator("canvas")).to_be_visible()

    await host.page.evaluate("bridge.setHostContext({ theme: 'dark' })")
    await expect(frame.locator("html")).to_have_attribute("data-theme", "dark")
    assert "108,182,255" in await find_inner(host).evaluate(COLOURED)
    await host.page.evaluate("document.querySelector('iframe').width = 320")
    await expect(frame.locator(".uplot")).to_have_css("width", "296px")
