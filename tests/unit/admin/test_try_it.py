"""The questions of an entry that is tried at a revision where they come on the stream of its call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient, Client, override_settings

from django_mcp import Context
from django_mcp.protocol.json import decode, encode
from django_mcp.protocol.revisions import REVISIONS
from django_mcp.servers import MCPServer
from tests.unit.admin.test_pages import HERE, client_of, try_it, url


@pytest.fixture(autouse=True)
def _here(db: None) -> Iterator[None]:
    # No thread of a worker's writes sessions beside the test's transaction.
    with (
        HERE,
        override_settings(DJANGO_MCP={**HERE.options["DJANGO_MCP"], "SESSION_STORE": "memory"}),
    ):
        yield


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("tried")

    @server.tool
    def greet(name: str) -> str:
        return f"Hello, {name}"

    @server.tool
    async def ask(ctx: Context) -> str:
        answer = await ctx.aelicit("Sure?", {"type": "object", "properties": {}})
        return answer.action

    return server


@pytest.fixture
def boss(admin: Client) -> AsyncClient:
    return with_streams(admin)


@pytest.fixture
def stranger() -> AsyncClient:
    return with_streams(client_of("stranger", is_superuser=True))


def with_streams(client: Client) -> AsyncClient:
    """Return a client of a server that sends while it works."""
    found = AsyncClient()
    found.cookies = client.cookies
    return found


def test_where_no_question_could_be_answered_the_page_says_so(admin: Client, server: MCPServer):
    query = {"server": "tried", "kind": "tools", "key": "greet"}
    old = admin.get(url("entry"), {**query, "revision": "2025-11-25"})
    new = admin.get(url("entry"), {**query, "revision": "2026-07-28"})

    assert "cannot be answered here" in old.content.decode()
    assert "cannot be answered here" not in new.content.decode()


@pytest.mark.parametrize("response", [None, "x", {"method": "tools/call", "id": 1}])
def test_what_is_no_answer_is_refused(admin: Client, server: MCPServer, response: object):
    assert try_it(admin, session="s", revision="2025-11-25", response=response).status_code == 400


def test_an_answer_for_a_session_that_is_not_there_is_refused(admin: Client, server: MCPServer):
    answer = {"id": "1", "result": {}}
    found = try_it(admin, session="s" * 43, revision="2025-11-25", response=answer)

    assert found.status_code == 404


def test_the_question_of_a_call_is_answered_by_whoever_called(
    boss: AsyncClient, stranger: AsyncClient, server: MCPServer
):
    ask_and_answer(boss, stranger)


@async_to_sync
async def ask_and_answer(boss: AsyncClient, stranger: AsyncClient) -> None:
    body = {"server": "tried", "kind": "tools", "key": "ask", "revision": "2025-11-25"}
    call: Any = await boss.post(url("try"), encode(body), content_type="application/json")
    told = call.streaming_content.__aiter__()
    given: dict[str, Any] = dict(body)
    seen: list[Any] = []
    while "response" not in given:
        written = await anext(told, None)
        assert written is not None, seen
        seen.append(line := decode(written))
        if line["at"] == "session":
            given["session"] = line["text"]
        elif line["at"] == "ahead":
            given["response"] = {"id": decode(line["text"])["id"], "result": {"action": "decline"}}
    assert [line["at"] for line in seen[-3:]] == ["session", "sent", "ahead"]

    refused = await stranger.post(url("try"), encode(given), content_type="application/json")
    assert refused.status_code == 404
    taken = await boss.post(url("try"), encode(given), content_type="application/json")
    assert taken.status_code == 200
    last = decode(await anext(told))
    assert decode(last["text"])["result"]["content"][0]["text"] == "decline"
    assert [line async for line in told] == []


def test_a_tool_that_runs_as_a_task_only_is_not_tried(admin: Client):
    server = MCPServer("exporting")

    @server.tool(task="required")
    async def export() -> str:
        return ""

    @server.tool(task="allowed")
    async def prepare() -> str:
        return ""

    looker = client_of("looker", "view_disabledentry")
    for name, is_tried in (("export", False), ("prepare", True)):
        query = {"server": "exporting", "kind": "tools", "key": name}
        for revision in REVISIONS:
            page = admin.get(url("entry"), {**query, "revision": revision.name}).content.decode()
            assert ('id="mcp-try"' in page) is is_tried
            assert ("at no revision can it be tried here" in page) is not is_tried
        assert "mcp-try-title" not in looker.get(url("entry"), query).content.decode()
