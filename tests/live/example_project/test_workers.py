"""The example shop in two processes on one SQLite file, without Redis: either accepts answers."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult

from tests.support.sessions.official import LIMIT_S, InTurn
from tests.support.sites import ROOT, Running, environment, running


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Running]]:
    folder = tmp_path_factory.mktemp("shops")
    extra = {"SHOP_DATABASE": str(folder / "shop.sqlite3")}
    prepare = [sys.executable, "manage.py", "demo", "--prepare"]
    subprocess.run(prepare, cwd=ROOT, env=environment("example_project", extra), check=True)
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                running("example_project", "uvicorn", log=folder / f"{name}.log", extra=extra)
            )
            for name in ("first", "second")
        ]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_an_order_can_be_confirmed_at_another_process(
    shops: list[Running], mode: Any
) -> None:
    """The request is sent by one process, and its response reaches the other."""
    asked: list[str] = []

    async def agree(context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"order": True})

    road = InTurn([shop.port for shop in shops])
    async with (
        httpx2.AsyncClient(transport=road, timeout=LIMIT_S) as http,
        Client(
            streamable_http_client(shops[0].url, http_client=http),
            mode=mode,
            elicitation_callback=agree,
        ) as client,
    ):
        result = await client.call_tool("reorder", {"number": "2026-0003"})

    ports = {port for _, body, port in road.sent if "reorder" in body or '"result"' in body}
    assert "is placed: 51.50 euros." in str(result.content)
    assert asked == ["Order 10 × notebook, 1 × mug for 51.50 euros?"]
    assert len(ports) == 2


async def call_at_both(shops: list[Running], times: int, name: str, arguments: Any) -> list[Any]:
    """Call a tool that often at the same time, in turn at each process."""
    async with Client(shops[0].url) as first, Client(shops[1].url) as second:
        clients = [first, second] * (times // 2)
        return await asyncio.gather(*(each.call_tool(name, arguments) for each in clients))


async def stock_of(shop: Running, sku: str) -> int:
    async with Client(shop.url) as client:
        contents = (await client.read_resource(f"product://{sku}/stock")).contents
    return int(json.loads(contents[0].text)["stock"])  # type: ignore[union-attr]


async def test_concurrent_calls_order_and_restock_once(shops: list[Running]):
    before = await stock_of(shops[0], "kettle")
    lines = {"lines": [{"sku": "kettle", "quantity": 1}]}

    ordered = await call_at_both(shops, 6, "place_order", lines)

    assert [result.is_error for result in ordered] == [False] * 6
    assert await stock_of(shops[1], "kettle") == before - 6

    number = ordered[0].structured_content["number"]
    cancelled = await call_at_both(shops, 6, "cancel_order", {"number": number})

    assert [result.is_error for result in cancelled] == [False] * 6
    assert await stock_of(shops[1], "kettle") == before - 5
