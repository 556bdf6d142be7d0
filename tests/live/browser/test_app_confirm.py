"""The page that asks the user before a tool runs, in a host: the official bridge of MCP Apps in a browser."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from playwright.async_api import FrameLocator, Page, expect

from django_mcp import MCPServer
from django_mcp.contrib.models import ModelTools
from django_mcp.extensions.apps import Confirm
from django_mcp.protocol.json import decode
from django_mcp.test import AsyncMCPClient
from tests.live.browser.app_host import HOST, SANDBOXES, Host
from tests.live.browser.pages import AXE
from tests.support.library.models import Shelf

pytestmark = pytest.mark.django_db(transaction=True)

HOSTILE = "</script><img src=x onerror=document.title='hacked'>{{ 7 }}"
ARGUMENTS = {"number": HOSTILE, "reason": "late\nand broken", "lines": [1, 2], "notify": False}


class SlowHost(Host):
    """A host whose calls wait for `answers`."""

    def __init__(self, page: Page, client: AsyncMCPClient) -> None:
        super().__init__(page, client)
        self.answers = asyncio.Event()

    async def _call(self, params: dict[str, Any]) -> Any:
        await self.answers.wait()
        return await super()._call(params)


@pytest.fixture
def ran() -> list[str]:
    return []


@pytest.fixture
def server(ran: list[str]) -> MCPServer:
    server = MCPServer("apps", public=True)

    @server.tool(destructive=True, confirm=Confirm(question="The customer is told by mail."))
    async def cancel_order(
        number: str, reason: str = "", lines: list[int] | None = None, notify: bool = True
    ) -> str:
        """Cancel an order."""
        ran.append(number)
        return "The order was cancelled."

    return server


@pytest.fixture
def host(page: Page, server: MCPServer) -> SlowHost:
    host = SlowHost(page, AsyncMCPClient(server, capabilities=HOST))
    host.answers.set()
    return host


def button(frame: FrameLocator, name: str = "Cancel order") -> Any:
    return frame.get_by_role("button", name=name, exact=True)


async def until_told(host: Host) -> list[Any]:
    """Return what the page tells the model, once it does."""
    await host.page.wait_for_function("log.some((entry) => entry[0] === 'context')")
    return await host.sent("context")


@pytest.mark.parametrize("sandbox", SANDBOXES)
async def test_the_page_shows_what_will_be_done(host: Host, ran: list[str], sandbox: str):
    frame = await host.open("cancel_order", ARGUMENTS, sandbox=sandbox)

    await expect(frame.get_by_role("heading")).to_have_text("Cancel order")
    await expect(frame.locator("dt")).to_have_text(["Number", "Reason", "Lines", "Notify"])
    await expect(frame.locator("dd")).to_have_text([HOSTILE, "late and broken", "1, 2", "no"])
    await expect(frame.get_by_text("The customer is told by mail.")).to_be_visible()
    await expect(frame.locator("img")).to_have_count(0)
    assert ran == []
    assert await host.sent("call") == []


@pytest.mark.parametrize("way", ["click", "Enter", " "])
async def test_the_button_runs_the_tool_once_and_the_model_is_told(
    host: Host, ran: list[str], way: str
):
    frame = await host.open("cancel_order", ARGUMENTS)

    if way == "click":
        await button(frame).click()
    else:
        await button(frame).press(way)

    await expect(frame.get_by_text("The order was cancelled.")).to_be_visible()
    await expect(frame.get_by_role("button")).to_have_count(0)
    await expect(frame.get_by_role("heading")).to_be_focused()
    assert ran == [HOSTILE]
    [called] = await host.sent("call")
    assert called["arguments"].pop("confirmation")
    assert called == {"name": "cancel_order", "arguments": ARGUMENTS}
    [told] = await until_told(host)
    assert told["content"] == [{"type": "text", "text": "The order was cancelled."}]


async def test_a_double_click_runs_the_tool_once(host: SlowHost, ran: list[str]):
    host.answers.clear()
    frame = await host.open("cancel_order", ARGUMENTS)

    await button(frame).dblclick()
    await button(frame, "Cancel").click()
    await expect(button(frame)).to_have_attribute("aria-busy", "true")
    host.answers.set()

    await expect(frame.get_by_text("The order was cancelled.")).to_be_visible()
    assert len(await host.sent("call")) == 1
    assert ran == [HOSTILE]


async def test_cancel_runs_nothing_and_the_model_is_told(host: Host, ran: list[str]):
    frame = await host.open("cancel_order", ARGUMENTS)

    await button(frame, "Cancel").click()

    await expect(frame.get_by_text("Nothing was done.")).to_be_visible()
    await expect(frame.get_by_role("button")).to_have_count(0)
    await expect(frame.get_by_role("heading")).to_be_focused()
    [told] = await until_told(host)
    assert told["content"] == [{"type": "text", "text": "Cancel order: Nothing was done."}]
    assert await host.sent("call") == []
    assert ran == []


async def test_a_used_value_is_refused_on_the_page(host: Host, server: MCPServer, ran: list[str]):
    frame = await host.open("cancel_order", ARGUMENTS)
    used = decode(await button(frame).get_attribute("data-mcp-args"))
    await AsyncMCPClient(server, capabilities=HOST).call("cancel_order", used)

    await button(frame).click()

    await expect(frame.get_by_role("status")).to_contain_text("was used already")
    await expect(button(frame)).to_be_enabled()
    assert ran == [HOSTILE]


async def test_a_host_that_does_not_answer_is_told_of(host: SlowHost, ran: list[str]):
    await host.page.clock.install()
    host.answers.clear()
    frame = await host.open("cancel_order", ARGUMENTS)
    await button(frame).click()
    await expect(button(frame)).to_have_attribute("aria-busy", "true")

    await host.page.clock.fast_forward(16_000)

    await expect(frame.get_by_role("status")).to_have_text("There is no answer yet.")
    host.answers.set()
    await expect(frame.get_by_text("The order was cancelled.")).to_be_visible()
    await expect(frame.locator("[data-mcp-status]")).to_have_text("")


async def test_the_page_is_german(page: Page, server: MCPServer):
    headers = {"accept-language": "de"}
    host = Host(page, AsyncMCPClient(server, capabilities=HOST, headers=headers))

    frame = await host.open("cancel_order", ARGUMENTS)

    await expect(frame.locator("html")).to_have_attribute("lang", "de")
    await expect(frame.locator("dd").last).to_have_text("nein")
    await button(frame, "Abbrechen").click()
    await expect(frame.get_by_text("Es wurde nichts getan.")).to_be_visible()


@pytest.mark.parametrize("width", [320, 900])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("language", ["en", "ar"])
async def test_the_page_is_accessible_and_fits(
    page: Page, server: MCPServer, settings: Any, width: int, theme: str, language: str
):
    settings.LANGUAGES = [("en", "English"), ("ar", "Arabic")]
    headers = {"accept-language": language}
    host = Host(page, AsyncMCPClient(server, capabilities=HOST, headers=headers))
    frame = await host.open(
        "cancel_order", {**ARGUMENTS, "reason": "word " * 100 + "x" * 200}, theme=theme
    )
    await page.locator("iframe").evaluate(f"(frame) => frame.width = {width}")
    await expect(button(frame)).to_be_visible()
    [inner] = [each for each in page.frames if each.parent_frame is not None]

    await inner.evaluate(AXE.read_text())
    look = "axe.run().then((found) => found.violations.map((each) => each.id))"
    assert await inner.evaluate(look) == []
    assert await inner.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert await inner.evaluate("document.documentElement.dir") == (
        "rtl" if language == "ar" else "ltr"
    )
    await button(frame).click()
    await expect(frame.get_by_text("The order was cancelled.")).to_be_visible()
    assert await inner.evaluate(look) == []


class Shelves(ModelTools):
    model = Shelf
    fields = ["name"]
    lookup_field = "name"
    writes = ["delete"]
    everyone = True
    app = True


async def test_a_row_of_a_table_is_deleted_after_a_question(page: Page):
    root = await sync_to_async(User.objects.create_superuser)("root")
    for name in ("maps", "novels"):
        await Shelf.objects.acreate(name=name, owner=root)
    server = MCPServer("shelves")
    await sync_to_async(Shelves.register)(server=server)
    host = Host(page, AsyncMCPClient(server, user=root, capabilities=HOST))
    frame = await host.open("search_shelves")
    rows = frame.locator("tbody tr")
    await expect(rows).to_have_count(2)

    await rows.filter(has_text="maps").get_by_role("button", name="Delete").click()
    await expect(frame.get_by_text('Delete shelf "maps"?')).to_be_visible()
    assert await Shelf.objects.acount() == 2
    await frame.locator("[data-mcp-question] .mcp-danger").click()

    await expect(frame.get_by_text('shelf "maps" was deleted.')).to_be_visible()
    await expect(rows).to_have_count(1)
    assert await Shelf.objects.acount() == 1
