from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import Field

from django_mcp.protocol.content import Audio, Image, ResourceLink
from django_mcp.protocol.errors import ProtocolError, ToolError
from django_mcp.protocol.header_params import McpHeader
from django_mcp.protocol.levels import LOG_LEVELS
from django_mcp.protocol.results import ToolResult
from django_mcp.protocol.revisions import Revision
from django_mcp.server.handlers.context import Context
from tests.support.server.plain import MCPServer
from tests.support.wire import (
    HANDSHAKE,
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
    WireClient,
)


@pytest.fixture(autouse=True)
def tools(server: MCPServer) -> None:
    @server.tool
    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    async def aadd(a: int, b: int = 1) -> dict[str, int]:
        """Add two numbers."""
        return {"sum": a + b}

    @server.tool
    def narrow(
        count: Annotated[int, Field(ge=1, le=3)], word: Annotated[str, Field(max_length=2)]
    ) -> str:
        """Take little."""
        return word * count

    @server.tool
    def fail(how: str) -> str:
        """Fail."""
        raise {
            "tool": ToolError("Out of stock"),
            "protocol": ProtocolError("Custom", code=7, data={"a": 1}),
            "bug": KeyError("secret"),
            "exit": SystemExit("secret"),
        }[how]

    @server.tool
    async def afail(how: str) -> str:
        """Fail."""
        return str(fail(how))


def text(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]


async def test_a_tool_is_called_with_converted_arguments(client: WireClient) -> None:
    result = await client.call("aadd", {"a": 2, "b": 3})

    assert text(result) == '{"sum":5}'
    assert result.get("isError", False) is False


async def test_structured_content_is_sent_to_revisions_that_have_it(client: WireClient) -> None:
    whole = await client.call("aadd", {"a": 1})
    scalar = await client.call("add", {"a": 1})

    assert ("structuredContent" in whole) is (
        client.revision in (V2025_06_18, V2025_11_25, V2026_07_28)
    )
    known = {V2025_06_18: {"result": 2}, V2025_11_25: {"result": 2}, V2026_07_28: 2}
    assert scalar.get("structuredContent") == known.get(client.revision)
    assert text(scalar) == "2"


async def test_an_unknown_tool_is_a_protocol_error(client: WireClient) -> None:
    status, error = await client.error("tools/call", {"name": "nope", "arguments": {}})

    assert (status, error["code"]) == (200, -32602)


@pytest.mark.parametrize(
    "params",
    [{}, {"name": 5}, {"name": "add", "arguments": []}, {"name": "add", "arguments": False}],
)
async def test_a_malformed_call_is_a_protocol_error(client: WireClient, params: Any) -> None:
    status, error = await client.error("tools/call", params)

    assert (status, error["code"]) == (200, -32602)


async def test_all_invalid_arguments_are_reported_at_once_in_band(client: WireClient) -> None:
    result = await client.call("narrow", {"count": 9, "word": "long", "extra": 1})

    assert result["isError"] is True
    for pointer in ("/count", "/word", "extra"):
        assert pointer in text(result)


async def test_missing_arguments_are_reported_in_band(client: WireClient) -> None:
    result = await client.result("tools/call", {"name": "add"})

    assert result["isError"] is True
    assert "'a'" in text(result) or "/a" in text(result)


async def test_argument_validation_can_be_left_to_the_handler() -> None:
    def show(arguments: dict[str, Any]) -> str:
        return str(arguments)

    lax = MCPServer("lax", validate_input=False)
    lax.register_tool(
        name="t",
        input_schema={"type": "object", "properties": {"a": {"type": "integer"}}},
        handler=show,
    )

    assert text(await WireClient(lax, V2026_07_28).call("t", {"a": "x"})) == "{'a': 'x'}"


async def test_a_tool_error_reaches_the_model(client: WireClient) -> None:
    result = await client.call("fail", {"how": "tool"})

    assert result["isError"] is True
    assert text(result) == "Out of stock"


async def test_a_protocol_error_raised_by_a_tool_is_sent_as_one(client: WireClient) -> None:
    status, error = await client.error(
        "tools/call", {"name": "fail", "arguments": {"how": "protocol"}}
    )

    assert (status, error) == (200, {"code": 7, "message": "Custom", "data": {"a": 1}})
    with pytest.raises(ValueError, match="reserved"):
        ProtocolError("x", code=-32002)


@pytest.mark.parametrize("tool", ["fail", "afail"])
@pytest.mark.parametrize("how", ["bug", "exit"])
async def test_an_exception_is_logged_and_the_client_gets_only_a_reference(
    client: WireClient, caplog: pytest.LogCaptureFixture, tool: str, how: str
) -> None:
    result = await client.call(tool, {"how": how})

    reference = text(result).split()[-1].strip(")")
    assert result["isError"] is True
    assert "secret" not in text(result)
    (record,) = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert reference in record.getMessage()
    assert record.exc_info is not None


