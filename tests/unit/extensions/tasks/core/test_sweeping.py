"""Tasks of dead workers: they end without a client, and free their limits."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from django_mcp.extensions.tasks.core.memory import MemoryTasks
from django_mcp.extensions.tasks.core.ports import ports_of
from django_mcp.extensions.tasks.core.run import hand_back_runs
from django_mcp.extensions.tasks.core.start import sweep_tasks
from django_mcp.extensions.tasks.core.task import GRACE_S, LEASE_S, MAX_EXTENSIONS, Task, new_id
from django_mcp.extensions.tasks.core.transitions import advance
from django_mcp.server.exchange.quotas import CountLimits
from django_mcp.server.server import BaseServer
from tests.support.ports import use_ports, use_task_ports
from tests.support.server.tasks import Gate, Modern, make_server
from tests.support.wire import V2026_07_28

ANY = CountLimits(total=100, anonymous=100, each=100)


@pytest.fixture
async def made() -> tuple[BaseServer, Gate]:
    server, gate = make_server(max_tasks_per_principal=1)

    @server.tool(task="allowed", idempotent=True)
    async def again() -> str:
        gate.runs += 1
        gate.has_begun.set()
        await gate.may_go_on.wait()
        return f"run {gate.runs}"

    return server, gate


async def leave_task(server: BaseServer, tool: str, **rounds: Any) -> str:
    """Leave a task as a killed worker does; return its id."""
    now_s = server.engine.ports.clock()
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
        revision=V2026_07_28.name,
        tool=tool,
        call=call,
        created_s=now_s - 60,
        updated_s=now_s - 60,
        ttl_ms=3_600_000,
        poll_ms=2000,
        run="gone",
        lease_s=now_s - 30,
        rounds=rounds,
    )
    assert await ports_of(server.engine).store.insert(task, ANY)
    return task.id


async def test_a_task_of_a_dead_worker_does_not_count_as_running(server: BaseServer, gate: Gate):
    await leave_task(server, "wait", extended=MAX_EXTENSIONS)

    assert await Modern(server).create("wait")
    gate.may_go_on.set()


async def test_a_dead_workers_task_ends_without_a_client_polling(server: BaseServer):
    task_id = await leave_task(server, "wait", extended=MAX_EXTENSIONS)

    assert await sweep_tasks(server.engine) == 1

    task = (await ports_of(server.engine).store.find([task_id]))[task_id]
    assert (task.status, task.status_message) == (
        "failed",
        "The worker that ran this has stopped",
    )
    assert await sweep_tasks(server.engine) == 0


async def test_a_dead_workers_idempotent_task_restarts_without_polling(
    server: BaseServer, gate: Gate
):
    task_id = await leave_task(server, "again", extended=MAX_EXTENSIONS)

    assert await sweep_tasks(server.engine) == 1
    await asyncio.wait_for(gate.has_begun.wait(), 10)
    gate.may_go_on.set()

    task = await Modern(server).until(task_id, "completed")
    assert task["result"]["content"][0]["text"] == "run 1"


async def test_tasks_are_not_taken_over_without_a_runner(server: BaseServer):
    again, once = (
        await leave_task(server, "again", extended=MAX_EXTENSIONS),
        await leave_task(server, "wait", extended=MAX_EXTENSIONS),
    )

    assert await sweep_tasks(server.engine, may_begin=False) == 1

    found = await ports_of(server.engine).store.find([again, once])
    assert (found[again].status, found[once].status) == ("working", "failed")


async def test_a_lapsed_lease_is_extended_before_a_task_fails(server: BaseServer):
    now_s = 1_000_000.0
    use_ports(server, clock=lambda: now_s)
    use_task_ports(server, store=MemoryTasks(lambda: now_s))
    task_id = await leave_task(server, "wait")

    for _ in range(MAX_EXTENSIONS):
        assert await sweep_tasks(server.engine) == 0
        assert (await Modern(server).get(task_id))["status"] == "working"
        now_s += GRACE_S + 1

    assert (await Modern(server).get(task_id))["status"] == "failed"


async def test_a_run_that_renews_its_extended_lease_goes_on(server: BaseServer):
    now_s = 1_000_000.0
    use_ports(server, clock=lambda: now_s)
    use_task_ports(server, store=MemoryTasks(lambda: now_s))
    task_id = await leave_task(server, "wait")
    await sweep_tasks(server.engine)

    renewed = await advance(server.engine, task_id, lambda each, now_s: each.renew("gone", now_s))
    assert renewed is not None
    now_s += LEASE_S + 1

    # The next lapse is a new one.
    assert await sweep_tasks(server.engine) == 0
    assert (await ports_of(server.engine).store.find([task_id]))[task_id].status == "working"


async def test_a_run_of_this_process_has_not_ended_even_if_its_lease_lapsed(
    server: BaseServer, gate: Gate
):
    client = Modern(server)
    task_id = await client.create("wait")
    await asyncio.wait_for(gate.has_begun.wait(), 10)
    rounds = {"extended": MAX_EXTENSIONS}
    assert await advance(
        server.engine, task_id, lambda task, _now_s: replace(task, lease_s=0.0, rounds=rounds)
    )

    assert await sweep_tasks(server.engine) == 0
    assert (await client.get(task_id))["status"] == "working"

    gate.may_go_on.set()
    assert (await client.until(task_id, "completed"))["status"] == "completed"


async def test_shutdown_ends_running_tasks_immediately(server: BaseServer, gate: Gate):
    client = Modern(server)
    task_id = await client.create("wait")
    await asyncio.wait_for(gate.has_begun.wait(), 10)

    await hand_back_runs(server.engine.hub)

    assert gate.was_interrupted.is_set()
    task = await client.get(task_id)
    assert (task["status"], task["statusMessage"]) == (
        "failed",
        "The worker that ran this has stopped",
    )


async def test_shutdown_releases_idempotent_tasks(server: BaseServer, gate: Gate):
    client = Modern(server)
    task_id = await client.create("again")
    await asyncio.wait_for(gate.has_begun.wait(), 10)

    await hand_back_runs(server.engine.hub)
    task = (await ports_of(server.engine).store.find([task_id]))[task_id]
    assert (task.status, task.is_orphaned(server.engine.ports.clock())) == ("working", True)
    gate.may_go_on.set()
    assert await sweep_tasks(server.engine) == 1

    found = await client.until(task_id, "completed")
    assert found["result"]["content"][0]["text"] == "run 2"
