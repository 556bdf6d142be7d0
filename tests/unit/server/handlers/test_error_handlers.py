"""`server.on_error`: functions that are told of unforeseen errors, and change nothing."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest
from django.utils.translation import gettext_lazy

from django_mcp.protocol.errors import ProtocolError, ToolError
from django_mcp.server.handlers import watching
from django_mcp.server.handlers.context import Context
from tests.support.ports import use_ports
from tests.support.server.plain import MCPServer
from tests.support.wire import V2026_07_28, WireClient


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("tests")

    @server.tool
    def fail() -> str:
        raise ZeroDivisionError("a secret")

    @server.tool
    async def afail() -> str:
        raise ZeroDivisionError("a secret")

    @server.tool
    def unwritable() -> Any:
        return {"a": object()}

    @server.tool
    def told() -> str:
        raise ToolError("The lamp is gone")

    @server.tool
    def refused() -> str:
        raise ProtocolError("No", code=5)

    @server.tool
    def small(count: int) -> str:
        return "x" * count

    @server.resource("x://fail")
    def resource() -> str:
        raise ZeroDivisionError

    @server.prompt
    def prompt() -> str:
        raise ZeroDivisionError

    server.register_tool(lambda: "x", name="checked", description="d", check=fail_to_judge)
    return server


def fail_to_judge(ctx: Context[Any]) -> bool:
    raise ZeroDivisionError


async def test_sync_and_async_error_handlers_get_error_context_and_reference(
    server: MCPServer, caplog: pytest.LogCaptureFixture
):
    heard: list[tuple[str, BaseException, Any, str | None, bool]] = []

    @server.on_error
    def note(error: BaseException, ctx: Context[Any], reference: str | None) -> None:
        is_main = threading.current_thread() is threading.main_thread()
        heard.append(("sync", error, ctx, reference, is_main))

    @server.on_error
    async def anote(error: BaseException, ctx: Context[Any], reference: str | None) -> None:
        is_main = threading.current_thread() is threading.main_thread()
        heard.append(("async", error, ctx, reference, is_main))

    for name in ("fail", "afail"):
        heard.clear()
        answer = await WireClient(server, V2026_07_28).result("tools/call", {"name": name})

        assert [each[0] for each in heard] == ["sync", "async"]
        assert [each[4] for each in heard] == [False, True]
        for _, error, ctx, reference, _ in heard:
            assert isinstance(error, ZeroDivisionError)
            assert (ctx.method, ctx.params["name"]) == ("tools/call", name)
            assert reference is not None
            assert reference in answer["content"][0]["text"]
            assert reference in caplog.text


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "unwritable"}),
        ("resources/read", {"uri": "x://fail"}),
        ("prompts/get", {"name": "prompt"}),
        ("tools/call", {"name": "checked"}),
    ],
)
async def test_the_error_handler_runs_for_every_kind_of_handler(
    server: MCPServer, method: str, params: dict[str, Any]
):
    heard: list[BaseException] = []
    server.on_error(lambda error, ctx, reference: heard.append(error))

    await WireClient(server, V2026_07_28).send(method, params)

    assert len(heard) == 1


@pytest.mark.parametrize("name", ["told", "refused", "small"])
async def test_expected_errors_do_not_reach_the_error_handler(server: MCPServer, name: str):
    heard: list[BaseException] = []
    server.on_error(lambda error, ctx, reference: heard.append(error))

    await WireClient(server, V2026_07_28).send("tools/call", {"name": name})

    assert heard == []


async def test_a_dispatch_error_reaches_the_error_handler_without_a_reference(
    server: MCPServer, monkeypatch: pytest.MonkeyPatch
):
    heard: list[tuple[BaseException, str | None]] = []
    server.on_error(lambda error, ctx, reference: heard.append((error, reference)))

    def fail() -> str:
        raise ZeroDivisionError

    # The language of the caller matters only to a text that is translated.
    server.register_prompt(lambda: "x", name="p", title=gettext_lazy("Delete"))
    use_ports(server, find_language=fail)
    _, error = await WireClient(server, V2026_07_28).error("tools/list")

    assert error["code"] == -32603
    assert [(type(each), reference) for each, reference in heard] == [(ZeroDivisionError, None)]


async def test_a_failing_or_hanging_error_handler_changes_nothing(
    server: MCPServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(watching, "TIMEOUT_S", 0.05)
    heard: list[str | None] = []

    @server.on_error
    def fail_too(error: BaseException, ctx: Context[Any], reference: str | None) -> None:
        raise RuntimeError("of its own")

    @server.on_error
    async def hang(error: BaseException, ctx: Context[Any], reference: str | None) -> None:
        await asyncio.Event().wait()

    server.on_error(lambda error, ctx, reference: heard.append(reference))
    answer = await WireClient(server, V2026_07_28).result("tools/call", {"name": "fail"})

    assert answer["isError"] is True
    assert "of its own" not in str(answer)
    assert heard[0] is not None
    assert heard[0] in answer["content"][0]["text"]
    failed = [each for each in caplog.records if each.getMessage().startswith("The error handler")]
    assert [each.levelno for each in failed] == [logging.ERROR] * 2


def test_a_function_with_other_parameters_is_refused(server: MCPServer):
    def report(error: BaseException) -> None: ...

    wrong: Any = report

    with pytest.raises(TypeError, match=r"report .* Write def report\(error, ctx, reference\)"):
        server.on_error(wrong)
    server.on_error(lambda *details: None)
