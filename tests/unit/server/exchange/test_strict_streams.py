"""Strict mode in both directions: client requests, responses, change notifications and tasks."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from django_mcp.protocol.asks import Ask, ask_form, ask_roots, ask_sampling_raw, ask_url
from django_mcp.protocol.errors import HEADER_MISMATCH, RESOURCE_NOT_FOUND
from django_mcp.protocol.json import decode, encode
from django_mcp.protocol.message_schemas import find_error_schema
from django_mcp.protocol.revisions import Revision
from django_mcp.registry.validators import Validator
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.handlers.context import Context
from tests.support.server.plain import MCPServer
from tests.support.server.streams import StreamClient
from tests.support.server.tasks import Legacy, Modern, make_server, until
from tests.support.wire import (
    HANDSHAKE,
    META,
    V2024_11_05,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
    WireClient,
)

SAID = {"role": "assistant", "content": {"type": "text", "text": "A poem"}, "model": "m"}
ALL: dict[str, Any] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}},
    "roots": {},
}


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Order(BaseModel):
    """Every kind of field that a form can have before choices of several."""

    name: Annotated[str, Field(min_length=1, max_length=20)] = "mug"
    count: Annotated[int, Field(ge=1)] = 1
    price: float = 1.5
    size: Size = Size.SMALL
    is_gift: bool = False


TOOLS = [{"name": "t", "inputSchema": {"type": "object"}}]
SPOKEN = [{"role": "user", "content": {"type": "text", "text": "A poem, please"}}]
USED = [
    {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "t", "input": {}}]},
    {
        "role": "user",
        "content": [{"type": "tool_result", "toolUseId": "1", "content": []}],
    },
]
COLOURS: dict[str, Any] = {
    "type": "object",
    "properties": {"colours": {"type": "array", "items": {"type": "string", "enum": ["red"]}}},
}


def raw(messages: list[dict[str, Any]], **params: Any) -> Ask:
    return ask_sampling_raw({"messages": messages, "maxTokens": 9, **params})


SOUND: dict[str, tuple[Callable[[], Ask], dict[str, Any]]] = {
    "form": (lambda: ask_form("Order?", Order), {"action": "accept", "content": {"name": "cup"}}),
    "form.arrays": (
        lambda: ask_form("Which?", COLOURS),
        {"action": "accept", "content": {"colours": ["red"]}},
    ),
    "url": (lambda: ask_url("Sign in", "https://example.com/"), {"action": "decline"}),
    "sampling": (lambda: raw(SPOKEN, temperature=0.5), SAID),
    "sampling.tools": (
        lambda: raw([*SPOKEN, *USED], tools=TOOLS),
        {**SAID, "content": [{"type": "tool_use", "id": "2", "name": "t", "input": {}}]},
    ),
    "roots": (ask_roots, {"roots": [{"uri": "file:///home", "name": "home"}]}),
}

CROOKED: dict[str, Callable[[], Ask]] = {
    "/messages/0/role": lambda: raw([{"role": "system", "content": {}}]),
    "/messages/0/content/type": lambda: raw([{"role": "user", "content": {"type": "hologram"}}]),
    "/maxTokens": lambda: raw(SPOKEN, maxTokens="many"),
    "/systemPrompt": lambda: raw(SPOKEN, systemPrompt=5),
}


def make(asks: Callable[[], Ask]) -> MCPServer:
    server = MCPServer("tests", strict=True, ask_timeout_s=10)

    @server.tool
    async def ask(ctx: Context[Any]) -> str:
        await ctx.aask({"it": asks()})
        return "answered"

    return server


PAIRS = [(revision, kind) for revision in HANDSHAKE for kind in SOUND if kind in revision.asks]


@pytest.mark.parametrize(("revision", "kind"), PAIRS, ids=lambda each: getattr(each, "name", each))
async def test_every_client_request_and_response_passes_on_a_stream(revision: Revision, kind: str):
    asks, answer = SOUND[kind]
    client = StreamClient(make(asks), revision)
    await client.open(ALL)
    call = client.call_tool("ask")
    await client.respond(await call.sink.message(), result=answer)

    assert (await call.answer())["result"]["content"][0]["text"] == "answered"


@pytest.mark.parametrize("kind", SOUND)
async def test_every_client_request_and_response_passes_by_retry(kind: str):
    asks, answer = SOUND[kind]
    client = WireClient(make(asks), V2026_07_28)
    meta: dict[str, Any] = {META + "clientCapabilities": ALL}
    first = await client.call("ask", _meta=meta)
    state = first["requestState"]
    last = await client.call("ask", _meta=meta, inputResponses={"it": answer}, requestState=state)

    assert last["content"][0]["text"] == "answered"


@pytest.mark.parametrize("pointer", CROOKED)
async def test_an_invalid_client_request_is_not_sent_on_a_stream(
    pointer: str, caplog: pytest.LogCaptureFixture
):
    client = StreamClient(make(CROOKED[pointer]), V2025_11_25)
    await client.open(ALL)
    call = client.call_tool("ask")

    assert (await call.answer())["result"]["isError"] is True
    assert call.sink.items.empty()
    assert pointer in caplog.text


@pytest.mark.parametrize("pointer", CROOKED)
async def test_an_invalid_client_request_is_not_sent_as_a_result(
    pointer: str, caplog: pytest.LogCaptureFixture
):
    meta: dict[str, Any] = {META + "clientCapabilities": ALL}
    client = WireClient(make(CROOKED[pointer]), V2026_07_28)
    _, error = await client.error("tools/call", {"name": "ask", "_meta": meta})

    assert error["code"] == -32603
    assert f"/inputRequests/it/params{pointer}" in caplog.text


@pytest.mark.parametrize(
    ("revision", "kind", "answer", "named"),
    [
        (V2025_11_25, "form", {"action": "perhaps"}, "/action"),
        (
            V2025_11_25,
            "form",
            {"action": "accept", "content": {"name": {"first": "A"}}},
            "/content/name",
        ),
        (V2025_06_18, "form", {"action": "accept", "content": {"name": ["A"]}}, "/content/name"),
        (
            V2025_11_25,
            "sampling",
            {"role": "assistant", "content": {"type": "text", "text": ""}},
            "/model",
        ),
        (V2024_11_05, "sampling", {**SAID, "content": [SAID["content"]]}, "/content"),
        (V2025_11_25, "roots", {"roots": ["file:///home"]}, "/roots/0"),
        (V2025_11_25, "roots", [], "(all of it)"),
    ],
)
async def test_an_invalid_answer_is_rejected_and_ends_the_wait(
    revision: Revision, kind: str, answer: Any, named: str
):
    client = StreamClient(make(SOUND[kind][0]), revision)
    await client.open(ALL)
    call = client.call_tool("ask")
    asked = await call.sink.message()
    posted = {"jsonrpc": "2.0", "id": asked["id"], "result": answer}
    reply = await client.post(
        encode(posted),
        {"mcp-session-id": client.session_id or "", "content-type": "application/json"},
    )

    error = decode(reply.body or b"")["error"]
    assert (reply.status, error["code"]) == (400, -32602)
    assert named in error["message"]
    assert (await call.answer())["result"]["isError"] is True


async def test_an_invalid_error_response_is_rejected():
    client = StreamClient(make(ask_roots), V2025_11_25)
    await client.open(ALL)
    call = client.call_tool("ask")
    asked = await call.sink.message()
    posted = {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": "no"}}
    reply = await client.post(encode(posted), {"mcp-session-id": client.session_id or ""})

    assert reply.status == 400
    assert b"/message" in (reply.body or b"")
    assert (await call.answer())["result"]["isError"] is True


async def test_retry_answers_must_match_a_known_result_type():
    client = WireClient(make(SOUND["form"][0]), V2026_07_28)
    params = {"name": "ask", "inputResponses": {"it": {"action": "perhaps"}}}
    _, error = await client.error("tools/call", params)

    assert (error["code"], "/inputResponses/it" in error["message"]) == (-32602, True)


@pytest.mark.parametrize("revision", [V2024_11_05, V2025_11_25])
async def test_an_invalid_change_notification_is_not_sent(
    revision: Revision, caplog: pytest.LogCaptureFixture
):
    server = make(ask_roots)
    client = StreamClient(server, revision)
    await client.open(ALL)
    async with client.standalone() as stream:
        await server.anotify("notifications/resources/updated", {"uri": 5})
        await server.anotify("notifications/elicitation/complete", {})
        await server.anotify("notifications/message", {"level": "loud", "data": 1})
        await server.anotify("notifications/com.example/own", {"anything": [1]})
        await server.anotify_list_changed("tools")

        methods = [(await stream.sink.message())["method"] for _ in range(2)]

    assert methods == ["notifications/com.example/own", "notifications/tools/list_changed"]
    # Clients of older revisions are told of no elicitation.
    own = ["/elicitationId"] if "url" in revision.asks else []
    for pointer in ("/uri", *own, "/level"):
        assert pointer in caplog.text


async def test_a_valid_listen_stream_passes():
    server = make(ask_roots)

    @server.resource("x://a")
    async def read() -> str:
        return "a"

    client = StreamClient(server, V2026_07_28)
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["x://a"]}
    stream = client.begin("subscriptions/listen", {"notifications": wanted}, id=7)
    acknowledged = await stream.sink.message()
    await server.anotify_resource_updated("x://a")
    await server.anotify_list_changed("tools")
    told = [await stream.sink.message() for _ in range(2)]
    await server.aclose_stream((await server.aopen_streams())[0].id)

    assert acknowledged["params"]["notifications"] == wanted
    for each in (acknowledged, *told):
        assert each["params"]["_meta"][META + "subscriptionId"] == 7
    assert (await stream.answer())["result"]["_meta"][META + "subscriptionId"] == 7


async def test_listen_filter_fields_are_type_checked():
    params = {"notifications": {"toolsListChanged": "yes"}}
    _, error = await WireClient(make(ask_roots), V2026_07_28).error("subscriptions/listen", params)

    assert "/notifications/toolsListChanged" in error["message"]


async def test_stdio_is_validated_before_and_after_the_handshake():
    server = make(ask_roots)
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": None}}
    fresh = await server.handle_raw(encode(note), connection=ConnectionState())
    shaken = await server.handle_raw(encode(note), connection=ConnectionState(V2025_11_25))

    assert "/requestId" in fresh
    assert "/requestId" in shaken


async def test_both_kinds_of_tasks_pass():
    server, gate = make_server(strict=True)
    gate.may_go_on.set()
    modern = Modern(server)
    first = await modern.create("confirm", item="mug")
    due = (await modern.until(first, "input_required"))["inputRequests"]
    answers = {key: {"action": "accept", "content": {"sure": True}} for key in due}
    await modern.raw("tasks/update", {"taskId": first, "inputResponses": answers})
    await modern.until(first, "completed")
    await modern.until(await modern.create("crash"), "failed")
    await modern.raw("tasks/cancel", {"taskId": first})

    legacy = Legacy(server)
    second = await legacy.create("confirm", item="mug")
    waiting = legacy.begin("tasks/result", {"taskId": second}, id="waits")
    asked = await waiting.sink.message()
    await legacy.respond(asked, result={"action": "accept", "content": {"sure": True}})

    assert "mug, True" in (await waiting.answer())["result"]["content"][0]["text"]
    await legacy.until(second, "completed")


async def test_client_requests_of_tasks_are_validated(caplog: pytest.LogCaptureFixture):
    server = MCPServer("tests", strict=True)

    @server.tool(task="allowed")
    async def ask(ctx: Context[Any]) -> str:
        await ctx.aask({"it": raw(SPOKEN, maxTokens="many")})
        return "answered"

    client = Modern(server)
    client.meta[META + "clientCapabilities"] |= ALL
    task_id = await client.create("ask")
    found: dict[str, Any] = {}

    async def is_refused() -> bool:
        found.update((await client.send("tasks/get", {"taskId": task_id}))[1])
        return "error" in found

    await until(is_refused)
    assert found["error"]["code"] == -32603
    assert "/inputRequests/it/params/maxTokens" in caplog.text


@pytest.mark.parametrize(
    ("code", "is_sound"),
    [
        (-32602, True),
        (7, True),
        (HEADER_MISMATCH, True),
        (RESOURCE_NOT_FOUND, False),
        (-32042, False),
    ],
)
def test_error_codes_missing_in_a_revision_are_detected(code: int, is_sound: bool):
    validator = Validator(find_error_schema(V2026_07_28), "error", is_input=False)

    assert (validator.problems({"code": code, "message": "No"}) == []) is is_sound
