"""Slow tools that hold all connections of psycopg's pool: what the package itself queries goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.backends import Backends, connect, own_postgres, require
from tests.support.sessions.client import Client, connected
from tests.support.sessions.cluster import SITE, Cluster, serving

SIZE = 2
TIMEOUT_S = 2
LIMIT_S = 40.0
POOL = {"pool": {"min_size": 1, "max_size": SIZE, "timeout": TIMEOUT_S}}
KEYS = "django_mcp.auth.authenticators.APIKeyAuthenticator"
ISSUE = """
from django.contrib.auth.models import User
from django_mcp.models import APIKey
for name in ("kim", "lee"):
    user = User.objects.create_user(name)
    print(APIKey.objects.issue(user=user, name=name)[1])
"""

pytestmark = pytest.mark.services


@pytest.fixture
def database(postgres: tuple[str, int]) -> Iterator[str]:
    """A database that no other site uses, whose workers would take over tasks."""
    require(find_spec("psycopg_pool"), "psycopg[pool] is not installed")
    with own_postgres("pooled", SITE) as name:
        with connect(name) as connection:
            connection.execute("CREATE TABLE written (name text)")
        yield name


@pytest.fixture
def backends(database: str) -> Backends:
    return Backends(postgres=database, more={"SITE_PG_OPTIONS": json.dumps(POOL)})


@pytest.fixture
def keys(backends: Backends) -> list[str]:
    """The secrets of two users."""
    return backends.manage(SITE, "shell", "--no-imports", "-c", ISSUE).split()


@pytest.fixture
def site(backends: Backends, keys: list[str], tmp_path: Path) -> Iterator[Cluster]:
    with serving(
        backends, tmp_path, AUTHENTICATORS=[KEYS], PUBLIC=False, SYNC_THREADS=8, TASK_THREADS=SIZE
    ) as found:
        yield found


async def renewed(database: str, times: int) -> None:
    """Wait until the lease of each running task was renewed so often."""

    def look() -> list[datetime]:
        with connect(database) as connection:
            rows = connection.execute("SELECT leased_until FROM django_mcp_task ORDER BY id")
            return [until for (until,) in rows]

    last = look()
    counts = [0] * len(last)
    while min(counts) < times:
        await asyncio.sleep(0.1)
        now = look()
        counts = [count + (new > old) for count, new, old in zip(counts, now, last, strict=True)]
        last = now


async def is_served(client: Client, at: int) -> None:
    """Open another session, use it, and end it."""
    async with connected(client.cluster, user=client.user) as other:
        await other.open(at=at)
        answer = await other.send(other.request("ping"), at=at)
        assert answer.status_code == 200, answer.text


async def hold_all(client: Client, names: list[str]) -> list[asyncio.Task[str]]:
    calls = [asyncio.create_task(client.call("write_slowly", name=name)) for name in names]
    for name in names:
        await client.cluster.marked(f"{name} runs")
    return calls


async def test_sessions_and_keys_go_on_while_tools_hold_the_whole_pool(
    site: Cluster, keys: list[str]
):
    names = [f"tool{number}" for number in range(SIZE)]
    async with asyncio.timeout(LIMIT_S), connected(site, user=keys[0]) as client:
        calls = await hold_all(client, names)
        # The key of another user, which the process has not read yet.
        async with connected(site, user=keys[1]) as other:
            for at in (0, 1):
                await is_served(other, at)
            refused = await other.ask("tools/call", {"name": "count_users", "arguments": {}})
        for name in names:
            site.mark(f"{name} may go")
        done = await asyncio.gather(*calls)
        counted = await client.call("count_users")

    assert done == [f"{name} is done" for name in names]
    assert counted == "2"
    assert refused["result"]["isError"] is True
    assert refused["result"]["content"][0]["text"] == "The server is busy. Try again."
    assert "All connections of the pool of a database were in use" in site.logs()
    assert "does not answer" not in site.logs()
    assert "Traceback" not in site.logs()


async def test_leases_of_tasks_are_renewed_while_tasks_hold_the_whole_pool(
    site: Cluster, keys: list[str], database: str
):
    names = [f"task{number}" for number in range(SIZE)]
    async with asyncio.timeout(LIMIT_S), connected(site, user=keys[0]) as client:
        ids = [await start(client, name) for name in names]
        for name in names:
            await site.marked(f"{name} runs")
        await renewed(database, 3)
        for name in names:
            site.mark(f"{name} may go")
        results = [await client.ask("tasks/result", {"taskId": each}, at=1) for each in ids]

    assert [each["result"]["content"][0]["text"] for each in results] == [
        f"{name} is done" for name in names
    ]
    with connect(database) as connection:
        written = connection.execute("SELECT name FROM written ORDER BY name").fetchall()
    assert written == [(name,) for name in names]
    assert "does not answer" not in site.logs()
    assert "Traceback" not in site.logs()


async def start(client: Client, name: str) -> str:
    """Start a task, and return its id."""
    arguments = {"name": name}
    params = {"name": "write_slowly", "arguments": arguments, "task": {"ttl": 60_000}}
    return str((await client.ask("tools/call", params))["result"]["task"]["taskId"])
