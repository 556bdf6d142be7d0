"""Questions of an entry that is tried at a revision where they are sent on the call's stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import pytest
from asgiref.sync import async_to_sync
from django.contrib.admin.models import LogEntry
from django.test import AsyncClient, Client, override_settings

from django_mcp import Context
from django_mcp.protocol.json import decode, encode
from django_mcp.protocol.revisions import REVISIONS, Revision
from django_mcp.servers import MCPServer
from tests.unit.admin.test_pages import HERE, client_of, lines, make_calls, try_it, url


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


def test_the_page_warns_if_questions_cannot_be_answered(admin: Client, server: MCPServer):
    query = {"server": "tried", "kind": "tools", "key": "greet"}
    old = admin.get(url("entry"), {**query, "revision": "2025-11-25"})
    new = admin.get(url("entry"), {**query, "revision": "2026-07-28"})

    assert "cannot be answered here" in old.content.decode()
    assert "cannot be answered here" not in new.content.decode()


@pytest.mark.parametrize("response", [None, "x", {"method": "tools/call", "id": 1}])
def test_an_invalid_answer_is_rejected(admin: Client, server: MCPServer, response: object):
    assert try_it(admin, session="s", revision="2025-11-25", response=response).status_code == 400


def test_an_answer_for_a_missing_session_is_rejected(admin: Client, server: MCPServer):
    answer = {"id": "1", "result": {}}
    found = try_it(admin, session="s" * 43, revision="2025-11-25", response=answer)

    assert found.status_code == 404


def test_only_the_caller_can_answer_the_question_of_a_call(
    boss: AsyncClient, stranger: AsyncClient, server: MCPServer
):
    ask_and_answer(boss, stranger)


@async_to_sync
async def ask_and_answer(boss: AsyncClient, stranger: AsyncClient) -> None:
    body = {
        "server": "tried",
        "revision": "2025-11-25",
        "method": "tools/call",
        "params": {"name": "ask"},
    }
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


@pytest.mark.parametrize("revision", REVISIONS)
def test_completions_need_no_session_and_log_nothing(boss: AsyncClient, revision: Revision):
    server = MCPServer("proposing")

    @server.prompt
    def toast(name: str, drink: str, size: str = "S") -> str:
        return f"{name}, {drink}, {size}"

    @server.completion(toast, "drink")
    def complete_drink(value: str, arguments: dict[str, str]) -> list[str]:
        return [f"{value}ine for {arguments['name']}"]

    params = {
        "ref": {"type": "ref/prompt", "name": "toast"},
        "argument": {"name": "drink", "value": "w"},
        "context": {"arguments": {"name": "Ann"}},
    }
    response = propose(boss, {"revision": revision.name, "params": params})
    sent, answer = [decode(each) for each in response]

    assert (sent["at"], answer["at"]) == ("sent", "answer")
    assert sent["time"] <= answer["time"]
    assert decode(answer["text"])["result"]["completion"]["values"] == ["wine for Ann"]
    assert not LogEntry.objects.exists()


@async_to_sync
async def propose(boss: AsyncClient, given: dict[str, Any]) -> list[bytes]:
    body = encode({"server": "proposing", "method": "completion/complete", **given})
    response: Any = await boss.post(url("try"), body, content_type="application/json")
    return [line async for line in response.streaming_content]


def test_the_page_marks_fields_with_completions(admin: Client):
    server = MCPServer("proposing")

    @server.prompt
    def toast(name: str, drink: Literal["tea", "wine"], size: str) -> str:
        return f"{name}, {drink}, {size}"

    @server.completion(toast, "name")
    def complete_name(value: str) -> list[str]:
        return []

    query = {"server": "proposing", "kind": "prompts", "key": "toast"}
    form = admin.get(url("entry"), query).context["form"]

    assert form["completers"] == ["name", "drink"]
    assert [each["name"] for each in form["wire"]["arguments"]] == ["name", "drink", "size"]


def test_a_task_only_tool_is_tried_only_where_the_server_makes_the_task(admin: Client):
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
            may_try = is_tried or revision.is_stateless
            assert ('id="mcp-try"' in page) is may_try
            assert ("Choose the newest revision in the catalogue" in page) is not may_try
        assert "mcp-try-title" not in looker.get(url("entry"), query).content.decode()


def test_previous_arguments_are_offered_only_where_they_are_kept_and_visible(admin: Client):
    server = MCPServer("repeated")
    for name, is_kept in (("keeping", True), ("other", False)):
        server.register_tool(lambda: "", name=name, record_arguments=is_kept)
        for number in range(12):
            make_calls(1, server="repeated", name=name, arguments=f'{{"a": {number}}}')

    def offered(client: Client, name: str) -> list[int]:
        query = {"server": "repeated", "kind": "tools", "key": name}
        form = client.get(url("entry"), query).context["form"]
        return [each["arguments"]["a"] for each in form["previous"]]

    assert sorted(offered(admin, "keeping")) == list(range(2, 12))
    assert offered(admin, "other") == []
    assert offered(client_of("blind", "view_disabledentry", "try_entry"), "keeping") == []


def test_a_page_may_send_only_the_named_params_of_a_task(admin: Client, server: MCPServer):
    body = {"server": "tried", "method": "tasks/get", "params": {"taskId": "x", "name": "greet"}}
    found = lines(admin.post(url("try"), encode(body), content_type="application/json"))

    sent = decode(next(each["text"] for each in found if each["at"] == "sent").encode())
    assert {key for key in sent["params"] if key != "_meta"} == {"taskId"}
    assert try_it(admin, method="tasks/list").status_code == 400
