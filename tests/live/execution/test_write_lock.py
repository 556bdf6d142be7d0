"""While a tool has SQLite's write lock, longer than all that waits for it: nothing is refused, fails or is lost."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from django_mcp.execution.threads import AUTHENTICATION_LIMIT_S
from django_mcp.extensions.tasks.core.task import GRACE_S, LEASE_S, MAX_EXTENSIONS
from tests.support.backends import Backends
from tests.support.sessions.client import Client
from tests.support.sessions.cluster import Cluster, serving
from tests.support.wire import META, V2026_07_28, headers_for, message

SITE = "tests.support.site.locked"
CONN_MAX_AGE = "60"
LIMIT_S = 100.0
HELD_S = float(os.environ.get("LOCKED_HELD_S", "0")) or max(
    AUTHENTICATION_LIMIT_S, LEASE_S + MAX_EXTENSIONS * GRACE_S + 1
)
"""How long the lock is held: until a task whose worker had ended would have failed."""

QUICK_S = 20.0
"""What a request may take that waits for no lock. It is far less than the lock is held."""

MAKE_KEYS = """
from django.contrib.auth import get_user_model
from django_mcp.models import APIKey
for name in ("ann", "bob", "cyd"):
    user = get_user_model().objects.create(username=name)
    print(APIKey.objects.issue(user=user, name=name)[1])
