"""The official client on two processes that share PostgreSQL and Redis; requests alternate between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import ClientMessageMetadata
from mcp.types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    TextContent,
)

from tests.support.sessions.cluster import Cluster
from tests.support.sessions.official import LIMIT_S, InTurn, Person, official


def text_of(result: Any) -> str:
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result
    content = result.content[0]
    assert isinstance(content, TextContent)
    return content.text


async def until(holds: Callable[[], bool]) -> None:
    """Run the client until a condition is true."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            if holds():
                return
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("tool", "content", "expected"),
    [
        ("ask_dataclass", {"name": "red"}, "red"),
        ("ask_model", {"number": 7}, "7"),
        ("ask_form", {"size": "l"}, "l"),
        ("ask_page", None, "accept"),
        ("ask_twice", {"name": "red"}, "t red red"),
        ("sample", None, "Paris"),
    ],
)
async def test_the_client_answers_questions_at_the_other_process(
    cluster: Cluster, tool: str, content: Any, expected: str
) -> None:
    """The answer to a question need not reach the process that asked."""
    person = Person()
    person.content = content
    async with official(cluster, person, user="ann") as (session, road):
        result = await session.call_tool(tool, {})

    called = road.port_of(lambda body: f'"{tool}"' in body)
    answered = road.port_of(lambda body: '"result"' in body)
    assert text_of(result) == expected
    assert person.asked
    assert called != answered or tool == "ask_twice"


async def test_the_client_lists_its_roots(cluster: Cluster) -> None:
    async with official(cluster, Person()) as (session, _):
        result = await session.call_tool("roots", {})

    assert text_of(result) == '["file:///home/ann"]'


async def test_the_client_is_pinged(cluster: Cluster) -> None:
    async with official(cluster, Person()) as (session, _):
        result = await session.call_tool("ping", {})

    assert text_of(result) == "true"


@pytest.mark.filterwarnings("ignore:resources/.*subscribe is removed")
async def test_the_client_subscribes_and_gets_updates_from_any_process(cluster: Cluster) -> None:
    person = Person()
    uris = [f"counter://{number}" for number in range(4)]
    async with official(cluster, person, user="ann") as (session, road):
        for uri in (*uris, "counter://left"):
            await session.subscribe_resource(uri)
        await session.unsubscribe_resource("counter://left")
        while not person.received:
            # No notification arrives until its stream is open.
            await session.call_tool("lists_changed", {})
        await session.call_tool("update", {"uri": "counter://left"})
        for uri in uris:
            await session.call_tool("update", {"uri": uri})
        await until(lambda: len(updated(person)) >= len(uris))

    ports = {port for _, body, port in road.sent if '"update"' in body}
    assert sorted(updated(person)) == uris
    assert len(ports) == 2


def updated(person: Person) -> list[str]:
    return [
        each.params.uri
        for each in person.received
        if getattr(each, "method", "") == "notifications/resources/updated"
    ]


async def test_the_client_receives_progress(cluster: Cluster) -> None:
    steps: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, total, message))

    async with official(cluster, Person()) as (session, _):
        result = await session.call_tool("export", {"steps": 3}, progress_callback=note)

    assert text_of(result) == "3 steps"
    assert steps == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


async def test_the_client_reconnects_for_the_response_after_a_closed_stream(
    cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    """The client does that automatically, in the other process."""
    name = request.node.name
    async with official(cluster, Person()) as (session, road):
        calling = asyncio.create_task(session.call_tool("close", {"name": name}))
        await cluster.marked(f"{name} runs")
        await until(lambda: sum(method == "GET" for method, _, _ in road.sent) >= 2)
        cluster.mark(f"{name} may go")
        result = await calling

    assert text_of(result) == f"{name} is done"


async def test_another_client_object_resumes_a_call_with_its_token(
    cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    """The first client is gone; the second has the session and the token."""
    name = request.node.name
    tokens: list[str] = []
    call = CallToolRequest(
        method="tools/call", params=CallToolRequestParams(name="hold", arguments={"name": name})
    )

    async def keep(token: str) -> None:
        tokens.append(token)

    async with official(cluster, Person()) as (session, road):
        noting = ClientMessageMetadata(on_resumption_token_update=keep)
        first = asyncio.create_task(session.send_request(call, CallToolResult, metadata=noting))
        await until(lambda: bool(tokens))
        first.cancel()
        await asyncio.wait([first])
        resuming = ClientMessageMetadata(resumption_token=tokens[-1])
        second = asyncio.create_task(session.send_request(call, CallToolResult, metadata=resuming))
        gets = sum(method == "GET" for method, _, _ in road.sent)
        await until(lambda: sum(method == "GET" for method, _, _ in road.sent) > gets)
        cluster.mark(f"{name} may go")
        result = await second

    assert text_of(result) == f"{name} is done"


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_one_tool_can_ask_in_both_eras(cluster: Cluster, mode: Any) -> None:
    """The second round is answered by the other process: the state travels, or the question waits."""
    person = Person()
    road = InTurn(cluster.ports())
    async with (
        httpx2.AsyncClient(transport=road, timeout=LIMIT_S) as http,
        Client(
            streamable_http_client(cluster.url(), http_client=http),
            mode=mode,
            elicitation_callback=person.elicit,
        ) as client,
    ):
        result = await client.call_tool("ask_twice", {})

    ports = {port for _, body, port in road.sent if "ask_twice" in body or '"result"' in body}
    assert text_of(result) == "t red red"
    assert person.asked == ["First colour?", "Second colour?"]
    assert len(ports) == 2