async def test_client_mistakes_are_not_logged_as_errors(
    client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    await client.call("add", {"a": "x"})
    await client.error("tools/call", {"name": "nope"})

    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_call_past_its_deadline_gets_a_clear_error(
    server: MCPServer, newest: WireClient
) -> None:
    release = threading.Event()
    seen: list[Context[Any]] = []

    @server.tool(timeout=0.05)
    def slow(ctx: Context) -> str:
        """Wait."""
        seen.append(ctx)
        release.wait(5)
        return "late"

    @server.tool(timeout=0.05)
    async def aslow() -> str:
        """Wait."""
        await asyncio.Event().wait()
        return "never"

    for name in ("slow", "aslow"):
        result = await newest.call(name)
        assert result["isError"] is True
        assert "0.05 s" in text(result)
    assert seen[0].is_cancelled
    release.set()


async def test_a_server_may_disable_the_deadline() -> None:
    patient = MCPServer("patient", call_timeout_s=None)

    @patient.tool
    async def answer() -> str:
        """Answer."""
        return "ok"

    assert text(await WireClient(patient, V2026_07_28).call("answer")) == "ok"


async def test_an_oversized_result_gets_a_clear_error() -> None:
    small = MCPServer("small", max_result_bytes=1000)

    @small.tool
    def blob(size: int) -> str:
        """Be large."""
        return "x" * size

    client = WireClient(small, V2026_07_28)
    assert (await client.call("blob", {"size": 10})).get("isError", False) is False
    result = await client.call("blob", {"size": 5000})
    assert result["isError"] is True
    assert "too large" in text(result)


async def test_newer_content_blocks_are_downgraded_for_older_clients(
    server: MCPServer, client: WireClient
) -> None:
    @server.tool
    def media() -> list:
        """Everything."""
        return ["hello", Image(b"i"), Audio(b"a", "audio/wav"), ResourceLink("x://y", name="n")]

    kinds = [block["type"] for block in (await client.call("media"))["content"]]

    if client.revision is V2024_11_05:
        assert kinds == ["text", "image", "text", "text"]
    elif client.revision is V2025_03_26:
        assert kinds == ["text", "image", "audio", "text"]
    else:
        assert kinds == ["text", "image", "audio", "resource_link"]


async def test_a_result_keeps_its_schema_or_is_an_error_that_names_the_field(
    server: MCPServer, caplog: pytest.LogCaptureFixture
) -> None:
    @server.tool
    def measure(value: str) -> list[dict[str, float]]:
        """Return a measured value."""
        return [{"value": float(value)}]

    @server.tool
    def estimate(value: str) -> list[dict[str, float | None]]:
        """Return an estimated value."""
        return [{"value": float(value)}]

    client = WireClient(server, V2026_07_28)
    assert (await client.call("measure", {"value": "1.5"}))["structuredContent"] == [{"value": 1.5}]
    estimated = await client.call("estimate", {"value": "inf"})
    assert estimated["structuredContent"] == [{"value": None}]
    assert not caplog.records
    assert (await client.call("measure", {"value": "nan"}))["isError"] is True
    assert "tool measure failed" in caplog.text
    assert "returned nan at /0/value" in caplog.text


async def test_a_value_against_its_annotation_is_logged_with_its_field(
    server: MCPServer, caplog: pytest.LogCaptureFixture
) -> None:
    @dataclass
    class Line:
        sku: str
        amount: int

    @server.tool
    def list_lines() -> list[Line]:
        """Return lines."""
        return [Line("a", 1), Line("b", "two")]  # type: ignore[arg-type]

    client = WireClient(server, V2026_07_28)
    for _ in range(2):
        await client.call("list_lines", {})

    (record,) = caplog.records
    assert "list_lines" in record.getMessage()
    assert "/1/amount must be an integer" in record.getMessage()


async def test_output_is_validated_on_request(caplog: pytest.LogCaptureFixture) -> None:
    strict = MCPServer("strict", validate_output=True)
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    @strict.tool(output_schema=schema)
    def wrong(kind: str) -> ToolResult:
        """Break the promise."""
        return {
            "wrong": ToolResult(structured={"n": "x"}),
            "none": ToolResult(),
            "error": ToolResult(is_error=True),
            "right": ToolResult(structured={"n": 1}),
        }[kind]

    client = WireClient(strict, V2026_07_28)
    for kind in ("wrong", "none"):
        status, error = await client.error(
            "tools/call", {"name": "wrong", "arguments": {"kind": kind}}
        )
        assert (status, error["code"]) == (200, -32603)
    assert (await client.call("wrong", {"kind": "error"}))["isError"] is True
    assert (await client.call("wrong", {"kind": "right"}))["structuredContent"] == {"n": 1}


async def test_capabilities_required_by_a_tool_are_enforced(server: MCPServer) -> None:
    @server.tool(required_client_capabilities={"sampling": {}})
    def needs() -> str:
        """Need."""
        return "ok"

    client = WireClient(server, V2026_07_28)
    status, error = await client.error("tools/call", {"name": "needs"})
    assert (status, error["code"]) == (400, -32021)
    assert error["data"] == {"requiredCapabilities": {"sampling": {}}}
    declared: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"sampling": {}}}
    assert text(await client.result("tools/call", {"name": "needs", "_meta": declared})) == "ok"
    for revision in HANDSHAKE:
        told = await WireClient(server, revision).call("needs")
        assert told["isError"] is True
        assert text(told) == "Tool needs needs a client that declares: sampling"