"""


@pytest.fixture(params=[1, 2])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Cluster, list[str]]]:
    """One process or two, and the keys of three users."""
    backends = Backends(sqlite=tmp_path / "db.sqlite3", more={"SITE_CONN_MAX_AGE": CONN_MAX_AGE})
    backends.manage(SITE, "migrate", "-v", "0")
    keys = backends.manage(SITE, "shell", "-v", "0", "-c", MAKE_KEYS).split()
    with serving(backends, tmp_path, site=SITE, count=request.param, TASK_AFTER_S=0.5) as cluster:
        yield cluster, keys


class Stateless:
    """A client of the revision without sessions."""

    def __init__(self, cluster: Cluster, http: httpx.AsyncClient, key: str) -> None:
        self.cluster, self.http, self.key = cluster, http, key

    async def ask(self, method: str, *, at: int, **params: Any) -> dict[str, Any]:
        capabilities: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
        meta = {META + "clientCapabilities": capabilities}
        body = message(method, {**params, "_meta": meta}, revision=V2026_07_28)
        headers = {**headers_for(body, V2026_07_28), "authorization": f"Bearer {self.key}"}
        response = await self.http.post(self.cluster.url(at), json=body, headers=headers)
        assert response.status_code == 200, response.text
        # One that waits for long comes as a stream.
        (*_, text) = [line.removeprefix("data: ") for line in response.text.splitlines() if line]
        found: dict[str, Any] = json.loads(text)["result"]
        return found

    async def call(self, tool: str, *, at: int, **arguments: Any) -> dict[str, Any]:
        return await self.ask("tools/call", at=at, name=tool, arguments=arguments)

    async def text(self, tool: str, *, at: int, **arguments: Any) -> str:
        result = await self.call(tool, at=at, **arguments)
        assert not result.get("isError"), result
        return str(result["content"][0]["text"])


async def until_ended(owner: Stateless, task_id: str, at: int) -> dict[str, Any]:
    async with asyncio.timeout(QUICK_S):
        while True:
            task = await owner.ask("tasks/get", at=at, taskId=task_id)
            if task["status"] != "working":
                return task
            await asyncio.sleep(0.1)


async def open_session(cluster: Cluster, http: httpx.AsyncClient, key: str, at: int) -> Client:
    client = Client(cluster, http, user=key)
    await client.open(at=at)
    return client


@asynccontextmanager
async def connections() -> AsyncIterator[httpx.AsyncClient]:
    limits = httpx.Limits(max_connections=None, keepalive_expiry=2.0)
    async with httpx.AsyncClient(timeout=LIMIT_S, limits=limits) as http:
        yield http


async def remember(client: Client, value: str) -> str:
    """Keep a value in a session, which may wait for longer than `Client.call` does."""
    params = {"name": "remember", "arguments": {"value": value}}
    response = await client.send(client.request("tools/call", params))
    assert value in response.text, response.text
    assert 'isError":true' not in response.text, response.text
    return value


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not is_so():  # noqa: ASYNC110 - there is nothing else to wait for
            await asyncio.sleep(0.05)


async def use_others(
    cluster: Cluster, http: httpx.AsyncClient, keys: list[str], at: int, until_s: float
) -> tuple[list[Client], list[Client]]:
    """Open sessions, use and end every second one, and call without sessions; return the kept and the ended."""
    kept, ended, number = [], [], 0
    stateless = Stateless(cluster, http, keys[2])
    while time.monotonic() < until_s:
        number += 1
        async with asyncio.timeout(QUICK_S):
            client = await open_session(cluster, http, keys[1], at)
            assert await client.call("recall", at=at) == "None"
            assert "names" in str(await client.ask("tools/list", at=at))
            if number % 2:
                kept.append(client)
            else:
                assert (await client.send(None, at=at, verb="DELETE")).status_code in (200, 204)
                assert (await client.send(client.request("ping"), at=at)).status_code == 404
                ended.append(client)
            assert await stateless.text("names", at=at) is not None
        await asyncio.sleep(0.2)
    return kept, ended


async def test_everything_goes_on_while_a_task_has_the_write_lock(
    cluster: tuple[Cluster, list[str]], tmp_path: Path
):
    site, keys = cluster
    everywhere, go = range(len(site.workers)), tmp_path / "go"
    async with connections() as http:
        owner, other = Stateless(site, http, keys[0]), Stateless(site, http, keys[1])
        earlier = await open_session(site, http, keys[1], 0)
        created = await owner.call("hold_as_task", at=0, name="task", go=str(go))
        task_id = created["taskId"]
        await until(Path(f"{go}.held").exists)
        until_s = time.monotonic() + HELD_S

        # What writes waits, however long it takes.
        writing = [
            asyncio.ensure_future(other.text("write", at=at, name=f"written at {at}"))
            for at in everywhere
        ]
        writing.append(asyncio.ensure_future(remember(earlier, "kept")))
        using = [
            asyncio.ensure_future(use_others(site, http, keys, at, until_s)) for at in everywhere
        ]
        seen: set[str] = set()
        while time.monotonic() < until_s:
            for at in everywhere:
                async with asyncio.timeout(QUICK_S):
                    task = await owner.ask("tasks/get", at=at, taskId=task_id)
                assert task["status"] == "working", task
                seen |= {str(task.get("statusMessage"))} if at == 0 else set()
            await asyncio.sleep(0.5)
        assert len([each for each in seen if each.startswith("step")]) > 3
        used = await asyncio.gather(*using)
        assert not any(each.done() for each in writing)

        go.touch()
        assert sorted(await asyncio.gather(*writing)) == sorted(
            ["kept", *(f"written at {at}" for at in everywhere)]
        )
        for at in everywhere:
            task = await until_ended(owner, task_id, at)
            assert task["status"] == "completed", task
            assert task["result"]["content"][0]["text"] == "held"
            names = await owner.text("names", at=at)
            assert "task" in names
            assert all(f"written at {each}" in names for each in everywhere)
            assert await earlier.call("recall", at=at) == "kept"
        # Sessions that were opened or ended meanwhile are so in every process.
        for at in everywhere:
            for kept, ended in used:
                for client in kept:
                    assert (await client.send(client.request("ping"), at=at)).status_code == 200
                for client in ended:
                    assert (await client.send(client.request("ping"), at=at)).status_code == 404
    for trouble in ("Traceback", "503", "locked", "does not answer", "failed"):
        assert trouble not in site.logs(), site.logs()


async def test_a_call_that_writes_becomes_a_task_and_asks_its_client(
    cluster: tuple[Cluster, list[str]], tmp_path: Path
):
    site, keys = cluster
    go = tmp_path / "go"
    async with connections() as http:
        owner = Stateless(site, http, keys[0])
        async with asyncio.timeout(QUICK_S):
            created = await owner.call("hold_perhaps_as_task", at=0, name="auto", go=str(go))
        assert created["resultType"] == "task", created
        await until(Path(f"{go}.held").exists)
        go.touch()
        assert (await until_ended(owner, created["taskId"], 0))["status"] == "completed"

        client = await open_session(site, http, keys[1], 0)
        async with asyncio.timeout(QUICK_S), client.begin("ping", at=0, name="pinged") as stream:
            question = await stream.message()
            assert question["method"] == "ping"
            await client.respond(question, {}, at=0)
            answer = await stream.message()
        assert answer["result"]["content"][0]["text"] == "yes"
        assert "pinged" in await owner.text("names", at=0)
