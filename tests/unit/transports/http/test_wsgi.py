"""What clients get, and the log says, of a server whose responses WSGI buffers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from types import ModuleType
from typing import Any

import pytest
from django.test import Client, override_settings
from django.urls import path

from django_mcp import Context, MCPServer
from django_mcp.protocol.json import decode
from django_mcp.protocol.revisions import Revision
from django_mcp.server.handlers import progress_and_logs
from django_mcp.transports.http.view import MCPView
from tests.support.events import Parser
from tests.support.http.harness import LIMIT_S
from tests.support.wire import (
    HANDSHAKE,
    META,
    V2025_11_25,
    V2026_07_28,
    headers_for,
    message,
)

ASKS_PROGRESS = {"progressToken": "p"}
ASKS_LOGS = {META + "logLevel": "info"}
CAPABILITIES = META + "clientCapabilities"
CAN_BE_ASKED: Any = {"elicitation": {"form": {}, "url": {}}}

_numbers = count()


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    progress_and_logs.buffered.reset()
    yield
    progress_and_logs.buffered.reset()


def make_server(**options: Any) -> MCPServer:
    server = MCPServer(f"wsgi-{next(_numbers)}", public=True, **options)

    @server.tool(read_only=True)
    async def walk(ctx: Context) -> str:
        """Tell progress twice."""
        await ctx.aprogress(1, 2)
        await ctx.aprogress(2, 2)
        return "done"

    @server.tool(read_only=True, atomic=False)
    def run(ctx: Context) -> str:
        """Tell progress, from a thread."""
        ctx.progress(1, 2)
        return "done"

    @server.tool(read_only=True)
    async def talk(ctx: Context) -> str:
        """Log."""
        await ctx.ainfo("at work")
        return "done"

    @server.tool
    def choose(ctx: Context) -> str:
        """Ask by a form."""
        return ctx.elicit("Which?", {"type": "object", "properties": {}}).action

    @server.tool
    def visit(ctx: Context) -> str:
        """Ask by a page."""
        return ctx.elicit_url("Go", "https://example.com/page").action

    @server.prompt
    async def letter(ctx: Context) -> str:
        """Write a letter."""
        await ctx.aprogress(1)
        return "Dear"

    @server.resource("wsgi://one")
    def one() -> str:
        return "1"

    return server


@contextmanager
def served(server: MCPServer) -> Iterator[None]:
    urls = ModuleType("urls")
    urls.urlpatterns = [path("mcp", MCPView(server))]  # type: ignore[attr-defined]
    with override_settings(ROOT_URLCONF=urls, MIDDLEWARE=[], ALLOWED_HOSTS=["localhost"]):
        yield


def ask(
    server: MCPServer,
    method: str,
    params: Mapping[str, Any],
    revision: Revision = V2026_07_28,
    **headers: str,
) -> tuple[int, list[Any]]:
    """Return the status of the response, and its messages."""
    request = message(method, params, revision=revision)
    headers = {**headers_for(request, revision), "host": "localhost", **headers}
    kind = headers.pop("content-type")
    response: Any
    with served(server):
        if server.engine.keeps_sessions and revision is not V2026_07_28:
            headers["mcp-session-id"] = open_session(revision)
        response = Client().post("/mcp", request, content_type=kind, headers=headers)
    if response["Content-Type"] == "application/json":
        return response.status_code, [decode(response.content)]
    return response.status_code, [decode(each.data) for each in Parser().feed(response.content)]


def open_session(revision: Revision) -> str:
    client = {"name": "tests", "version": "1"}
    params = {"protocolVersion": revision.name, "capabilities": CAN_BE_ASKED, "clientInfo": client}
    request = message("initialize", params, revision=revision)
    headers = {**headers_for(request, revision), "host": "localhost"}
    kind = headers.pop("content-type")
    return Client().post("/mcp", request, content_type=kind, headers=headers)["Mcp-Session-Id"]


def call(server: MCPServer, tool: str, meta: Mapping[str, Any], **more: Any) -> list[Any]:
    """Return the messages of the response to a call."""
    params = {"name": tool, "arguments": {}, "_meta": dict(meta)}
    return ask(server, "tools/call", params, **more)[1]


def told_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelname == "WARNING" and "with the result" in record.getMessage()
    ]


@pytest.mark.parametrize(
    ("tool", "meta", "text"),
    [
        ("walk", ASKS_PROGRESS, "The progress of the tool walk reaches "),
        ("run", ASKS_PROGRESS, "The progress of the tool run reaches "),
        ("talk", ASKS_LOGS, "A log message of the tool talk reaches "),
    ],
)
def test_what_is_held_back_until_the_result_is_told_once(
    caplog: pytest.LogCaptureFixture, tool: str, meta: dict[str, Any], text: str
):
    server = make_server()

    assert len(call(server, tool, meta)) > 1
    call(server, "walk", ASKS_PROGRESS)
    call(server, "talk", ASKS_LOGS)

    (told,) = told_of(caplog)
    assert told.startswith(text)
    assert "served over WSGI" in told
    assert "ASGI" in told


def test_it_is_told_once_for_each_server(caplog: pytest.LogCaptureFixture):
    for _ in range(2):
        call(make_server(), "walk", ASKS_PROGRESS)

    assert len(told_of(caplog)) == 2


def test_prompts_are_told_as_such(caplog: pytest.LogCaptureFixture):
    ask(make_server(), "prompts/get", {"name": "letter", "_meta": ASKS_PROGRESS})

    assert told_of(caplog)[0].startswith("The progress of the prompt letter reaches ")


def test_nothing_is_told_if_the_client_did_not_ask(caplog: pytest.LogCaptureFixture):
    server = make_server()
    for tool in ("walk", "run", "talk"):
        assert len(call(server, tool, {})) == 1
    assert len(call(server, "walk", ASKS_PROGRESS, accept="application/json")) == 1

    assert told_of(caplog) == []


def test_nothing_is_told_of_log_messages_at_the_level_of_the_server(
    caplog: pytest.LogCaptureFixture,
):
    """An older client gets them without having asked for any."""
    server = make_server(mode="stateless")

    assert len(call(server, "talk", {}, revision=V2025_11_25)) == 2

    assert told_of(caplog) == []


@override_settings(DJANGO_MCP={"SESSION_STORE": "memory", "TASK_STORE": "memory"})
def test_nothing_is_told_of_a_task(caplog: pytest.LogCaptureFixture):
    """Its progress is in its status, also under ASGI."""
    server, has_told = make_server(), threading.Event()
    hub = server.engine.hub

    @server.tool(task="required")
    async def last(ctx: Context) -> str:
        """Tell progress."""
        await ctx.aprogress(1, 2, "half")
        has_told.set()
        return "done"

    tasks: Any = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    (answer,) = call(server, "last", {**ASKS_PROGRESS, CAPABILITIES: tasks})

    assert answer["result"]["resultType"] == "task"
    assert has_told.wait(LIMIT_S)
    assert told_of(caplog) == []
    # The event loop of tasks goes on, and the next test has one of its own.
    assert hub.loop is not None
    asyncio.run_coroutine_threadsafe(hub.stop(), hub.loop).result(LIMIT_S)


# -- questions and pushed messages


def kind_of(message: Any) -> Any:
    """Return how a call ended: with a question, with a code, or whether with an error for the model."""
    result = message.get("result")
    if result is None:
        return message["error"]["code"]
    return result.get("isError") or result["resultType"]


@pytest.mark.parametrize(
    ("revisions", "by_form", "by_page"),
    [
        (HANDSHAKE[:-1], True, True),
        ((V2025_11_25,), True, -32042),
        ((V2026_07_28,), "input_required", "input_required"),
    ],
)
def test_who_can_be_asked(revisions: tuple[Revision, ...], by_form: Any, by_page: Any):
    """The documentation of deployment says so."""
    for revision in revisions:
        asked = [
            call(make_server(), tool, {CAPABILITIES: CAN_BE_ASKED}, revision=revision)
            for tool in ("choose", "visit")
        ]

        assert [kind_of(answer) for (answer,) in asked] == [by_form, by_page], revision.name


NEEDS_ASGI = ". It needs ASGI, and this site is served over WSGI"


def refusal_of(server: MCPServer, method: str, **more: Any) -> tuple[int, int, str]:
    listens = method == "subscriptions/listen"
    params: dict[str, Any] = {"notifications": {}} if listens else {"uri": "wsgi://one"}
    status, (answer,) = ask(server, method, params, **more)
    return status, answer["error"]["code"], answer["error"]["message"]


@pytest.mark.parametrize("accept", ["application/json, text/event-stream", "application/json"])
def test_a_method_that_needs_asgi_is_unknown_for_a_reason(
    caplog: pytest.LogCaptureFixture, accept: str
):
    refused = refusal_of(make_server(), "subscriptions/listen", accept=accept)

    assert refused == (404, -32601, "Unknown method: subscriptions/listen" + NEEDS_ASGI)
    assert f"with 404: Unknown method: subscriptions/listen{NEEDS_ASGI}" in caplog.text


@pytest.mark.parametrize("method", ["resources/subscribe", "resources/unsubscribe"])
def test_so_are_those_of_older_revisions(method: str):
    for revision in HANDSHAKE:
        refused = refusal_of(make_server(), method, revision=revision)

        assert refused == (200, -32601, f"Unknown method: {method}{NEEDS_ASGI}")


def test_other_unknown_methods_are_not_said_to_need_asgi():
    """A stateless server has no subscriptions over ASGI either, and each revision lacks the methods of others."""
    asked = [
        refusal_of(make_server(), "no/such"),
        refusal_of(make_server(), "resources/subscribe"),
        refusal_of(make_server(), "subscriptions/listen", revision=V2025_11_25),
        refusal_of(make_server(mode="stateless"), "resources/subscribe", revision=V2025_11_25),
        refusal_of(MCPServer(f"wsgi-{next(_numbers)}", public=True), "tools/list"),
    ]

    assert [text.partition(". ")[1] for _, _, text in asked] == [""] * 5
    assert {code for _, code, _ in asked} == {-32601}
