"""Tasks that real Celery workers run through a real broker, for clients of a web process."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.celery_site import (
    CAPABILITIES,
    LIMIT_S,
    Site,
    create,
    request,
    until_it_is,
    working,
)
from tests.support.http.rawhttp import connect, post
from tests.support.push.clients import Listener, ask, open_session, response_of, standalone
from tests.support.sites import Running
from tests.support.wire import META, V2025_11_25, V2026_07_28, headers_for, message

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def site(
    postgres: tuple[str, int], redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    with working(tmp_path_factory.mktemp("celery"), redis_url) as site:
        yield site


@pytest.fixture
def web(site: Site) -> Iterator[Running]:
    with site.web() as web:
        yield web
    assert "Traceback" not in web.log.read_text()


async def tell(web: Running, body: dict[str, Any], headers: dict[str, str]) -> None:
    """Post a message without a response."""
    async with connect(web.host, web.port) as client:
        found = {"mcp-protocol-version": V2025_11_25.name, **headers}
        taken = await client.ask(
            post("/mcp", json.dumps({"jsonrpc": "2.0", **body}).encode(), found)
        )
    assert taken.status == 202, taken.body


async def test_a_worker_runs_tasks_created_in_a_web_process(site: Site, web: Running):
    task = await until_it_is(web, await create(web, "where"), "completed")

    ran_at = task["result"]["structuredContent"]
    assert ran_at not in (web.process.pid, site.worker.pid, os.getpid())


async def test_task_progress_is_visible_while_it_runs(site: Site, web: Running):
    task_id = await create(web, "work", name="seen")
    await site.until_marked("seen-begun")
    begun = time.monotonic()
    while "statusMessage" not in (task := await request(web, "tasks/get", taskId=task_id)):
        assert time.monotonic() - begun < LIMIT_S
        await asyncio.sleep(0.05)
    site.mark("seen-go-on").touch()

    assert (task["status"], task["statusMessage"]) == ("working", "half of it")
    await until_it_is(web, task_id, "completed")


async def test_a_cancellation_reaches_the_worker(site: Site, web: Running):
    task_id = await create(web, "work", name="ended")
    await site.until_marked("ended-begun")
    assert "status" not in await request(web, "tasks/cancel", taskId=task_id)

    await site.until_marked("ended-stopped")
    assert (await until_it_is(web, task_id, "cancelled"))["status"] == "cancelled"


async def test_task_questions_can_be_answered_at_another_web_process(site: Site):
    """The first web process is gone before the answer comes."""
    with site.web() as first:
        task_id = await create(first, "confirm")
        task = await until_it_is(first, task_id, "input_required")
    answers = {key: {"action": "decline"} for key in task["inputRequests"]}
    with site.web() as second:
        await request(second, "tasks/update", taskId=task_id, inputResponses=answers)
        ended = await until_it_is(second, task_id, "completed")

    action, first_run = ended["result"]["content"][0]["text"].split()
    assert action == "decline"
    assert int(first_run) not in (first.process.pid, second.process.pid)


async def test_a_task_survives_a_web_process_restart(site: Site):
    with site.web() as first:
        task_id = await create(first, "work", name="restart")
        await site.until_marked("restart-begun")
    with site.web() as second:
        assert (await request(second, "tasks/get", taskId=task_id))["status"] == "working"
        site.mark("restart-go-on").touch()
        ended = await until_it_is(second, task_id, "completed")

    assert ended["result"]["content"][0]["text"].startswith("done by ")


async def test_a_listener_at_a_web_process_gets_the_task_status(site: Site, web: Running):
    task_id = await create(web, "work", name="heard")
    wanted = {"notifications": {"taskIds": [task_id]}}
    meta = {"_meta": {META + "clientCapabilities": CAPABILITIES}}
    asked = message("subscriptions/listen", {**wanted, **meta}, revision=V2026_07_28, id="listen")
    async with connect(web.host, web.port) as client:
        body = post("/mcp", json.dumps(asked).encode(), headers_for(asked, V2026_07_28))
        await client.send(body)
        listener = Listener(client, await client.read_head())
        await listener.until("notifications/subscriptions/acknowledged")
        await site.until_marked("heard-begun")
        site.mark("heard-go-on").touch()
        while (await listener.until("notifications/tasks", LIMIT_S))["params"][
            "status"
        ] != "completed":
            pass


async def test_a_session_gets_status_notifications_and_the_result(site: Site, web: Running):
    """A client of core tasks, whose notifications come from the worker."""
    session = await open_session(web)
    headers = {"mcp-session-id": session}

    async def result(method: str, **params: Any) -> dict[str, Any]:
        answer = await ask(web, message(method, params, revision=V2025_11_25), **headers)
        found: dict[str, Any] = response_of(answer)["result"]
        return found

    async with standalone(web, session) as stream:
        call = {"name": "work", "arguments": {"name": "told"}, "task": {"ttl": 60_000}}
        task_id = (await result("tools/call", **call))["task"]["taskId"]
        await site.until_marked("told-begun")
        site.mark("told-go-on").touch()
        told = await stream.until("notifications/tasks/status", LIMIT_S)
    ended = await result("tasks/result", taskId=task_id)

    assert (told["params"]["taskId"], told["params"]["status"]) == (task_id, "completed")
    assert ended["content"][0]["text"].startswith("done by ")


async def test_a_session_can_be_asked_while_awaiting_a_task_result(site: Site, web: Running):
    """The worker asks, and the stream of `tasks/result` at the web process carries it."""
    own = {"mcp-session-id": await open_session(web, {"elicitation": {"form": {}}})}
    await tell(web, {"method": "notifications/initialized"}, own)
    call = message("tools/call", {"name": "confirm", "task": {"ttl": 60_000}}, revision=V2025_11_25)
    task_id = response_of(await ask(web, call, **own))["result"]["task"]["taskId"]
    waits = message("tasks/result", {"taskId": task_id}, revision=V2025_11_25, id="waits")
    async with connect(web.host, web.port) as client:
        headers = {**headers_for(waits, V2025_11_25), **own}
        await client.send(post("/mcp", json.dumps(waits).encode(), headers))
        stream = Listener(client, await client.read_head())
        asked = await stream.until("elicitation/create", LIMIT_S)
        await tell(web, {"id": asked["id"], "result": {"action": "decline"}}, own)
        ended = await stream.next(LIMIT_S)

    assert asked["params"]["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": task_id}
    assert ended is not None
    assert ended["result"]["content"][0]["text"].startswith("decline ")
