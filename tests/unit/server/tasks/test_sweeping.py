"""Tasks of dead workers: they end without a client, and free their limits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_mcp.server.exchange.quotas import CountLimits
from django_mcp.server.exchange.task import Task, new_id
from django_mcp.server.server import MCPServer
from django_mcp.server.tasks.run import hand_back_runs
from django_mcp.server.tasks.start import sweep_tasks
from tests.support.server.tasks import Gate, Modern, make_server
from tests.support.wire import R5

ANY = CountLimits(total=100, anonymous=100, each=100)


@pytest.fixture
async def made() -> tuple[MCPServer, Gate]:
    server, gate = make_server(max_tasks_per_principal=1)

    @server.tool(task="allowed", idempotent=True)
    async def again() -> str:
        gate.runs += 1
        gate.has_begun.set()
        await gate.may_go_on.wait()
        return f"run {gate.runs}"

    return server, gate


@pytest.fixture
def server(made: tuple[MCPServer, Gate]) -> MCPServer:
    return made[0]


@pytest.fixture
def gate(made: tuple[MCPServer, Gate]) -> Gate:
    return made[1]


async def leave_task(server: MCPServer, tool: str) -> str:
    """Leave a task as a killed worker does; return its id."""
    now_s = server.clock()
    call: dict[str, Any] = {
        "arguments": {},
        "meta": {},
        "client_info": None,
        "client_capabilities": {},
        "log_level": None,
        "can_ask": False,
        "url_kwargs": {},
        "principal": None,
    }
    task = Task(
        id=new_id(),
        server=server.name,
        owner=None,
        session=None,
        quota_key="address ",
        revision=R5.name,
        tool=tool,
        call=call,
        created_s=now_s - 60,
        updated_s=now_s - 60,
        ttl_ms=3_600_000,
        poll_ms=2000,
        run="gone",
        lease_s=now_s - 30,
    )
    assert await server.tasks.insert(task, ANY)
    return task.id


async def test_a_task_of_a_dead_worker_does_not_count_as_running(server: MCPServer, gate: Gate):
    await leave_task(server, "wait")

    assert await Modern(server).create("wait")
    gate.may_go_on.set()


async def test_a_dead_workers_task_ends_without_a_client_polling(server: MCPServer):
    task_id = await leave_task(server, "wait")

    assert await sweep_tasks(server) == 1

    task = (await server.tasks.find([task_id]))[task_id]
    assert (task.status, task.status_message) == (
        "failed",
        "The worker that ran this has stopped",
    )
    assert await sweep_tasks(server) == 0


async def test_a_dead_workers_idempotent_task_restarts_without_polling(
    server: MCPServer, gate: Gate
):
    task_id = await leave_task(server, "again")

    assert await sweep_tasks(server) == 1
    await asyncio.wait_for(gate.has_begun.wait(), 10)
    gate.may_go_on.set()

    task = await Modern(server).until(task_id, "completed")
    assert task["result"]["content"][0]["text"] == "run 1"


async def test_tasks_are_not_taken_over_without_a_runner(server: MCPServer):
    again, once = await leave_task(server, "again"), await leave_task(server, "wait")

    assert await sweep_tasks(server, may_begin=False) == 1

    found = await server.tasks.find([again, once])
    assert (found[again].status, found[once].status) == ("working", "failed")


async def test_shutdown_ends_running_tasks_immediately(server: MCPServer, gate: Gate):
    client = Modern(server)
    task_id = await client.create("wait")
    await asyncio.wait_for(gate.has_begun.wait(), 10)

    await hand_back_runs(server.hub)

    assert gate.was_interrupted.is_set()
    task = await client.get(task_id)
    assert (task["status"], task["statusMessage"]) == (
        "failed",
        "The worker that ran this has stopped",
    )


async def test_shutdown_releases_idempotent_tasks(server: MCPServer, gate: Gate):
    client = Modern(server)
    task_id = await client.create("again")
    await asyncio.wait_for(gate.has_begun.wait(), 10)

    await hand_back_runs(server.hub)
    task = (await server.tasks.find([task_id]))[task_id]
    assert (task.status, task.is_orphaned(server.clock())) == ("working", True)
    gate.may_go_on.set()
    assert await sweep_tasks(server) == 1

    found = await client.until(task_id, "completed")
    assert found["result"]["content"][0]["text"] == "run 2"
