"""Defaults that a function can change: what one call leaves in them is not seen by the next."""

import threading
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel, Field

from django_mcp import MCPServer


@dataclass
class Basket:
    lines: list[str] = field(default_factory=list)


class Options(BaseModel):
    tags: list[str] = []


@pytest.fixture
def server() -> MCPServer:
    return MCPServer("defaults", public=True)


def make_list(names: list[str] = []) -> list[str]:  # noqa: B006 - it is what authors write
    names.append("seen")
    return list(names)


def make_dict(counts: dict[str, list[str]] = {"names": []}) -> list[str]:  # noqa: B006
    counts["names"].append("seen")
    return counts["names"]


def make_set(names: set[str] = set()) -> list[str]:  # noqa: B006
    names.add(f"seen {len(names)}")
    return [name.replace(" 0", "") for name in names]


def make_dataclass(basket: Basket = Basket()) -> list[str]:  # noqa: B008
    basket.lines.append("seen")
    return basket.lines


def make_model(options: Options = Options()) -> list[str]:  # noqa: B008
    options.tags.append("seen")
    return options.tags


def make_field(names: list[str] = Field([])) -> list[str]:  # noqa: B008
    names.append("seen")
    return names


@dataclass
class Guarded:
    lock: Any = field(default_factory=threading.Lock)


def make_guarded(guarded: Guarded = Guarded()) -> list[str]:  # noqa: B008
    with guarded.lock:
        return ["seen"]


@pytest.mark.parametrize(
    "function",
    [make_guarded, make_list, make_dict, make_set, make_dataclass, make_model, make_field],
)
def test_each_call_of_a_tool_has_a_default_of_its_own(server: MCPServer, function: Any) -> None:
    server.register_tool(function, name="note")
    for _ in range(2):
        assert server.call_tool("note").structured == ["seen"]


def test_each_call_of_an_async_tool_has_a_default_of_its_own(server: MCPServer) -> None:
    @server.tool
    async def note(names: list[str] = []) -> list[str]:  # noqa: B006
        names.append("seen")
        return names

    for _ in range(2):
        assert server.call_tool("note").structured == ["seen"]


def test_each_reading_of_a_template_has_a_default_of_its_own(server: MCPServer) -> None:
    @server.resource("note://all{?names*}")
    def note(names: list[str] = []) -> str:  # noqa: B006
        names.append("seen")
        return " ".join(names)

    for _ in range(2):
        assert server.read_resource("note://all").text == "seen"


def test_each_use_of_a_prompt_has_a_default_of_its_own(server: MCPServer) -> None:
    @server.prompt
    def note(names: list[str] = []) -> str:  # noqa: B006
        names.append("seen")
        return " ".join(names)

    for _ in range(2):
        assert server.get_prompt("note").text == "seen"


def test_a_check_gets_a_default_of_its_own(server: MCPServer) -> None:
    def is_first(user: Any, names: list[str]) -> bool:
        names.append("checked")
        return len(names) == 1

    @server.tool(check=is_first)
    def note(names: list[str] = []) -> list[str]:  # noqa: B006
        return names

    for _ in range(2):
        assert server.call_tool("note").structured == ["checked"]


def test_a_default_that_cannot_change_stays_the_same_object(server: MCPServer) -> None:
    nothing: Any = object()

    @server.tool
    def note(name: Any = nothing) -> bool:
        return name is nothing

    assert server.call_tool("note").structured is True
