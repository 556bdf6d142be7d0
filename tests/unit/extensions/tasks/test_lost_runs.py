"""A run whose task was given to another while its process was paused."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest

from django_mcp import MCPServer
from django_mcp.execution.threads import run_in_pool
from django_mcp.extensions.tasks.core import run as runs
from django_mcp.extensions.tasks.core.transitions import advance
from tests.support.databases import make_product, products
from tests.support.held import LIMIT_S
from tests.support.server.tasks import Modern, until

pytestmark = pytest.mark.usefixtures("databases", "memory_stores")


@pytest.fixture
def memory_stores(databases: str, settings: object) -> None:
    settings.DJANGO_MCP = {"TASK_STORE": "memory", "SESSION_STORE": "memory"}  # type: ignore[attr-defined]


@pytest.mark.parametrize("is_taken", [True, False])
async def test_its_transaction_is_committed_only_while_it_has_the_task(
    is_taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The lease may have lapsed when the handler returns, and was not renewed since.
    monkeypatch.setattr(runs, "LEASE_S", 0.0)
    monkeypatch.setattr(runs, "BEAT_S", 60.0)
    server = MCPServer("paused", atomic="first")
    begun, go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @server.tool(task="allowed")
    def write() -> str:
        make_product("a")
        loop.call_soon_threadsafe(begun.set)
        assert go.wait(LIMIT_S)
        return "written"

    client = Modern(server)
    task_id = await client.create("write")
    await asyncio.wait_for(begun.wait(), LIMIT_S)
    (run,) = runs.runs_of(server.engine.hub)
    if is_taken:
        assert await advance(
            server.engine, task_id, lambda task, _now_s: replace(task, run="another")
        )
    go.set()
    if is_taken:

        async def has_ended() -> bool:
            return run.call.detached_run is None

        await until(has_ended)
    else:
        await client.until(task_id, "completed")

    assert await run_in_pool(products) == (set() if is_taken else {"a"})
