"""Tasks that a queue runs: its arguments, and duplicate deliveries."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import django
import pytest
from celery import Celery
from django.db import connection
from django.db.backends.signals import connection_created
from django.test import override_settings

from django_mcp import Context, MCPServer
from django_mcp.extensions.tasks import run_task
from tests.support.server.tasks import Legacy, Modern, Sure

QUEUES = {
    "django.tasks": "django_mcp.extensions.tasks.django_tasks.DjangoTasksRunner",
    "celery": "django_mcp.extensions.tasks.celery.CeleryRunner",
}

# Django has a framework for tasks of its own from 6.0 on, and before that its backport.
FRAMEWORK = "django.tasks" if django.VERSION >= (6, 0) else "django_tasks"

pytestmark = [
    pytest.mark.django_db(transaction=True),
    # Of the libraries themselves.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def _read_uncommitted(connection: Any, **_kwargs: Any) -> None:
    if connection.vendor == "sqlite":
        connection.cursor().execute("PRAGMA read_uncommitted = 1")


@pytest.fixture(autouse=True)
def readers_that_wait_for_nobody() -> Iterator[None]:
    """Let requests read tasks while a queue's thread writes them.

    The threads share one SQLite database in memory, where a reader of a table that another
    connection writes to gets "table is locked" at once: no timeout applies.
    """
    _read_uncommitted(connection)
    connection_created.connect(_read_uncommitted)
    yield
    connection_created.disconnect(_read_uncommitted)
    connection.close()


@pytest.fixture(params=QUEUES)
def server(request: pytest.FixtureRequest) -> Iterator[MCPServer]:
    app = Celery("tests", set_as_current=True)
    # Threads other than this one look for the default, which an app of another test may still be.
    app.set_default()
    app.conf.task_always_eager = True
    runner = QUEUES[request.param]
    tasks = {"default": {"BACKEND": f"{FRAMEWORK}.backends.immediate.ImmediateBackend"}}
    with override_settings(DJANGO_MCP={"TASK_RUNNER": runner}, TASKS=tasks):
        # Workers find servers by name, and those of other tests may still exist.
        server = MCPServer(request.node.name, public=True)

        @server.tool(task="allowed")
        def add(a: int, b: int) -> int:
            return a + b

        @server.tool(task="allowed")
        def confirm(ctx: Context) -> str:
            return ctx.elicit("Sure?", Sure).action

        yield server
    app.close()


def test_the_task_framework_matches_the_django_version():
    from django_mcp.extensions.tasks.django_tasks import run_queued_task

    assert type(run_queued_task).__module__.startswith(f"{FRAMEWORK}.")


async def test_a_queue_runs_a_task(server: MCPServer):
    client = Modern(server)
    task_id = await client.create("add", a=2, b=3)

    task = await client.until(task_id, "completed")
    assert task["result"]["structuredContent"] == 5


async def test_answers_resume_the_task_through_the_queue(server: MCPServer):
    client = Modern(server)
    task_id = await client.create("confirm")
    task = await client.until(task_id, "input_required")
    answers = {key: {"action": "decline"} for key in task["inputRequests"]}
    await client.raw("tasks/update", {"taskId": task_id, "inputResponses": answers})

    task = await client.until(task_id, "completed")
    assert task["result"]["content"][0]["text"] == "decline"


async def test_a_core_tasks_client_waits_for_the_result(server: MCPServer):
    client = Legacy(server)
    task_id = await client.create("add", a=2, b=3)

    result = await client.result("tasks/result", {"taskId": task_id})
    assert result["content"][0]["text"] == "5"


async def test_a_task_runs_once_despite_duplicate_deliveries(server: MCPServer):
    client = Modern(server)
    task_id = await client.create("add", a=2, b=3)
    ended = await client.until(task_id, "completed")

    await asyncio.to_thread(run_task, server.name, task_id)
    await asyncio.to_thread(run_task, server.name, "forged")
    assert await client.get(task_id) == ended
    with pytest.raises(LookupError, match="no MCP server called 'other'"):
        await asyncio.to_thread(run_task, "other", task_id)


async def test_a_task_runs_with_its_principal(server: MCPServer, django_user_model: Any):
    from django_mcp.auth.principal import AuthInfo, Principal

    @server.tool(task="allowed")
    def who(ctx: Context) -> str:
        auth = ctx.auth
        assert auth is not None
        return f"{ctx.user.get_username()} {sorted(auth.scopes)}"

    user = await django_user_model.objects.acreate(username="ann")
    auth = AuthInfo(subject="ann", authenticator="jwt", scopes=frozenset({"a", "b"}))
    client = Modern(server, principal=Principal(key="jwt:1", user=user, auth=auth))
    task = await client.until(await client.create("who"), "completed")
    assert task["result"]["content"][0]["text"] == "ann ['a', 'b']"

    user.is_active = False
    await user.asave()
    task = await client.until(await client.create("who"), "failed")
    assert task["error"]["code"] == -32602


def test_a_queue_worker_finds_a_server_defined_in_the_urlconf(server_in_urlconf: str):
    # There is no such task any more, which is no error.
    run_task(server_in_urlconf, "forged")
