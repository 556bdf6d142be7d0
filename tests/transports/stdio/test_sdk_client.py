"""The official Python client drives the example shop and this site over stdio."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.types import ElicitResult

from tests.sites import ROOT, environment
from tests.transports.stdio.process import LIMIT_S, SITE

MODES = pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])


def program(package: str, *options: str, **extra: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable,
        args=[str(ROOT / "manage.py"), "mcp_stdio", *options],
        env=environment(package, extra),
    )


async def agree(context: Any, params: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"sure": True})


@MODES
async def test_it_lists_calls_answers_and_hears_of_progress(mode: str) -> None:
    seen: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with Client(program(SITE), mode=mode, elicitation_callback=agree) as client:
        assert "aecho" in {each.name for each in (await client.list_tools()).tools}
        called = await client.call_tool("aecho", {"text": "hello"})
        assert called.content[0].text == "hello"  # type: ignore[union-attr]
        counted = await client.call_tool("count", {"to": 3}, progress_callback=note)
        assert not counted.is_error
        assert seen == [1, 2, 3]
        confirmed = await client.call_tool("confirm")
        assert "accept" in confirmed.content[0].text  # type: ignore[union-attr]
        read = await client.read_resource("stock://a")
        assert read.contents[0].text == "a"  # type: ignore[union-attr]


@MODES
async def test_what_it_cancels_leaves_the_rest_alone(mode: str) -> None:
    async with Client(program(SITE), mode=mode) as client:
        call = asyncio.create_task(client.call_tool("wait_for_ever"))
        assert (await client.call_tool("aecho", {"text": "1"})).content
        call.cancel()
        await asyncio.wait((call,), timeout=LIMIT_S)
        assert call.cancelled()
        assert (await client.call_tool("aecho", {"text": "2"})).content


async def test_it_hears_of_a_resource_it_subscribed_to() -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def take(message: Any) -> None:
        heard.put_nowait(repr(message))

    async with Client(program(SITE), mode="legacy", message_handler=take) as client:
        with pytest.warns(MCPDeprecationWarning):
            await client.subscribe_resource("stock://a")
        await client.call_tool("change", {"uri": "stock://a"})
        assert "stock://a" in await asyncio.wait_for(heard.get(), LIMIT_S)


@pytest.mark.parametrize("mode", ["auto", "2026-07-28"])
async def test_it_listens(mode: str) -> None:
    async with (
        Client(program(SITE), mode=mode) as client,
        client.listen(resource_subscriptions=["stock://a"], tools_list_changed=True) as stream,
    ):
        await client.call_tool("change", {"uri": "stock://a"})
        event = await asyncio.wait_for(anext(aiter(stream)), LIMIT_S)
        assert "stock://a" in repr(event)


def manage(package: str, *arguments: str, **extra: str) -> str:
    """Run a command of a site in a process of its own, and return what it prints."""
    return subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *arguments],
        env=environment(package, extra),
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


@pytest.fixture
def database(tmp_path: Path) -> str:
    """A database that processes of this site share."""
    path = str(tmp_path / "db.sqlite3")
    manage(SITE, "migrate", "-v", "0", STDIO_DATABASE=path)
    return path


async def test_it_hears_of_what_another_process_publishes(database: str) -> None:
    """The processes share a database, which carries what is told."""
    code = "from django_mcp import default_server as s; s.notify_resource_updated('stock://a')"
    async with (
        Client(program(SITE, STDIO_DATABASE=database), mode="auto") as client,
        client.listen(resource_subscriptions=["stock://a"]) as stream,
    ):
        await asyncio.to_thread(manage, SITE, "shell", "-c", code, STDIO_DATABASE=database)
        event = await asyncio.wait_for(anext(aiter(stream)), LIMIT_S)
        assert "stock://a" in repr(event)


@pytest.fixture
def shop(tmp_path: Path) -> tuple[str, str, str]:
    """The path of a filled shop's database, an order, and the user whose it is."""
    path = str(tmp_path / "db.sqlite3")
    manage("example_project", "demo", "--prepare", SHOP_DATABASE=path)
    code = (
        "from example_project.shop.models import Order;"
        "o = Order.objects.exclude(customer=None).first(); print(o.number, o.customer)"
    )
    told = manage("example_project", "shell", "-v", "0", "-c", code, SHOP_DATABASE=path)
    number, user = told.split()[-2:]
    return path, number, user


async def test_the_example_shop_asks_how_to_wrap(shop: tuple[str, str, str]) -> None:
    path, number, user = shop

    async def wrap(context: Any, params: Any) -> ElicitResult:
        properties = params.requested_schema["properties"]
        content = {name: _fitting(each) for name, each in properties.items()}
        return ElicitResult(action="accept", content=content)

    how = program("example_project", "--user", user, SHOP_DATABASE=path)
    async with Client(how, elicitation_callback=wrap) as client:
        found = await client.call_tool("find_orders", {"query": number})
        assert number in repr(found)
        wrapped = await client.call_tool("gift_wrap", {"number": number})
        assert not wrapped.is_error, wrapped
        assert number in wrapped.content[0].text  # type: ignore[union-attr]


def _fitting(schema: dict[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    if "oneOf" in schema:
        return schema["oneOf"][0]["const"]
    return {"boolean": True, "integer": 1, "number": 1, "string": "x"}[schema["type"]]
