"""The official Python client drives the example shop and this site over stdio."""

from __future__ import annotations

import asyncio
import sys
import uuid
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.types import ElicitResult

from tests.support.sites import ROOT, environment
from tests.support.stdio.process import LIMIT_S, SITE
from tests.support.stdio.shop import MANY, Shop, manage

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
async def test_the_client_lists_calls_answers_and_receives_progress(mode: str) -> None:
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
async def test_cancelling_one_call_leaves_the_others_running(mode: str) -> None:
    async with Client(program(SITE), mode=mode) as client:
        call = asyncio.create_task(client.call_tool("wait_for_ever"))
        assert (await client.call_tool("aecho", {"text": "1"})).content
        call.cancel()
        await asyncio.wait((call,), timeout=LIMIT_S)
        assert call.cancelled()
        assert (await client.call_tool("aecho", {"text": "2"})).content


async def test_the_client_receives_subscribed_resource_updates() -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def take(message: Any) -> None:
        heard.put_nowait(repr(message))

    async with Client(program(SITE), mode="legacy", message_handler=take) as client:
        with pytest.warns(MCPDeprecationWarning):
            await client.subscribe_resource("stock://a")
        await client.call_tool("change", {"uri": "stock://a"})
        assert "stock://a" in await asyncio.wait_for(heard.get(), LIMIT_S)


@pytest.mark.parametrize("mode", ["auto", "2026-07-28"])
async def test_the_client_receives_listen_notifications(mode: str) -> None:
    async with (
        Client(program(SITE), mode=mode) as client,
        client.listen(resource_subscriptions=["stock://a"], tools_list_changed=True) as stream,
    ):
        await client.call_tool("change", {"uri": "stock://a"})
        event = await asyncio.wait_for(anext(aiter(stream)), LIMIT_S)
        assert "stock://a" in repr(event)


@pytest.fixture
def database(tmp_path: Path) -> str:
    """A database that processes of this site share."""
    path = str(tmp_path / "db.sqlite3")
    manage(SITE, "migrate", "-v", "0", STDIO_DATABASE=path)
    return path


@pytest.fixture(params=["database", "redis"])
def shared(request: pytest.FixtureRequest) -> dict[str, str]:
    """The shared backend of the processes: a database, or a channel layer without a database."""
    if request.param == "database":
        return {"STDIO_DATABASE": request.getfixturevalue("database")}
    return {"SITE_REDIS": f"{request.getfixturevalue('redis_url')} stdio-{uuid.uuid4().hex}"}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_client_receives_notifications_of_another_process(
    shared: dict[str, str], mode: str
) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def take(message: Any) -> None:
        heard.put_nowait(repr(message))

    code = "from django_mcp import default_server as s; s.notify_resource_updated('stock://a')"
    publish = partial(manage, SITE, "shell", "-c", code, **shared)
    async with Client(program(SITE, **shared), mode=mode, message_handler=take) as client:
        if mode == "legacy":
            with pytest.warns(MCPDeprecationWarning):
                await client.subscribe_resource("stock://a")
            await asyncio.to_thread(publish)
            assert "stock://a" in await asyncio.wait_for(heard.get(), LIMIT_S)
        else:
            async with client.listen(resource_subscriptions=["stock://a"]) as stream:
                await asyncio.to_thread(publish)
                event = await asyncio.wait_for(anext(aiter(stream)), LIMIT_S)
                assert "stock://a" in repr(event)


@MODES
async def test_the_client_uses_every_feature_of_the_example_shop(shop: Shop, mode: str) -> None:
    """Lists, calls, answers a question, receives progress, cancels, and receives a resource update."""
    cancelled = shop.count_cancelled()
    heard: asyncio.Queue[str] = asyncio.Queue()
    begun = asyncio.Event()
    seen: list[float] = []

    async def wrap(context: Any, params: Any) -> ElicitResult:
        assert shop.number in params.message
        return ElicitResult(action="accept", content={"paper": "stars", "note": "Yours"})

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)
        begun.set()

    async def take(message: Any) -> None:
        heard.put_nowait(repr(message))

    how = program("example_project", "--user", shop.user, **shop.extra)
    mug = {"lines": [{"sku": "mug", "quantity": 1}]}
    client = Client(how, mode=mode, elicitation_callback=wrap, message_handler=take)
    async with client:
        assert "gift_wrap" in {each.name for each in (await client.list_tools()).tools}
        found = await client.call_tool("find_orders", {"query": shop.number})
        assert shop.number in repr(found)
        wrapped = await client.call_tool("gift_wrap", {"number": shop.number})
        assert "is wrapped. stars: Yours" in wrapped.content[0].text  # type: ignore[union-attr]

        exported = await client.call_tool("export_orders", progress_callback=note)
        assert exported.structured_content is not None
        # Progress that comes too fast is throttled.
        assert 1 < len(seen) <= exported.structured_content["rows"]
        assert exported.structured_content["rows"] > MANY

        begun.clear()
        seen.clear()
        call = asyncio.create_task(client.call_tool("export_orders", progress_callback=note))
        await asyncio.wait_for(begun.wait(), LIMIT_S)
        call.cancel()
        await asyncio.wait((call,), timeout=LIMIT_S)
        assert call.cancelled()

        if mode == "legacy":
            with pytest.warns(MCPDeprecationWarning):
                await client.subscribe_resource("product://mug/stock")
            await client.call_tool("place_order", mug)
            while "product://mug/stock" not in await asyncio.wait_for(heard.get(), LIMIT_S):
                pass
        else:
            async with client.listen(resource_subscriptions=["product://mug/stock"]) as stream:
                await client.call_tool("place_order", mug)
                event = await asyncio.wait_for(anext(aiter(stream)), LIMIT_S)
                assert "product://mug/stock" in repr(event)
    await asyncio.to_thread(shop.wait_for_cancelled, cancelled + 1)
