"""A host with the official bridge of MCP Apps in a browser."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from playwright.async_api import FrameLocator, Page

from django_mcp.test import AsyncMCPClient

ASSETS = Path(__file__).parent / "assets"
HOST = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}
SANDBOXES = ("allow-scripts", "allow-scripts allow-forms")


class Host:
    """A host that shows pages of a server."""

    def __init__(self, page: Page, client: AsyncMCPClient) -> None:
        self.page = page
        self._client = client

    async def open(
        self,
        tool: str,
        arguments: Mapping[str, Any] = MappingProxyType({}),
        *,
        sandbox: str = "allow-scripts",
        **context: Any,
    ) -> FrameLocator:
        """Show the page of a tool with the result of a call, and return its frame."""
        await self.page.set_content("<!doctype html><html lang=en><title>Host</title><main></main>")
        await self.page.expose_function("callTool", self._call)
        await self.page.add_script_tag(path=ASSETS / "ext-apps" / "app-bridge.js")
        await self.page.add_script_tag(path=ASSETS / "host.js")
        result = (await self._client.call(tool, arguments)).raw
        html = await self._client.app(tool)
        options = {
            "result": result,
            "input": dict(arguments),
            "sandbox": sandbox,
            "context": context,
        }
        await self.page.evaluate("([html, options]) => openPage(html, options)", [html, options])
        return self.page.frame_locator("iframe")

    async def _call(self, params: dict[str, Any]) -> Any:
        return (await self._client.call(params["name"], params.get("arguments", {}))).raw

    async def sent(self, name: str) -> list[Any]:
        """Return what the page has sent of a kind."""
        found: list[Any] = await self.page.evaluate(
            "(name) => log.filter((entry) => entry[0] === name).map((entry) => entry[1])", name
        )
        return found
