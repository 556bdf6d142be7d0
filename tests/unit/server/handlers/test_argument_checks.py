"""Expensive arguments: they do not block other calls, and the call's deadline applies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel, PrivateAttr

from django_mcp.protocol.json import encode
from django_mcp.registry import validators
from django_mcp.registry.options import Atomic
from django_mcp.server.exchange.call import Call
from django_mcp.server.exchange.timers import find_running_loop
from django_mcp.server.memory import PoolScope
from tests.support.ports import use_ports
from tests.support.server.plain import MCPServer
from tests.support.server.tasks import Modern
from tests.support.wire import V2025_03_26, V2026_07_28, WireClient, headers_for, message

T = TypeVar("T")


@dataclass
class Row:
    id: int
    name: str
    mail: str | None = None


class Noting(BaseModel):
    name: str
    _is_on_loop: bool = PrivateAttr(default_factory=lambda: find_running_loop() is not None)


class Node(BaseModel):
    kids: list[Node] = []


@pytest.fixture(params=["with jsonschema-rs", "without"], autouse=True)
def tools(
    request: pytest.FixtureRequest, server: MCPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    if request.param == "without":
        monkeypatch.setattr(validators, "find_rust_engine", lambda: None)

    @server.tool
    async def add(rows: list[Row]) -> int:
        return len(rows)

    @server.tool(name="add_soon", timeout=0.001)
    async def add_soon(rows: list[Row]) -> int:
        return len(rows)

    @server.tool
    def grow(tree: Node) -> int:
        return len(tree.kids)

    @server.tool
    async def quick() -> str:
        return "done"

    @server.prompt
    def pick(ids: list[int]) -> str:
        return str(len(ids))


def rows(count: int, **last: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"id": number, "name": "a"} for number in range(count)]
    return [*found, {"id": 0, "name": "z", **last}]


def text(result: dict[str, Any]) -> str:
    found: str = result["content"][0]["text"]
    return found


@pytest.mark.http_only("a pipe has one client, whose lines are read in order")
async def test_other_calls_are_served_while_large_arguments_are_validated(
    newest: WireClient,
) -> None:
    order = []

    async def call(client: WireClient, name: str, arguments: dict[str, Any]) -> None:
        result = await client.call(name, arguments)
        order.append((name, result.get("isError", False)))

    other = WireClient(newest.server, V2026_07_28)
    await asyncio.gather(
        call(newest, "add", {"rows": rows(3000, id="x")}), call(other, "quick", {})
    )

    assert order == [("quick", False), ("add", True)]


async def test_large_arguments_of_several_calls_are_validated_in_sequence(
    server: MCPServer, newest: WireClient
) -> None:
    running = most = 0

    class Scope(PoolScope):
        async def run(self, function: Callable[[], T], call: Call, atomic: Atomic = ()) -> T:
            nonlocal running, most
            running += 1
            most = max(most, running)
            try:
                return await super().run(function, call, atomic)
            finally:
                running -= 1

    use_ports(server, scope=Scope())
    clients = [WireClient(server, V2026_07_28) for _ in range(4)]
    results = await asyncio.gather(*(each.call("add", {"rows": rows(3000)}) for each in clients))

    assert [text(each) for each in results] == ["3001"] * 4
    assert most == 1


async def test_large_arguments_reach_the_handler(newest: WireClient) -> None:
    assert text(await newest.call("add", {"rows": rows(3000)})) == "3001"
    assert text(await newest.call("grow", {"tree": {"kids": [{}] * 300}})) == "300"


@pytest.mark.http_only("a pipe has one client, whose lines are read in order")
@pytest.mark.parametrize("how", ["call", "task", "batch"])
async def test_large_arguments_are_converted_off_the_event_loop(
    server: MCPServer, how: str
) -> None:
    @server.tool(task="allowed")
    async def places(rows: list[Noting]) -> list[bool]:
        return sorted({row._is_on_loop for row in rows})

    arguments = {"rows": [{"name": "x" * 100}] * 1000}
    if how == "task":
        client = Modern(server)
        task = await client.until(await client.create("places", **arguments), "completed")
        result = task["result"]
    elif how == "call":
        result = await WireClient(server, V2026_07_28).call("places", arguments)
    else:
        call = message(
            "tools/call", {"name": "places", "arguments": arguments}, revision=V2025_03_26
        )
        reply = await WireClient(server, V2025_03_26).post(encode([call]), {})
        result = json.loads(reply.body or b"")[0]["result"]

    assert json.loads(text(result)) == [False]


@pytest.mark.http_only("a pipe has one client, whose lines are read in order")
async def test_large_arguments_of_a_tool_that_calls_others_are_checked_off_the_event_loop(
    server: MCPServer, newest: WireClient
) -> None:
    checked: set[str] = set()

    class Scope(PoolScope):
        async def run(self, function: Callable[[], T], call: Call, atomic: Atomic = ()) -> T:
            checked.add(call.entry.name if call.entry is not None else "")
            return await super().run(function, call, atomic)

    def run_tool(name: str, arguments: dict[str, Any]) -> None:
        """Call another tool."""

    function: Any = run_tool
    function.leads_to = lambda: ["add"]
    function.redirect = lambda given, _find: (given["name"], given["arguments"])
    server.register_tool(function)
    use_ports(server, scope=Scope())

    given = {"name": "add", "arguments": {"rows": rows(3000)}}
    assert text(await newest.call("run_tool", given)) == "3001"
    assert {"run_tool", "add"} <= checked


async def test_the_call_deadline_covers_argument_validation(
    newest: WireClient,
) -> None:
    result = await newest.call("add_soon", {"rows": rows(3000, id="x")})

    assert result["isError"] is True
    assert text(result) == "No result within 0.001 s"


async def test_many_wrong_values_of_a_recursive_type_are_rejected_early(newest: WireClient) -> None:
    wrong = [{"kids": 1}] * 10_000
    result = await newest.call("grow", {"tree": {"kids": wrong}})

    assert result["isError"] is True
    assert len(text(result).splitlines()) <= 52


async def test_a_message_with_too_many_values_is_rejected(server: MCPServer) -> None:
    arguments = {"a": [1] * 200_000}
    request = message("tools/call", {"name": "quick", "arguments": arguments}, revision=V2026_07_28)

    answer = json.loads(await server.handle_raw(json.dumps(request)))

    assert "115000 values" in answer["error"]["message"]


@pytest.mark.http_only("the status is of HTTP")
async def test_a_body_with_too_many_values_gets_413(newest: WireClient) -> None:
    request = message(
        "tools/call", {"name": "quick", "arguments": {"a": [1] * 200_000}}, revision=V2026_07_28
    )

    assert (await newest.post(encode(request), headers_for(request, V2026_07_28))).status == 413


async def test_text_that_is_json_is_counted_before_it_is_decoded(newest: WireClient) -> None:
    """The count of the message's values does not include those in a string."""
    ids = json.dumps([1] * 100_000)
    _, refusal = await newest.error("prompts/get", {"name": "pick", "arguments": {"ids": ids}})

    assert "more than 20000 values" in refusal["message"]


async def test_the_list_of_unknown_prompt_arguments_is_truncated(newest: WireClient) -> None:
    unknown = {f"a{number}": "x" for number in range(10_000)}
    _, refusal = await newest.error("prompts/get", {"name": "pick", "arguments": unknown})

    assert len(refusal["message"].splitlines()) <= 53