@pytest.mark.http_only("a pipe has no headers")
async def test_mirrored_parameters_must_match(server: MCPServer) -> None:
    calls = []

    @server.tool
    def route(region: Annotated[str | None, McpHeader("Region")] = "eu", n: int = 0) -> str:
        """Route."""
        calls.append(region)
        return "ok"

    client = WireClient(server, V2026_07_28)

    async def send(arguments: dict[str, Any], **headers: str) -> tuple[int, dict[str, Any]]:
        return await client.send("tools/call", {"name": "route", "arguments": arguments}, **headers)

    assert (await send({"region": "eu"}))[0] == 400
    assert (await send({"region": "eu"}, mcp_param_region="us"))[1]["error"]["code"] == -32020
    assert (await send({}, mcp_param_region="eu"))[0] == 400
    assert calls == []
    assert (await send({"region": "eu"}, mcp_param_region="eu", mcp_param_other="x"))[0] == 200
    assert (await send({}))[0] == 200
    assert "isError" not in (await send({"region": None}))[1]["result"]
    assert calls == ["eu", "eu", None]
    assert (
        await WireClient(server, V2025_11_25).send(
            "tools/call", {"name": "route", "arguments": {"region": "eu"}}
        )
    )[0] == 200


async def test_progress_only_increases_and_requires_a_progress_token(
    server: MCPServer, client: WireClient
) -> None:
    @server.tool
    async def work(ctx: Context) -> str:
        """Work."""
        for done in (2, 1, 3.5):
            await ctx.aprogress(done, 5, "at it")
        return "done"

    await client.call("work")
    assert client.sink.messages == []
    for token in (0, "t"):
        await client.call("work", _meta={"progressToken": token})
        sent = [message["params"] for message in client.sink.messages]
        assert [(p["progress"], p["total"]) for p in sent] == [(2, 5), (3.5, 5)]
        assert all(
            p["progressToken"] == token and type(p["progressToken"]) is type(token) for p in sent
        )
        assert all(("message" in p) is (client.revision is not V2024_11_05) for p in sent)
        client.sink.messages.clear()


async def test_progress_that_is_not_json_serializable_is_not_sent(
    server: MCPServer, client: WireClient
):
    @server.tool
    async def work(ctx: Context) -> str:
        for done in (math.nan, math.inf, -math.inf, 1):
            await ctx.aprogress(done, math.inf)
        return "done"

    await client.call("work", _meta={"progressToken": 1})

    sent = [message["params"] for message in client.sink.messages]
    assert sent == [{"progressToken": 1, "progress": 1}]


@pytest.mark.parametrize("revision", [V2024_11_05, V2026_07_28])
async def test_a_flood_of_progress_is_throttled_and_the_last_value_sent(revision: Revision) -> None:
    """What is left out is made up for by the next; the last is always sent."""
    server = MCPServer("tests", progress_rate=10)
    client = WireClient(server, revision)

    @server.tool
    async def hurry(ctx: Context) -> str:
        for done in range(1, 1001):
            await ctx.aprogress(done, 1000)
        return "done"

    began = time.monotonic()
    await client.call("hurry", _meta={"progressToken": 1})
    allowed = 12 + 10 * (time.monotonic() - began)
    told = [message["params"]["progress"] for message in client.sink.messages]

    assert told[:10] == list(range(1, 11))
    assert told[-1] == 1000
    assert len(told) <= allowed


async def test_nothing_is_sent_after_the_response(server: MCPServer, newest: WireClient) -> None:
    kept: list[Context[Any]] = []

    @server.tool
    async def leak(ctx: Context) -> str:
        """Keep the context."""
        kept.append(ctx)
        return "done"

    await newest.call("leak", _meta={"progressToken": 1})
    await kept[0].aprogress(1)

    assert newest.sink.messages == []


