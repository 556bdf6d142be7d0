"""Calls of tools with arguments that nearly fit, over each transport and in each revision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict
from pydantic.dataclasses import dataclass as pydantic_dataclass

from django_mcp.protocol.header_params import McpHeader
from tests.support.server.plain import MCPServer
from tests.support.wire import V2026_07_28, WireClient


@dataclass
class Line:
    sku: str
    count: int = 1


class Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore")
    name: str


@pydantic_dataclass(config=ConfigDict(extra="ignore"))
class LenientLine:
    sku: str


class Composed(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [{"type": "object", "properties": {"size": {"type": "integer"}}}]
        }
    )
    name: str


LOCATED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "place": {
            "type": "object",
            "properties": {"shelf": {"type": "integer", "x-mcp-header": "Shelf"}},
        },
        "n": {"type": "integer"},
    },
    "required": ["place"],
}


def fill(server: MCPServer) -> MCPServer:
    @server.tool
    def order(
        lines: list[Line], note: str = "", gift: bool = False, limit: int | None = None
    ) -> str:
        """Order."""
        return f"{[(each.sku, each.count) for each in lines]} {note!r} {gift} {limit}"

    @server.tool
    def greet(person: Lenient, line: LenientLine | None = None) -> str:
        """Greet."""
        return person.name

    @server.tool
    def compose(whole: Composed) -> str:
        """Take a model with a schema of its own beside its fields."""
        return whole.name

    @server.tool(input_schema=LOCATED)
    def located(place: dict[str, Any], n: int = 0) -> str:
        """Take a header from inside of an argument."""
        return f"{place['shelf']} {n}"

    @server.tool
    def routed(n: int, region: Annotated[str | None, McpHeader("Region")] = "eu") -> str:
        """Take a header."""
        return f"{n} {region}"

    return server


@pytest.fixture(autouse=True)
def tools(server: MCPServer) -> None:
    fill(server)


def text(result: Any) -> str:
    return ("error: " if result.get("isError") else "") + result["content"][0]["text"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"lines": '[{"sku": "a", "count": "2"}]'}, "[('a', 2)] '' False None"),
        ({"lines": [{"sku": "5"}], "note": "5", "gift": "true"}, "[('5', 1)] '5' True None"),
        ({"lines": [], "note": None, "gift": None, "limit": None}, "[] '' False None"),
        ({"lines": [{"sku": "a", "count": None}], "limit": "3"}, "[('a', 1)] '' False 3"),
    ],
)
async def test_arguments_that_nearly_fit_are_read(
    client: WireClient, arguments: Any, expected: str
):
    assert text(await client.call("order", arguments)) == expected


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({"lines": "[{}]", "gift": "true"}, "/lines/0/sku: is required"),
        ({"lines": [], "gift": "true", "limit": "many"}, "/limit: "),
        ({"lines": "[]", "gift": "true", "nope": 1}, "/nope: is unknown"),
    ],
)
async def test_errors_do_not_speak_of_what_was_read(client: WireClient, arguments: Any, wrong: str):
    result = text(await client.call("order", arguments))

    first, problem = result.splitlines()
    assert first == "error: Invalid arguments:"
    assert problem.startswith(f"- {wrong}")


async def test_unknown_members_are_refused_also_inside(client: WireClient):
    result = text(await client.call("order", {"lines": [{"sku": "a", "coutn": 2}], "nota": "x"}))

    assert "coutn" in result
    assert "nota" in result


async def test_a_model_that_says_so_ignores_unknown_members(client: WireClient):
    person = {"name": "Ann", "age": 3}

    assert text(await client.call("greet", {"person": person})) == "Ann"
    assert (
        text(await client.call("greet", {"person": person, "line": {"sku": "a", "b": 1}})) == "Ann"
    )


async def test_what_stands_beside_the_fields_of_a_model_stays_allowed(client: WireClient):
    assert text(await client.call("compose", {"whole": {"name": "a", "size": 1}})) == "a"


@pytest.mark.http_only("a pipe has no headers")
async def test_headers_say_what_a_call_runs_with(server: MCPServer):
    """A gateway judges a call by its headers, and reads no strings."""
    client = WireClient(server, V2026_07_28)

    async def send(arguments: Any, **headers: str) -> tuple[int, str]:
        params = {"name": "located", "arguments": arguments}
        status, body = await client.send("tools/call", params, **headers)
        return status, text(body["result"])

    hidden = {"place": '{"shelf": 7}'}
    assert (await send(hidden))[1].startswith("error: ")
    assert (await send({"place": {"shelf": "7e0"}}, mcp_param_shelf="7e0"))[1].startswith("error: ")
    assert await send({"place": {"shelf": 7}, "n": "1"}, mcp_param_shelf="7") == (200, "7 1")


@pytest.mark.http_only("a pipe has no headers")
async def test_null_for_an_argument_in_a_header_keeps_its_meaning(server: MCPServer):
    client = WireClient(server, V2026_07_28)

    exact = text(await client.call("routed", {"n": 5, "region": None}))

    assert exact == "5 None"
    assert text(await client.call("routed", {"n": "5", "region": None})) == exact


async def test_unknown_members_are_dropped_by_a_setting():
    client = WireClient(fill(MCPServer("dropping", unknown_arguments="drop")), V2026_07_28)

    result = await client.call("order", {"lines": [{"sku": "a", "coutn": 2}], "nota": "x"})

    assert text(result) == "[('a', 1)] '' False None"


async def test_nothing_is_read_otherwise_without_the_setting():
    client = WireClient(fill(MCPServer("strict", coerce_arguments=False)), V2026_07_28)

    assert text(await client.call("order", {"lines": "[]"})).startswith("error: ")


async def test_large_arguments_are_read_as_well(client: WireClient):
    many = "[" + ",".join(['{"sku": "a"}'] * 4000) + "]"

    assert text(await client.call("order", {"lines": many})).count("('a', 1)") == 4000


async def test_null_in_place_of_what_is_absent(client: WireClient):
    absent = text(await client.call("order"))

    assert text(await client.result("tools/call", {"name": "order", "arguments": None})) == absent
    assert (await client.result("tools/list", {"cursor": None}))["tools"]
