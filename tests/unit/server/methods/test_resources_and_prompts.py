from __future__ import annotations

import base64
import sys
from typing import Any, Literal

import pytest

from django_mcp.protocol.content import Image, TextContents
from django_mcp.protocol.errors import ProtocolError
from django_mcp.protocol.results import CacheHint, Completion, PromptMessage, ReadResult
from django_mcp.server.exchange.call import Failure, FailureKind
from django_mcp.server.memory import NoKnownExceptions
from tests.support.ports import use_ports
from tests.support.server.plain import MCPServer
from tests.support.wire import V2026_07_28, WireClient


@pytest.fixture(autouse=True)
def entries(server: MCPServer) -> None:
    @server.resource("shop://motd", mime_type="text/plain")
    def motd() -> str:
        """Say hello."""
        return "hello"

    @server.resource("shop://logo", mime_type="image/png")
    async def logo() -> bytes:
        """Draw."""
        return b"\x89PNG"

    @server.resource("order://{pk}", cache=CacheHint(ttl_ms=9))
    def order(pk: int) -> dict[str, int]:
        """Tell of an order."""
        if pk == 404:
            raise LookupError
        if pk == 500:
            raise KeyError("secret")
        if pk == 501:
            sys.exit("secret")
        if pk == 7:
            raise ProtocolError("Custom", code=7)
        return {"pk": pk}

    @server.resource("dir://all")
    def listing() -> list:
        """Hold several."""
        return [TextContents("dir://a", "A"), TextContents("dir://b", "B")]

    @server.resource("dir://none")
    def nothing() -> ReadResult:
        """Hold nothing."""
        return ReadResult(contents=[])


@pytest.fixture(autouse=True)
def prompts(server: MCPServer, entries: None) -> None:
    @server.prompt
    def greet(name: str, tone: Literal["warm", "cold"] = "warm") -> str:
        """Greet."""
        return f"Greet {name}, {tone}"

    @server.prompt
    def picture() -> list:
        """Show."""
        return [PromptMessage(Image(b"i")), PromptMessage("What is it?", role="assistant")]

    @server.completion(greet, "name")
    def names(value: str, arguments: dict[str, str]) -> list[str]:
        if value == "exit":
            sys.exit("secret")
        found = [f"{value}{n}" for n in range(150)]
        return found if arguments.get("tone") != "cold" else found[:1]

    @server.completion("order://{pk}", "pk")
    async def keys(value: str) -> Completion:
        return Completion(values=["1", "2"], total=2)


async def test_text_and_bytes_are_read(client: WireClient) -> None:
    (text,) = (await client.result("resources/read", {"uri": "shop://motd"}))["contents"]
    (blob,) = (await client.result("resources/read", {"uri": "shop://logo"}))["contents"]

    assert text == {"uri": "shop://motd", "mimeType": "text/plain", "text": "hello"}
    assert blob["mimeType"] == "image/png"
    assert base64.b64decode(blob["blob"]) == b"\x89PNG"


async def test_a_template_is_read_by_its_variables(client: WireClient) -> None:
    (found,) = (await client.result("resources/read", {"uri": "order://12"}))["contents"]

    assert (found["uri"], found["text"], found["mimeType"]) == (
        "order://12",
        '{"pk":12}',
        "application/json",
    )


async def test_one_read_may_return_several_contents(client: WireClient) -> None:
    result = await client.result("resources/read", {"uri": "dir://all"})

    assert [each["uri"] for each in result["contents"]] == ["dir://a", "dir://b"]


@pytest.mark.parametrize(
    "uri", ["shop://nope", "order://abc", "order://", "order://a/b", "dir://none", "", "not a uri"]
)
async def test_an_unknown_resource_is_not_found(client: WireClient, uri: str) -> None:
    status, error = await client.error("resources/read", {"uri": uri})

    assert status == 200
    assert error["code"] == (-32602 if client.revision is V2026_07_28 else -32002)
    assert error["data"] == {"uri": uri}


@pytest.mark.parametrize(
    "uri", ["order://..%2F1", "order://%2e%2e", "order://1%00", "order://1%5C2", "order://%252e"]
)
async def test_path_traversal_is_rejected(client: WireClient, uri: str) -> None:
    assert (await client.error("resources/read", {"uri": uri}))[1]["data"] == {"uri": uri}


