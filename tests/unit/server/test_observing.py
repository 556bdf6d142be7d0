"""Observers receive each call once with its outcome, and no other requests."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_mcp.protocol.asks import InputRequired, ask_form
from django_mcp.protocol.errors import Refusal, ToolError
from django_mcp.protocol.results import ToolResult
from django_mcp.server.exchange.call import Call, FailureKind
from django_mcp.server.exchange.caller import ANONYMOUS
from django_mcp.server.server import BaseServer
from tests.support.ports import use_ports
from tests.support.wire import V2026_07_28, WireClient


class Ear:
    """Records what it receives."""

    def __init__(self) -> None:
        self.heard: list[tuple[Call, bytes | Refusal | None, float]] = []
        self.waiting = asyncio.Event()

    def __call__(self, call: Call, answer: bytes | Refusal | None, duration_s: float) -> None:
        self.heard.append((call, answer, duration_s))

    @property
    def context(self) -> Call:
        """The context of the only call that it received."""
        [(ctx, _answer, duration_s)] = self.heard
        assert duration_s >= 0
        return ctx


@pytest.fixture
def ear(server: BaseServer) -> Ear:
    ear = Ear()

    @server.tool
    def greet(name: str = "you") -> str:
        return f"Hello, {name}"

    @server.tool
    def fail(how: str) -> ToolResult:
        if how == "told":
            raise ToolError("No")
        if how == "result":
            return ToolResult(content=["No"], is_error=True)
        raise KeyError("a bug")

    @server.tool
    def ask() -> InputRequired:
        return InputRequired({"size": ask_form("Which?", {"type": "object", "properties": {}})})

    @server.tool
    async def wait() -> str:
        ear.waiting.set()
        await asyncio.Event().wait()
        return ""

    @server.resource("shop://terms")
    def terms() -> str:
        return "Fair."

    @server.prompt
    def letter() -> str:
        return "Write."

    use_ports(server, find_observer=lambda: ear)
    return ear


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "greet"}, "greet"),
        ("resources/read", {"uri": "shop://terms"}, "terms"),
        ("prompts/get", {"name": "letter"}, "letter"),
    ],
)
async def test_the_observer_receives_each_call_once(
    client: WireClient, ear: Ear, method: str, params: dict[str, Any], name: str
) -> None:
    await client.result(method, params)

    assert ear.context.entry is not None
    assert ear.context.entry.name == name
    assert ear.context.failure is None


async def test_other_requests_do_not_reach_the_observer(client: WireClient, ear: Ear) -> None:
    await client.result("tools/list")
    await client.result("prompts/list")

    assert ear.heard == []


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ("told", FailureKind.TOOL_ERROR),
        ("result", FailureKind.TOOL_ERROR),
        ("bug", FailureKind.FAULT),
    ],
)
async def test_the_observer_receives_a_tool_error(
    client: WireClient, ear: Ear, how: str, kind: FailureKind
) -> None:
    await client.call("fail", {"how": how})

    assert ear.context.failure is not None
    assert ear.context.failure.kind is kind
    assert (ear.context.failure.reference is not None) is (kind is FailureKind.FAULT)


async def test_the_observer_receives_calls_with_invalid_arguments(
    client: WireClient, ear: Ear
) -> None:
    await client.call("greet", {"name": 1})

    assert ear.context.failure is not None
    assert ear.context.failure.kind is FailureKind.ARGUMENTS


async def test_the_observer_receives_unknown_names_without_an_entry(
    client: WireClient, ear: Ear
) -> None:
    await client.error("tools/call", {"name": "nothing"})

    [(ctx, answer, _)] = ear.heard
    assert isinstance(answer, Refusal)
    assert ctx.entry is None


async def test_the_observer_knows_whether_the_call_asked_the_client(
    server: BaseServer, ear: Ear
) -> None:
    capabilities: dict[str, Any] = {
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}
    }
    await WireClient(server, V2026_07_28).send("tools/call", {"name": "ask", "_meta": capabilities})

    assert ear.context.has_asked


@pytest.mark.http_only("one call of a pipe cannot be hung up on; cancelling it is in test_sessions")
async def test_the_observer_receives_a_cancelled_call(client: WireClient, ear: Ear) -> None:
    task = asyncio.create_task(client.send("tools/call", {"name": "wait"}))
    await ear.waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert ear.heard[0][1] is None


@pytest.mark.http_only("what the transport makes of a fault of an observer is not the observer's")
@pytest.mark.parametrize("principal", [ANONYMOUS, "ann"], ids=["anonymous", "known"])
async def test_a_failing_observer_leaves_no_call_in_flight(
    server: BaseServer, ear: Ear, principal: Any
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("deaf")

    use_ports(server, find_observer=lambda: fail)
    client = WireClient(server, V2026_07_28, principal=principal)
    with pytest.raises(RuntimeError, match="deaf"):
        await client.send("tools/call", {"name": "greet"})

    assert len(server.engine.hub.calls) == 0
