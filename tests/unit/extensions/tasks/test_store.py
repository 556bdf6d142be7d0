"""Tasks in databases: limits, and errors during a database outage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.test import override_settings

from django_mcp import MCPServer
from django_mcp.execution.own_writes import MAX_DEFERRED_BYTES
from django_mcp.execution.threads import run_in_pool
from django_mcp.extensions.tasks.core.task import Task, new_id
from django_mcp.extensions.tasks.site.models import Task as Row
from django_mcp.extensions.tasks.site.store import DatabaseTasks, _Deferred, trim_tasks
from django_mcp.server.exchange.quotas import CountLimits
from django_mcp.server.ports import StoreUnavailable
from tests.support.server.tasks import Modern
from tests.support.session_sites import ToFirst, in_first

ANY = CountLimits(total=100, anonymous=100, each=100)


@pytest.fixture(autouse=True)
def routed(databases: str) -> Iterator[None]:
    with in_first():
        yield


def make_task(quota_key: str = "principal a", **changes: Any) -> Task:
    now_s = time.time()
    found: dict[str, Any] = {
        "id": new_id(),
        "server": "shop",
        "owner": None,
        "session": None,
        "quota_key": quota_key,
        "revision": "2026-07-28",
        "tool": "work",
        "call": {"principal": None},
        "created_s": now_s,
        "updated_s": now_s,
        "ttl_ms": 60_000,
        "poll_ms": 1000,
        "run": "r",
        "lease_s": now_s + 30,
        **changes,
    }
    return Task(**found)


async def test_a_lapsed_task_does_not_count_as_running():
    store, limits = DatabaseTasks(), CountLimits(total=1, anonymous=1, each=1)
    gone = make_task(lease_s=1.0)
    assert await store.insert(gone, limits)

    assert await store.insert(make_task(), limits)
    assert not await store.insert(make_task(), limits)
    assert [each.id for each in await store.find_lapsed("shop", 10)] == [gone.id]
    assert await store.find_lapsed("other", 10) == []


@pytest.mark.parametrize("other", ["Ann", "ann "])
async def test_owners_that_differ_in_case_or_spaces_are_two(other: str):
    store = DatabaseTasks()
    task = make_task(owner=other)
    assert await store.insert(task, ANY)

    assert await store.list_of("shop", "ann", None, 10) == []
    assert await store.list_of("shop ", other, None, 10) == []
    assert await store.find([task.id.swapcase(), f"{task.id} "]) == {}
    assert [each.id for each in await store.list_of("shop", other, None, 10)] == [task.id]


def test_tasks_have_their_indexes():
    connection = connections["first"]
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, Row._meta.db_table)

    indexes = {name: each["columns"] for name, each in found.items() if each["index"]}
    assert (
        indexes.items()
        >= {
            "django_mcp_task_owner": ["server", "principal_key", "created_at"],
            "django_mcp_task_status": ["status", "session"],
            "django_mcp_task_quota": ["quota_key", "updated_at"],
        }.items()
    )


async def test_anonymous_tasks_are_counted_by_address_and_capped():
    store, limits = DatabaseTasks(), CountLimits(total=4, anonymous=2, each=1)

    assert await store.insert(make_task("address 192.0.2.1"), limits)
    assert not await store.insert(make_task("address 192.0.2.1"), limits)
    assert await store.insert(make_task("address 192.0.2.2"), limits)
    assert not await store.insert(make_task("address 192.0.2.3"), limits)
    assert await store.insert(make_task("principal a"), limits)


async def test_finished_tasks_of_a_caller_are_evicted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("django_mcp.extensions.tasks.site.store.MAX_KEPT_EACH", 2)
    store = DatabaseTasks()
    finished = [make_task(status="completed", run=None, lease_s=None) for _ in range(3)]
    other = make_task("principal b", status="completed", run=None, lease_s=None)
    for each in (other, *finished):
        assert await store.insert(each, ANY)

    left = await store.find([each.id for each in (other, *finished)])
    assert set(left) == {other.id, finished[1].id, finished[2].id}


async def test_the_bytes_of_a_callers_tasks_are_limited(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("django_mcp.extensions.tasks.site.store.MAX_KEPT_BYTES_EACH", 250_000)
    store, large = DatabaseTasks(), {"principal": None, "arguments": {"x": "y" * 100_000}}

    assert await store.insert(make_task(call=large), ANY)
    assert await store.insert(make_task(call=large), ANY)
    assert not await store.insert(make_task(call=large), ANY)
    assert await store.insert(make_task("principal b", call=large), ANY)


async def test_the_bytes_of_all_finished_tasks_are_limited(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("django_mcp.extensions.tasks.site.store.MAX_KEPT_BYTES", 250_000)
    store = DatabaseTasks()
    for at in range(4):
        done = make_task(
            f"principal {at}", status="completed", run=None, lease_s=None, result=b"x" * 100_000
        )
        assert await store.insert(done, ANY)

    await run_in_pool(trim_tasks)

    assert await run_in_pool(Row.objects.count) == 2


async def test_small_tasks_of_many_callers_are_limited_too(monkeypatch: pytest.MonkeyPatch):
    """A row takes more than the bytes of its call and its result."""
    monkeypatch.setattr("django_mcp.extensions.tasks.site.store.MAX_KEPT_BYTES", 20 * 1024)
    store = DatabaseTasks()
    for at in range(40):
        done = make_task(f"principal {at}", status="completed", run=None, lease_s=None)
        assert await store.insert(done, ANY)

    await run_in_pool(trim_tasks)

    assert await run_in_pool(Row.objects.count) < 20


class ToBroken(ToFirst):
    """Routes to a database that does not exist."""

    def db_for_read(self, *_args: Any, **_hints: Any) -> str:
        return "broken"

    db_for_write = db_for_read


@pytest.fixture
def broken(tmp_path: Path) -> Iterator[None]:
    wrong = {"ENGINE": "django.db.backends.sqlite3", "NAME": tmp_path / "no" / "such.sqlite3"}
    connections.settings["broken"] = connections.configure_settings(
        {"default": {}, "broken": wrong}
    )["broken"]
    with override_settings(DATABASE_ROUTERS=[ToBroken()]):
        yield
    del connections.settings["broken"]


async def test_a_task_that_cannot_be_stored_gets_503(broken: None):
    server = MCPServer("shop", public=True)

    @server.tool(task="allowed")
    async def work() -> str:
        return "done"

    status, error = await Modern(server).error("tools/call", {"name": "work"})

    assert (status, error["code"]) == (503, -32603)


async def test_steps_that_wait_for_the_database_have_a_limit_of_bytes():
    store = DatabaseTasks()
    tasks = [make_task(), make_task()]
    waiting = {each.id: _Deferred([], is_new=True) for each in tasks}
    for each in tasks:
        waiting[each.id].task = each
    store._deferred.update(waiting)

    async def take(task: Task, size: int) -> None:
        await store.change(task.id, lambda each, _now_s: each, time.time, may_defer=True, size=size)

    await take(tasks[0], MAX_DEFERRED_BYTES - 1)
    await take(tasks[1], 1)
    for each in tasks:
        with pytest.raises(StoreUnavailable):
            await take(each, 1)
    store._drop(tasks[0].id, waiting[tasks[0].id])
    await take(tasks[1], MAX_DEFERRED_BYTES - 1)
    store._drop(tasks[1].id, waiting[tasks[1].id])

    assert (store._added_count, store._added_bytes) == (0, 0)