async def test_a_thread_can_report_progress_and_log(server: MCPServer, newest: WireClient) -> None:
    @server.tool
    def work(ctx: Context) -> str:
        """Work."""
        ctx.progress(1, 2)
        ctx.warning("careful", logger="shop")
        return "done"

    await newest.call(
        "work", _meta={"progressToken": 1, "io.modelcontextprotocol/logLevel": "info"}
    )

    progress, log = newest.sink.messages
    assert progress["params"]["progress"] == 1
    assert log["params"] == {"level": "warning", "data": "careful", "logger": "shop"}


PLAIN_FORMS: dict[str, Callable[[Context], None]] = {
    "aprogress": lambda ctx: ctx.progress(1),
    "adebug": lambda ctx: ctx.log("debug", "x"),
    "ainfo": lambda ctx: ctx.info("x"),
}


@pytest.mark.parametrize("twin", PLAIN_FORMS)
@pytest.mark.parametrize("meta", [{}, {"progressToken": 1}])
async def test_a_sync_method_on_the_event_loop_names_the_async_one(
    server: MCPServer, newest: WireClient, twin: str, meta: dict[str, Any]
) -> None:
    """The error does not depend on whether this client would be notified."""
    told = []

    @server.tool
    async def wrong(ctx: Context) -> str:
        """Block."""
        with pytest.raises(RuntimeError) as error:
            PLAIN_FORMS[twin](ctx)
        told.append(str(error.value))
        return "ok"

    await newest.call("wrong", _meta=meta)

    assert told == [
        f"This would block the event loop: in an async handler write `await ctx.{twin}(...)`."
    ]


async def test_log_messages_follow_the_level_of_the_request_or_server(
    server: MCPServer, client: WireClient
) -> None:
    @server.tool
    async def chatty(ctx: Context) -> str:
        """Log."""
        for level in ("debug", "info", "error"):
            await ctx.alog(level, {"at": level})
        with pytest.raises(ValueError, match="loud"):
            await ctx.alog("loud", "x")  # type: ignore[arg-type]
        return "done"

    def levels() -> list[str]:
        found = [message["params"]["level"] for message in client.sink.messages]
        client.sink.messages.clear()
        return found

    await client.call("chatty")
    if client.revision is not V2026_07_28:
        assert levels() == ["info", "error"]
        assert await client.result("logging/setLevel", {"level": "error"}) == {}
        assert (await client.error("logging/setLevel", {"level": "foo"}))[1]["code"] == -32602
        return
    assert levels() == []
    for threshold, expected in (("debug", 3), ("warning", 1), ("emergency", 0)):
        await client.call("chatty", _meta={"io.modelcontextprotocol/logLevel": threshold})
        assert len(levels()) == expected


async def test_each_level_has_a_method_of_its_own(server: MCPServer, client: WireClient) -> None:
    @server.tool
    def shout(ctx: Context) -> str:
        """Log."""
        for level in LOG_LEVELS:
            getattr(ctx, level)({"a": 1}, logger="shop")
        return "done"

    @server.tool
    async def ashout(ctx: Context) -> str:
        """Log."""
        for level in LOG_LEVELS:
            await getattr(ctx, f"a{level}")({"a": 1}, logger="shop")
        return "done"

    @server.tool
    def typed(ctx: Context) -> str:
        """Log, in a way that a type checker reads."""
        ctx.notice("x", logger="shop")
        ctx.emergency("x")
        return ctx.revision

    for name in ("shout", "ashout"):
        await client.call(name, _meta={"io.modelcontextprotocol/logLevel": "debug"})

    sent = [message["params"] for message in client.sink.messages]
    # Without a session, clients of the other revisions get the levels from the server's own on.
    levels = [each for each in LOG_LEVELS if each != "debug" or client.revision is V2026_07_28]
    once = [{"level": level, "data": {"a": 1}, "logger": "shop"} for level in levels]
    assert sent == once * 2


async def test_a_request_on_a_persistent_connection_is_cancelled_by_id(server: MCPServer) -> None:
    from django_mcp.server.exchange.connection import ConnectionState

    started, ended = asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait() -> str:
        """Wait."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    connection, stranger = ConnectionState(V2025_11_25), ConnectionState(V2025_11_25)
    call = '{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"wait"}}'
    running = asyncio.create_task(server.handle_raw(call, connection=connection))
    async with asyncio.timeout(5):
        await started.wait()
        assert '"code":-32600' in await server.handle_raw(call, connection=connection)
        for params, target in (
            ('{"requestId":6}', connection),
            ("{}", connection),
            ('{"requestId":[5]}', connection),
            ('{"requestId":5}', stranger),
        ):
            cancel = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":' + params + "}"
            assert await server.handle_raw(cancel, connection=target) == ""
        assert not running.done()
        cancel = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}'
        await server.handle_raw(cancel, connection=connection)
        assert await running == ""
        await ended.wait()
    assert server.engine.hub.calls.of(connection) == []
