"""Any input gets one well-formed response, and never an internal error."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.headers import Headers
from django_mcp.protocol.json import decode, encode
from django_mcp.protocol.messages import Batch, Request, decode_message
from django_mcp.protocol.revisions import REVISIONS, RevisionSet
from django_mcp.server.exchange.admission import admit, check_batch, check_version
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.handlers.context import Context
from django_mcp.server.methods import METHODS
from tests.support.server.plain import MCPServer

META = "io.modelcontextprotocol/"
NAMES = [revision.name for revision in REVISIONS]

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=12)
)
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
versions = st.one_of(st.sampled_from([*NAMES, "2199-01-01", ""]), anything)
metas = st.one_of(
    anything,
    st.fixed_dictionaries(
        {},
        optional={
            META + "protocolVersion": versions,
            META + "clientCapabilities": anything,
            META + "clientInfo": anything,
            META + "logLevel": anything,
            "progressToken": anything,
            "traceparent": anything,
            "baggage": anything,
        },
    ),
)
params = st.one_of(
    anything,
    st.fixed_dictionaries(
        {},
        optional={
            "_meta": metas,
            "name": st.one_of(st.sampled_from(["add", "fill"]), anything),
            "uri": st.one_of(st.sampled_from(["x://text", "x://of/5"]), anything),
            "arguments": anything,
            "cursor": anything,
            "ref": anything,
            "argument": anything,
            "context": anything,
            "level": anything,
            "offset": anything,
            "length": anything,
            "protocolVersion": versions,
            "capabilities": anything,
            "clientInfo": anything,
            "inputResponses": anything,
            "requestState": anything,
            "notifications": anything,
        },
    ),
)
methods = st.one_of(
    st.sampled_from([each for each in METHODS if each != "subscriptions/listen"]),
    st.text(max_size=12),
)
requests = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "method": methods, "id": st.one_of(st.integers(), st.text())},
    optional={"params": params},
)
values = st.one_of(
    st.sampled_from([*NAMES, *METHODS, "add", "x://text"]),
    st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=12),
)
names = st.sampled_from(
    ["mcp-protocol-version", "mcp-method", "mcp-name", "mcp-param-a", "accept", "x-other"]
)
headers = st.one_of(
    st.none(),
    st.lists(st.tuples(names, values), max_size=5).map(
        lambda lines: Headers([(n.encode("latin-1"), v.encode("latin-1")) for n, v in lines])
    ),
)
connections = st.one_of(st.none(), st.sampled_from([None, *REVISIONS[:-1]]).map(ConnectionState))
spoken = st.one_of(st.none(), st.lists(st.sampled_from(NAMES), min_size=1, unique=True)).map(
    RevisionSet
)


@given(requests, headers, connections, spoken, st.booleans())
def test_admission_decides_about_every_request(
    request: Any, given_headers: Any, connection: Any, revisions: Any, has_all: bool
):
    offered = {"tools", "resources", "prompts", "completions", "logging"} if has_all else set()
    message = decode_message(encode(request), 100)
    if isinstance(message, Request):
        found = admit(message, given_headers, connection, revisions, offered, {})
        assert isinstance(found, ConnectionState | Refusal)
        if isinstance(found, ConnectionState):
            known = (connection.revision,) if connection is not None else ()
            assert found.revision in (*known, *revisions.handshake, *revisions.stateless)
        else:
            assert found.message
            assert encode(found.data) is not None


@given(st.lists(st.one_of(requests, anything), max_size=3), headers, connections, spoken)
def test_admission_decides_about_every_batch(
    batch: Any, given_headers: Any, connection: Any, revisions: Any
):
    message = decode_message(encode(batch), 100)
    if isinstance(message, Batch):
        found = check_batch(message, given_headers, connection, revisions, 5)
        assert found is None or isinstance(found, Refusal)
    assert isinstance(check_version(given_headers, revisions), Refusal | None)


@pytest.fixture(scope="module")
def server() -> MCPServer:
    server = MCPServer("tests", mode="stateless")

    @server.tool
    async def add(ctx: Context[Any], a: int = 1, b: int = 2) -> int:
        await ctx.alog("info", "adding")
        return a + b

    @server.resource("x://text")
    async def text() -> str:
        return "some text"

    @server.resource("x://of/{number}")
    async def of(number: int) -> bytes:
        return bytes(number % 9)

    @server.prompt
    async def fill(a: str = "") -> str:
        return a

    return server


def check_answer(body: bytes | None) -> None:
    if body is None:
        return
    answers = decode(body)
    for answer in answers if isinstance(answers, list) else [answers]:
        assert answer["jsonrpc"] == "2.0"
        assert ("result" in answer) is not ("error" in answer)
        if "error" in answer:
            assert type(answer["error"]["code"]) is int
            assert answer["error"]["code"] != -32603, answer
            assert type(answer["error"]["message"]) is str


@given(request=requests, given_headers=headers)
async def test_every_request_gets_one_response(server: MCPServer, request: Any, given_headers: Any):
    reply = await server.engine.answer(Exchange(body=encode(request), headers=given_headers))

    # 406: the client takes no event stream, which the method needs.
    assert reply.status in (200, 202, 400, 404, 406)
    check_answer(reply.body)


@given(body=st.one_of(st.binary(max_size=40), anything.map(encode)), given_headers=headers)
async def test_every_body_gets_a_response(server: MCPServer, body: bytes, given_headers: Any):
    reply = await server.engine.answer(Exchange(body=body, headers=given_headers))

    assert reply.status in (200, 202, 400, 404)
    check_answer(reply.body)
