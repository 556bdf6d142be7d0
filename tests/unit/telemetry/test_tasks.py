"""The runs of tasks: a span that links to that of their call, and a duration."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from celery import Celery
from opentelemetry import trace
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from django_mcp import Context, MCPServer
from tests.support.server.tasks import Legacy, Modern
from tests.support.telemetry import find_points, find_spans
from tests.unit.telemetry.conftest import make_server

CLIENTS = pytest.mark.parametrize("make_client", [Legacy, Modern])


def identify(context: SpanContext | None) -> tuple[int, int]:
    """Return the ids of a span, which a link to another process has as well."""
    assert context is not None
    return context.trace_id, context.span_id


@pytest.fixture
def server(native: Any) -> MCPServer:
    native.DJANGO_MCP = {**native.DJANGO_MCP, "TASK_STORE": "memory"}
    server = make_server(task_after_s=0.01)

    @server.tool(task="allowed")
    async def report() -> str:
        return f"in {trace.get_current_span().get_span_context().span_id}"

    @server.tool(task="allowed")
    async def spoil() -> str:
        raise RuntimeError("secret")

    return server


@CLIENTS
async def test_the_run_of_a_task_links_to_its_call(server: MCPServer, make_client: Any):
    client = make_client(server)

    task_id = await client.create("report")
    await client.until(task_id, "completed")
    store: Any = server.engine.extensions["io.modelcontextprotocol/tasks"]
    task = (await store.ports.store.find((task_id,)))[task_id]

    [call] = find_spans(server.name, "tools/call report")
    [run] = find_spans(server.name, "execute_tool report")
    assert (call.attributes or {})["django_mcp.outcome"] == "task"
    assert run.kind is SpanKind.INTERNAL
    assert [identify(link.context) for link in run.links] == [identify(call.context)]
    assert run.parent is None
    assert run.context is not None
    assert identify(run.context)[0] != identify(call.context)[0]
    assert f"in {run.context.span_id}".encode() in task.result
    found = dict(run.attributes or {})
    assert found.pop("mcp.session.id", None) is None or make_client is Legacy
    assert found == {
        "django_mcp.server.name": server.name,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "report",
        "mcp.protocol.version": client.revision.name,
        "django_mcp.outcome": "done",
    }
    [(attributes, point)] = find_points("django_mcp.task.duration", server.name)
    assert attributes["gen_ai.tool.name"] == "report"
    assert point.count == 1
    operations = find_points("mcp.server.operation.duration", server.name)
    outcomes = [
        attributes["django_mcp.outcome"]
        for attributes, _ in operations
        if attributes["mcp.method.name"] == "tools/call"
    ]
    assert outcomes == ["task"]
    [(_, count)] = find_points("django_mcp.tasks.running", server.name)
    assert count.value == 0


@CLIENTS
async def test_a_fault_in_a_task_is_an_error(server: MCPServer, make_client: Any):
    client = make_client(server)

    task_id = await client.create("spoil")
    await client.until(task_id, "failed", "completed")

    [run] = find_spans(server.name, "execute_tool spoil")
    assert run.status.status_code is StatusCode.ERROR
    assert (run.attributes or {})["error.type"] == "tool_error"
    assert (run.attributes or {})["django_mcp.outcome"] == "fault"
    assert "secret" not in str(dict(run.attributes or {}))


async def test_a_task_that_asks_has_a_run_before_and_after(server: MCPServer):
    @server.tool(task="allowed")
    async def confirm(ctx: Context) -> str:
        await ctx.aelicit("Sure?", {"type": "object", "properties": {"sure": {"type": "boolean"}}})
        return "done"

    client = Modern(server)
    task_id = await client.create("confirm")
    task = await client.until(task_id, "input_required")
    answers = {key: {"action": "decline"} for key in task["inputRequests"]}
    await client.raw("tasks/update", {"taskId": task_id, "inputResponses": answers})
    await client.until(task_id, "completed")

    [call] = find_spans(server.name, "tools/call confirm")
    runs = find_spans(server.name, "execute_tool confirm")
    outcomes = [(run.attributes or {})["django_mcp.outcome"] for run in runs]
    assert outcomes == ["asked", "done"]
    for run in runs:
        assert [identify(link.context) for link in run.links] == [identify(call.context)]


async def test_a_call_that_becomes_a_task_is_followed(server: MCPServer):
    goes_on = asyncio.Event()

    @server.tool(task="auto")
    async def grow() -> str:
        await goes_on.wait()
        return "grown"

    client = Modern(server)
    task_id = await client.create("grow")
    assert find_spans(server.name, "execute_tool grow") == []
    goes_on.set()
    await client.until(task_id, "completed")

    [call] = find_spans(server.name, "tools/call grow")
    [run] = find_spans(server.name, "execute_tool grow")
    assert [identify(link.context) for link in run.links] == [identify(call.context)]
    assert (run.attributes or {})["django_mcp.outcome"] == "done"


@pytest.mark.django_db(transaction=True)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_a_run_through_celery_links_to_its_call(native: Any):
    app = Celery("tests", set_as_current=True)
    # Threads other than this one look for the default, which an app of another test may still be.
    app.set_default()
    app.conf.task_always_eager = True
    runner = "django_mcp.extensions.tasks.celery.CeleryRunner"
    native.DJANGO_MCP = {**native.DJANGO_MCP, "TASK_RUNNER": runner}
    server = make_server()

    @server.tool(task="allowed")
    def report() -> str:
        return "done"

    client = Modern(server)
    await client.until(await client.create("report"), "completed")
    app.close()

    [call] = find_spans(server.name, "tools/call report")
    [run] = find_spans(server.name, "execute_tool report")
    assert [identify(link.context) for link in run.links] == [identify(call.context)]
    assert run.parent is None
    assert run.context is not None
    assert identify(run.context)[0] != identify(call.context)[0]
    [(_, point)] = find_points("django_mcp.task.duration", server.name)
    assert point.count == 1