async def test_read_failures_have_distinct_errors(server: MCPServer, client: WireClient) -> None:
    class Mapper(NoKnownExceptions):
        def map(self, error: Exception) -> Failure | None:
            if type(error) is LookupError:
                return Failure(kind=FailureKind.MISSING, message="no")
            return None

    use_ports(server, exceptions=Mapper())

    codes = [
        (await client.error("resources/read", {"uri": f"order://{pk}"}))[1]
        for pk in (404, 500, 7, 501)
    ]

    assert codes[0]["code"] == client.revision.missing_resource_code
    assert codes[1]["code"] == -32603
    assert "secret" not in codes[1]["message"]
    assert codes[2]["code"] == 7
    assert codes[3]["message"].startswith("Internal error (reference ")


async def test_the_uri_must_be_a_string(client: WireClient) -> None:
    for params in ({}, {"uri": 5}, {"uri": None}):
        assert (await client.error("resources/read", params))[1]["code"] == -32602


async def test_a_read_result_has_a_ttl(server: MCPServer, newest: WireClient) -> None:
    result = await newest.result("resources/read", {"uri": "order://1"})
    other = await newest.result("resources/read", {"uri": "shop://motd"})

    assert (result["ttlMs"], result["cacheScope"]) == (9, "private")
    assert (other["ttlMs"], other["cacheScope"]) == (0, "private")


async def test_a_prompt_is_rendered(client: WireClient) -> None:
    result = await client.result("prompts/get", {"name": "greet", "arguments": {"name": "Ada"}})
    rich = await client.result("prompts/get", {"name": "picture"})

    assert result["messages"] == [
        {"role": "user", "content": {"type": "text", "text": "Greet Ada, warm"}}
    ]
    assert result["description"] == "Greet."
    assert [each["role"] for each in rich["messages"]] == ["user", "assistant"]
    assert rich["messages"][0]["content"]["type"] == "image"


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"name": 5},
        {"name": "nope"},
        {"name": "greet"},
        {"name": "greet", "arguments": []},
        {"name": "greet", "arguments": {"name": 5}},
        {"name": "greet", "arguments": {"name": "a", "tone": "loud"}},
        {"name": "greet", "arguments": {"name": "a", "extra": "x"}},
    ],
)
async def test_a_prompt_with_invalid_arguments_is_rejected(client: WireClient, params: Any) -> None:
    status, error = await client.error("prompts/get", params)

    assert (status, error["code"]) == (200, -32602)


def ref(argument: str, value: str = "", **more: Any) -> dict[str, Any]:
    return {
        "ref": {"type": "ref/prompt", "name": "greet"},
        "argument": {"name": argument, "value": value},
        **more,
    }


async def test_at_most_100_completions_are_returned(client: WireClient) -> None:
    many = (await client.result("completion/complete", ref("name", "A")))["completion"]
    one = (
        await client.result(
            "completion/complete", ref("name", "A", context={"arguments": {"tone": "cold"}})
        )
    )["completion"]

    assert len(many["values"]) == 100
    assert many["hasMore"] is True
    assert one["values"] == ["A0"]


async def test_choices_complete_automatically(client: WireClient) -> None:
    found = await client.result("completion/complete", ref("tone", "w"))

    assert found["completion"]["values"] == ["warm"]


async def test_a_completer_that_raises_system_exit_has_failed(client: WireClient) -> None:
    _, error = await client.error("completion/complete", ref("name", "exit"))

    assert error["code"] == -32603
    assert error["message"].startswith("Internal error (reference ")


