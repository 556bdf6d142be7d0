"""Tasks on two processes of one site: created in one, managed in the other, left by a dead one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.backends import Backends
from tests.support.sessions.client import LIMIT_S, Client, connected
from tests.support.sessions.cluster import SITE, Cluster, serving
from tests.support.wire import META, V2026_07_28, headers_for, message

EXTENSION = "io.modelcontextprotocol/tasks"
RELATED = "io.modelcontextprotocol/related-task"
ACCEPTED = {"action": "accept", "content": {"name": "red"}}
CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}}, "extensions": {EXTENSION: {}}}


class Modern:
    """A client of the extension; each request goes to the process that a test names."""

    def __init__(self, cluster: Cluster, http: httpx.AsyncClient, user: str | None = None) -> None:
        self.cluster = cluster
        self.http = http
        self.user = user

    def request(self, method: str, params: Mapping[str, Any]) -> tuple[Any, dict[str, str]]:
        found = {**params, "_meta": {META + "clientCapabilities": CAPABILITIES}}
        body = message(method, found, revision=V2026_07_28)
        headers = headers_for(body, V2026_07_28)
        if self.user is not None:
            headers["authorization"] = f"Bearer {self.user}"
        return body, headers

    async def ask(self, method: str, *, at: int, **params: Any) -> dict[str, Any]:
        body, headers = self.request(method, params)
        answer = await self.http.post(self.cluster.url(at), json=body, headers=headers)
        found: dict[str, Any] = answer.json()
        return found

    async def create(self, tool: str, *, at: int, **arguments: Any) -> str:
        answer = await self.ask("tools/call", at=at, name=tool, arguments=arguments)
        assert answer["result"]["resultType"] == "task", answer
        return str(answer["result"]["taskId"])

    async def until(self, task_id: str, *statuses: str, at: int) -> dict[str, Any]:
        async with asyncio.timeout(LIMIT_S):
            while True:
                task = (await self.ask("tasks/get", at=at, taskId=task_id))["result"]
                if task["status"] in statuses:
                    found: dict[str, Any] = task
                    return found
                await asyncio.sleep(0.02)


@asynccontextmanager
async def modern(cluster: Cluster, user: str | None = None) -> AsyncIterator[Modern]:
    async with httpx.AsyncClient(timeout=LIMIT_S) as http:
        yield Modern(cluster, http, user)


@pytest.fixture(scope="module", params=["sqlite", "shared"])
def backends(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Backends:
    """An SQLite file with nothing else in common, or a PostgreSQL and a Redis."""
    if request.param == "shared":
        found: Backends = request.getfixturevalue("shared")
        return found
    return Backends(sqlite=tmp_path_factory.mktemp("tasks") / "site.sqlite3")


@pytest.fixture(scope="module")
def site(backends: Backends, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    if backends.postgres is None:
        backends.manage(SITE, "migrate", "-v", "0")
    with serving(backends, folder) as cluster:
        yield cluster
    assert "Traceback" not in cluster.logs()


async def test_a_task_is_visible_in_every_process(site: Cluster):
    async with modern(site) as client:
        task_id = await client.create("job", at=0, name="same")
        assert (await client.until(task_id, "working", at=1))["taskId"] == task_id
        site.mark("same may go")
        task = await client.until(task_id, "completed", at=1)

    assert task["result"]["content"][0]["text"] == "same is done"


async def test_a_result_can_be_awaited_in_another_process(site: Cluster):
    async with connected(site) as client:
        task_id = await create(client, "job", at=0, name="waited")
        waiting = asyncio.create_task(client.ask("tasks/result", {"taskId": task_id}, at=1))
        await site.marked("waited runs")
        site.mark("waited may go")
        result = (await waiting)["result"]

    assert result["content"][0]["text"] == "waited is done"
    assert result["_meta"] == {RELATED: {"taskId": task_id}}


@pytest.mark.parametrize("tool", ["job", "slow_job"])
async def test_a_task_can_be_cancelled_from_another_process(site: Cluster, tool: str):
    async with modern(site) as client:
        task_id = await client.create(tool, at=0, name=f"cancelled {tool}")
        await site.marked(f"cancelled {tool} runs")
        answer = await client.ask("tasks/cancel", at=1, taskId=task_id)
        assert answer["result"]["resultType"] == "complete"
        await site.marked(f"cancelled {tool} was interrupted")
        assert (await client.until(task_id, "cancelled", at=0))["status"] == "cancelled"


async def test_a_task_answered_in_another_process_continues_there(site: Cluster):
    async with modern(site) as client:
        task_id = await client.create("ask_job", at=0, name="x")
        task = await client.until(task_id, "input_required", at=1)
        answers = dict.fromkeys(task["inputRequests"], ACCEPTED)
        await client.ask("tasks/update", at=1, taskId=task_id, inputResponses=answers)
        task = await client.until(task_id, "completed", at=0)

    first, last, colour = task["result"]["content"][0]["text"].split()
    assert (colour, first != last) == ("red", True)


async def test_a_task_asks_on_a_result_stream_in_another_process(site: Cluster):
    async with connected(site) as client:
        task_id = await create(client, "ask_job", at=0, name="x")
        request = client.request("tasks/result", {"taskId": task_id})
        async with client.stream(request, at=1) as stream:
            question = await stream.message()
            assert question["params"]["_meta"] == {RELATED: {"taskId": task_id}}
            await client.respond(question, ACCEPTED, at=0)
            result = (await stream.message())["result"]

    assert result["content"][0]["text"].endswith(" red")


async def test_a_listener_in_another_process_gets_the_final_status(site: Cluster):
    async with modern(site) as client:
        task_id = await client.create("job", at=0, name="heard")
        body, headers = client.request(
            "subscriptions/listen", {"notifications": {"taskIds": [task_id]}}
        )
        url = site.url(1)
        async with client.http.stream("POST", url, json=body, headers=headers) as answer:
            lines = answer.aiter_lines()
            async with asyncio.timeout(LIMIT_S):
                async for line in lines:
                    if '"status":"working"' in line:
                        site.mark("heard may go")
                    if '"status":"completed"' in line:
                        break
    assert "heard is done" in line


async def test_another_users_task_is_unknown_in_every_process(site: Cluster):
    async with modern(site, "ann") as own, modern(site, "bob") as other, modern(site) as nobody:
        task_id = await own.create("ask_job", at=0, name="x")
        await own.until(task_id, "input_required", at=1)
        for thief in (other, nobody):
            for at in (0, 1):
                for method in ("tasks/get", "tasks/cancel", "tasks/update"):
                    answer = await thief.ask(method, at=at, taskId=task_id, inputResponses={})
                    assert answer["error"]["code"] == -32602
                    assert answer["error"]["message"] == "Unknown task"


async def create(client: Client, tool: str, *, at: int, **arguments: Any) -> str:
    params = {"name": tool, "arguments": arguments, "task": {"ttl": 60_000}}
    return str((await client.ask("tools/call", params, at=at))["result"]["task"]["taskId"])


AGE = (
    "from datetime import datetime, timedelta, UTC; from django_mcp.extensions.tasks.site.models import Task; "
    "Task.objects.filter(leased_until__isnull=False).update(leased_until=datetime.now(UTC))"
)


async def test_a_dead_process_fails_its_tasks_or_leaves_them_to_others(
    backends: Backends, tmp_path: Path, request: pytest.FixtureRequest
):
    if backends.postgres is None:
        mine = Backends(sqlite=tmp_path / "site.sqlite3")
        mine.manage(SITE, "migrate", "-v", "0")
    else:
        mine = request.getfixturevalue("unshared")
    with serving(mine, tmp_path) as site:
        async with modern(site) as client:
            lost = await client.create("job", at=0, name="lost")
            again = await client.create("job_again", at=0, name="again")
            for name in ("lost", "again"):
                await site.marked(f"{name} runs")
            site.kill(0)
            # A dead process is detected only when its leases expire, which would take too long here.
            mine.manage(SITE, "shell", "-v", "0", "-c", AGE)

            task = await client.until(lost, "failed", at=1)
            assert task["error"]["code"] == -32603
            await client.until(again, "working", at=1)
            await site.marked(f"again runs in {site.workers[1].process.pid}")
            site.mark("again may go")
            task = await client.until(again, "completed", at=1)
            assert task["result"]["content"][0]["text"] == str(site.workers[1].process.pid)


@pytest.mark.parametrize("server", ["uvicorn", "daphne", "wsgi"])
async def test_a_graceful_stop_ends_or_hands_over_tasks_immediately(
    unshared: Backends, tmp_path: Path, server: str
):
    with serving(unshared, tmp_path, server=server) as cluster:
        async with modern(cluster) as client:
            once = await client.create("job", at=0, name=f"once {server}")
            again = await client.create("job_again", at=0, name=f"again {server}")
            for name in ("once", "again"):
                await cluster.marked(f"{name} {server} runs")
            cluster.workers[0].stop()

            lost = (await client.ask("tasks/get", at=1, taskId=once))["result"]
            cluster.mark(f"again {server} may go")
            done = await client.until(again, "completed", at=1)

        assert (lost["status"], lost["statusMessage"]) == (
            "failed",
            "The worker that ran this has stopped",
        )
        # gunicorn serves in a child of the process that was started.
        ended_in = int(done["result"]["content"][0]["text"])
        assert os.getpgid(ended_in) == cluster.workers[1].process.pid
        assert "Traceback" not in cluster.logs()
