"""Measure how long Chromium takes to draw a table of 500 rows: `python -m tests.benchmarks.tables`.

The page of a ready-made table gets its rows as the page's script puts them in: they are parsed, styled, laid out and
painted. The table tells the median of the rounds, and their range.

    python -m tests.benchmarks.tables [--rows 500] [--rounds 15]
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
from typing import Any

DRAW = """async (html) => {
    const place = document.querySelector("[data-mcp-result]") ?? document.body;
    place.replaceChildren();
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const began = performance.now();
    place.innerHTML = html;
    place.getBoundingClientRect();
    const laidOut = performance.now() - began;
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    return [laidOut, performance.now() - began, place.querySelectorAll("tbody tr").length];
}"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.tables")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    from tests.benchmarks.database import prepare

    prepare()
    from django.conf import settings
    from django.test.utils import setup_test_environment

    engine = "django.template.backends.django.DjangoTemplates"
    settings.TEMPLATES = [{"BACKEND": engine, "APP_DIRS": True}]
    setup_test_environment()
    asyncio.run(_measure(options.rows, options.rounds))


async def _measure(count: int, rounds: int) -> None:
    from playwright.async_api import async_playwright

    page_html, part = await _make_page(count)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = await browser.new_page(viewport={"width": 800, "height": 900})
        await page.set_content(page_html)
        drawn = [await page.evaluate(DRAW, part) for _ in range(rounds + 1)][1:]
        await browser.close()
    assert all(found == count for *_, found in drawn)
    for index, name in enumerate(("parsed, styled and laid out", "painted as well")):
        values = [each[index] for each in drawn]
        print(
            f"{count} rows, {name:30} {statistics.median(values):7.1f} ms "
            f"({min(values):.1f} to {max(values):.1f})"
        )


async def _make_page(count: int) -> tuple[str, str]:
    """Return the page of a table, and the part with its rows."""
    from django_mcp import MCPServer
    from django_mcp.extensions.apps import Table
    from django_mcp.test import AsyncMCPClient

    row = {
        "type": "object",
        "properties": {
            "number": {"type": "string"},
            "customer": {"type": "string"},
            "status": {"type": "string"},
            "paid": {"type": "boolean"},
            "total": {"type": "string", "format": "decimal"},
            "placed_at": {"type": "string", "format": "date-time"},
        },
    }
    schema = {"type": "object", "properties": {"results": {"type": "array", "items": row}}}
    server = MCPServer("tables", public=True)

    @server.tool(
        read_only=True, app=Table(key="number", actions=["get_order"]), output_schema=schema
    )
    async def find_orders() -> dict[str, Any]:
        """Find orders."""
        return {
            "results": [
                {
                    "number": f"2026-{number:04}",
                    "customer": f"Customer number {number % 37}",
                    "status": ("placed", "paid", "shipped")[number % 3],
                    "paid": number % 3 > 0,
                    "total": f"{number}.50",
                    "placed_at": f"2026-05-{number % 28 + 1:02}T10:00:00Z",
                }
                for number in range(count)
            ]
        }

    @server.tool(read_only=True, output_schema=row)
    async def get_order(number: str) -> dict[str, Any]:
        """Get an order."""
        return {"number": number}

    host = {
        "extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}
    }
    client = AsyncMCPClient(server, capabilities=host)
    result = await client.call("find_orders")
    return await client.app("find_orders"), result.meta["django_mcp/html"]


if __name__ == "__main__":
    main()