async def test_variables_of_a_template_are_completed(client: WireClient) -> None:
    params = {
        "ref": {"type": "ref/resource", "uri": "order://{pk}"},
        "argument": {"name": "pk", "value": ""},
    }

    found = await client.result("completion/complete", params)

    assert found["completion"] == {"values": ["1", "2"], "total": 2}


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"ref": {"type": "ref/prompt", "name": "greet"}},
        {"ref": {"type": "ref/x"}, "argument": {"name": "a", "value": ""}},
        {"ref": {"type": "ref/prompt", "name": "nope"}, "argument": {"name": "a", "value": ""}},
        {"ref": {"type": "ref/prompt", "name": []}, "argument": {"name": "a", "value": ""}},
        {
            "ref": {"type": "ref/resource", "uri": "no://{x}"},
            "argument": {"name": "x", "value": ""},
        },
        ref("nope"),
        {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": 5}},
        ref("name", context=[]),
        ref("name", context={"arguments": {"tone": 5}}),
    ],
)
async def test_completing_an_unknown_reference_is_rejected(client: WireClient, params: Any) -> None:
    status, error = await client.error("completion/complete", params)

    assert (status, error["code"]) == (200, -32602)


async def test_a_text_is_read_in_ranges(server: MCPServer, client: WireClient) -> None:
    server.register_resource("x://text", lambda: "aäb", name="text")

    async def read(**part: int) -> str:
        result = await client.result("resources/read", {"uri": "x://text", **part})
        (contents,) = result["contents"]
        text: str = contents["text"]
        return text

    assert await read(offset=0, length=2) == "a"
    assert await read(offset=1, length=2) == "ä"
    assert await read(offset=2, length=2) == "äb"
    assert await read(offset=4) == ""
    assert await read(offset=3) == "b"
    assert await read(length=100) == "aäb"


@pytest.mark.parametrize("params", [{"offset": -1}, {"length": 0}, {"offset": "1"}])
async def test_an_invalid_range_is_rejected(client: WireClient, params: Any) -> None:
    _, error = await client.error("resources/read", {"uri": "shop://motd", **params})

    assert error["code"] == -32602


async def test_binary_resources_do_not_support_ranges(client: WireClient) -> None:
    _, error = await client.error("resources/read", {"uri": "shop://logo", "offset": 0})

    assert (error["code"], error["message"]) == (-32602, "Only a text can be read in parts")


async def test_range_support_is_advertised_with_resources() -> None:
    server = MCPServer("tests")
    without = server.capabilities()
    server.register_resource("x://text", lambda: "x", name="text")

    assert "experimental" not in without
    for revision in server.engine.revisions.names():
        told = server.capabilities(revision)["experimental"]
        assert told == {"resourceReadChunking": {"enabled": True}}


async def test_the_range_limit_is_advertised_and_enforced() -> None:
    server = MCPServer("tests", read_chunk_bytes=4)
    server.register_resource("x://text", lambda: "x" * 10, name="text")
    newest = WireClient(server, V2026_07_28)

    capabilities = (await newest.result("server/discover"))["capabilities"]
    part = await newest.result("resources/read", {"uri": "x://text", "length": 9})
    whole = await newest.result("resources/read", {"uri": "x://text"})

    told = {"resourceReadChunking": {"enabled": True, "maxChunkBytes": 4}}
    assert capabilities["experimental"] == told
    assert [len(each["contents"][0]["text"]) for each in (part, whole)] == [4, 10]


@pytest.mark.parametrize(
    ("method", "params", "what", "data"),
    [
        ("resources/read", {"uri": "big://one"}, "resource", {"uri": "big://one"}),
        ("prompts/get", {"name": "wordy"}, "prompt", None),
        (
            "completion/complete",
            {
                "ref": {"type": "ref/prompt", "name": "wordy"},
                "argument": {"name": "by", "value": ""},
            },
            "completion",
            None,
        ),
    ],
)
async def test_an_oversized_result_is_replaced_by_an_error(
    method: str, params: dict[str, Any], what: str, data: Any
) -> None:
    small = MCPServer("small", max_result_bytes=1000)

    @small.resource("big://one")
    def big() -> str:
        """Be large."""
        return "x" * 5000

    @small.prompt
    def wordy(by: str = "") -> str:
        """Say much."""
        return "x" * 5000

    @small.completion(wordy, "by")
    def propose(value: str) -> list[str]:
        """Propose much."""
        return ["x" * 5000]

    _, error = await WireClient(small, V2026_07_28).error(method, params)

    assert error["code"] == -32603
    assert error["message"].startswith(f"The {what} is too large: 5")
    assert error["message"].endswith("at most 1000 are sent")
    assert error.get("data") == data
