"""Whatever a handler returns, the response has the format of the client's revision.

`WireClient.result` holds each result against the official types of the revision.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_mcp.protocol.annotations import Annotations, Icon
from django_mcp.protocol.content import (
    Audio,
    BlobContents,
    EmbeddedResource,
    Image,
    ResourceLink,
    Text,
    TextContents,
)
from django_mcp.protocol.results import (
    CacheHint,
    Completion,
    PromptMessage,
    PromptResult,
    ReadResult,
    ToolResult,
)
from django_mcp.protocol.revisions import REVISIONS
from tests.support.server.plain import MCPServer
from tests.support.wire import V2026_07_28, WireClient

SETTLED = {"capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
TASKS = {"tasks/get", "tasks/list", "tasks/result", "tasks/update", "tasks/cancel"}
UNSENT = {"resources/subscribe", "resources/unsubscribe", "subscriptions/listen", *TASKS}
PARAMS: dict[str, dict[str, Any]] = {
    "tools/call": {"name": "give"},
    "resources/read": {"uri": "x://give"},
    "prompts/get": {"name": "fill"},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "fill"},
        "argument": {"name": "a", "value": ""},
    },
    "logging/setLevel": {"level": "info"},
}

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
metas = st.one_of(st.none(), st.dictionaries(st.sampled_from(["a", "com.example/b"]), texts))
annotated = st.one_of(
    st.none(),
    st.builds(
        Annotations,
        audience=st.sampled_from([(), ("user",), ("user", "assistant")]),
        priority=st.one_of(st.none(), st.floats(0, 1)),
        last_modified=st.sampled_from([None, "2025-01-12T15:00:58Z"]),
    ),
)
icons = st.lists(st.builds(Icon, st.just("https://x.example/i.png")), max_size=1)
contents = st.one_of(
    st.builds(TextContents, st.just("x://1"), texts, meta=metas),
    st.builds(BlobContents, st.just("x://2"), st.binary(max_size=9), meta=metas),
)
blocks = st.one_of(
    st.builds(Text, texts, annotations=annotated, meta=metas),
    st.builds(Image, st.binary(max_size=9), mime_type=st.just("image/png"), meta=metas),
    st.builds(Audio, st.binary(max_size=9), mime_type=st.just("audio/wav"), meta=metas),
    st.builds(EmbeddedResource, contents, annotations=annotated),
    st.builds(ResourceLink, uri=st.just("x://3"), name=st.just("n"), icons=icons, meta=metas),
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
tool_results = st.one_of(
    values,
    blocks,
    st.lists(blocks, max_size=3),
    st.builds(ToolResult, st.lists(blocks, max_size=2), structured=values, is_error=st.booleans()),
)
readings = st.builds(
    ReadResult, st.lists(contents, min_size=1, max_size=2), cache=st.just(CacheHint(5, "public"))
)
prompts = st.builds(
    PromptResult, st.lists(st.builds(PromptMessage, blocks), max_size=2), description=texts
)
completions = st.builds(Completion, st.lists(texts, max_size=120))


class Given:
    """The next return value of the handlers."""

    value: Any = "x"


@pytest.fixture(scope="module")
def server() -> MCPServer:
    server = MCPServer("tests", title="Tests", mode="stateless", instructions="Be kind.")

    @server.tool(title="Give", read_only=True, icons=[Icon("https://x.example/i.png")])
    async def give() -> Any:
        return Given.value

    @server.tool(output_schema={"type": "array", "items": {"type": "integer"}})
    async def count(a: int = 1) -> Any:
        return [a]

    @server.resource("x://give", title="Give", annotations=Annotations(priority=1.0))
    async def read() -> Any:
        return Given.value

    @server.resource("x://of/{number}")
    async def of(number: int) -> str:
        return str(number)

    @server.prompt(title="Fill")
    async def fill(a: str = "") -> Any:
        return Given.value

    @server.completion(fill, "a")
    async def propose(value: str) -> Any:
        return Given.value

    return server


CALLED = (
    ("tools/call", tool_results),
    ("resources/read", readings),
    ("prompts/get", prompts),
    ("completion/complete", completions),
)


@pytest.mark.parametrize("revision", REVISIONS)
async def test_every_method_responds_in_the_revisions_format(server: MCPServer, revision: Any):
    Given.value = "x"
    client = WireClient(server, revision)

    for method in set(revision.methods) - UNSENT:
        params = PARAMS.get(method)
        if method == "initialize":
            params = {**SETTLED, "protocolVersion": revision.name}
        if method == "completion/complete":
            Given.value = ["x"]
        result = await client.result(method, params)

        assert ("resultType" in result) is (revision is V2026_07_28)
        Given.value = "x"


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(("method", "returned"), CALLED, ids=[method for method, _ in CALLED])
@settings(max_examples=40)
@given(data=st.data())
async def test_any_return_value_is_sent_in_the_revisions_format(
    server: MCPServer, revision: Any, method: str, returned: Any, data: Any
):
    Given.value = data.draw(returned)

    await WireClient(server, revision).result(method, PARAMS[method])
