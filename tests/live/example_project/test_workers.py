"""The example shop in two processes on one SQLite file, without a Redis: who is asked may answer at either."""

from __future__ import annotations

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
async def test_an_order_is_confirmed_at_another_process(shops: list[Running], mode: Any) -> None:
    """The question goes out from one process, and its answer reaches the other."""
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
