"""The admin in a browser, and the checks that apply to each of its pages."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
from playwright.async_api import ConsoleMessage, FloatRect, Page, expect

from tests.support.sites import ROOT, Running
from tests.support.wire import V2026_07_28, headers_for, message

AXE = Path(__file__).parent / "assets" / "axe-core" / "axe.min.js"
SERIOUS = ("serious", "critical")


class AdminPages:
    """One browser page, signed in to the admin; collects its errors."""

    def __init__(self, page: Page, site: Running, folder: Path) -> None:
        self.page = page
        self.site = site
        self.root = f"http://{site.host}:{site.port}/admin/"
        self.complaints: list[str] = []
        self._folder = folder
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _on_console(self, said: ConsoleMessage) -> None:
        if said.type == "error":
            self.complaints.append(said.text)

    async def sign_in(self, name: str) -> None:
        await self.page.goto(self.root + "login/?next=/admin/")
        await self.page.fill("#id_username", name)
        await self.page.fill("#id_password", name)
        await self.page.press("#id_password", "Enter")
        await self.page.wait_for_url(self.root)

    async def open(self, path: str, **query: str) -> None:
        await self.page.goto(
            f"{self.root}django_mcp/{path}" + (f"?{urlencode(query)}" if query else "")
        )

    async def open_entry(self, name: str, kind: str = "tools", **query: str) -> None:
        query = {"server": "browser-site", "kind": kind, "key": name, **query}
        await self.open("disabledentry/entry/", **query)

    async def confirm_cancel(self, waiting: Awaitable[Any]) -> Any:
        """Agree to cancel a call, and return its answer."""
        await self.page.get_by_role("button", name="Yes, cancel the call").click()
        await expect(self.page.locator(".messagelist")).to_contain_text("is being cancelled")
        async with asyncio.timeout(15):
            return await waiting

    async def confirm(self) -> None:
        """Answer the question that comes before an act."""
        await self.page.locator(".mcp-named:visible ~ p .mcp-danger").click()

    async def screenshot(self, name: str, height: int | None = None) -> None:
        """Take a picture of the page, or of its top; it becomes the one in the documentation when WRITE_SCREENSHOTS is 1."""
        # Do not publish the local path of the project.
        await self.page.evaluate(
            "root => document.querySelectorAll('code bdi').forEach("
            "each => { each.textContent = each.textContent.replace(root, '/srv/shop') })",
            str(ROOT),
        )
        folder = (
            ROOT / "docs" / "images" if os.environ.get("WRITE_SCREENSHOTS") == "1" else self._folder
        )
        top = None
        if height is not None:
            top = FloatRect(x=0, y=0, width=1280, height=height)
        await self.page.screenshot(path=folder / f"{name}.png", full_page=True, clip=top)

    async def check(self, *within: str) -> None:
        """Nothing was refused by the policy or failed, and axe finds no serious fault within these.

        axe itself is not the page's script, so it comes in past the policy. The field to search in
        and the way back up are Django's own.
        """
        assert self.complaints == [], self.complaints
        await self.page.evaluate(AXE.read_text())
        where = {
            "exclude": ["#searchbar", ".breadcrumbs"],
            **({"include": within} if within else {}),
        }
        found = await self.page.evaluate(
            "where => axe.run(where, {resultTypes: ['violations']})", where
        )
        faults = [
            (each["id"], [(node["html"][:200], node["failureSummary"]) for node in each["nodes"]])
            for each in found["violations"]
            if each["impact"] in SERIOUS
        ]
        assert faults == [], faults

    async def overhang(self) -> int:
        """Return by how much the page is wider than its window."""
        found: int = await self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        return found

    async def assert_inert(self) -> None:
        """No script of a client's or a tool's has run."""
        assert await self.page.evaluate("window.hacked") is None


async def call(
    site: Running,
    name: str,
    arguments: dict[str, Any] | None = None,
    *,
    key: str = "",
) -> dict[str, Any]:
    """Call a tool as a client does, and return the whole answer. With an API key, it is of the server `keyed`."""
    request = message(
        "tools/call", {"name": name, "arguments": arguments or {}}, revision=V2026_07_28
    )
    async with httpx.AsyncClient(timeout=30) as client:
        answer = await client.post(
            f"http://{site.host}:{site.port}/keyed/mcp" if key else site.url,
            json=request,
            headers={
                **headers_for(request, V2026_07_28),
                **({"authorization": f"Bearer {key}"} if key else {}),
            },
        )
    found: dict[str, Any] = answer.json()
    return found


async def until(is_true: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something becomes true; fail when it has not within fifteen seconds."""
    async with asyncio.timeout(15):
        while True:
            if await is_true():
                return
            await asyncio.sleep(0.2)
