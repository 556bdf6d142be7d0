"""Several questions at once, typed answers, and the message for an invalid answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from typing_extensions import TypedDict

from django_mcp.protocol.asks import InputRequired, ask_form, ask_roots, ask_sampling, ask_url
from django_mcp.server.handlers.context import Context
from tests.support.server.plain import MCPServer
from tests.support.wire import V2026_07_28, WireClient

META: dict[str, Any] = {
    "io.modelcontextprotocol/clientCapabilities": {
        "elicitation": {"form": {}, "url": {}},
        "sampling": {},
        "roots": {},
    }
}


@dataclass
class Guest:
    name: str
    age: int


class Round(TypedDict):
    number: int


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("tests")

    @server.tool
    def welcome(ctx: Context) -> str:
        """Ask for everything at once."""
        answers = ctx.ask(
            {
                "guest": ask_form("Who comes?", Guest),
                "roots": ask_roots(),
                "poem": ask_sampling([], max_tokens=5),
                "page": ask_url("Sign", "https://sign.example/1"),
            }
        )
        guest = answers["guest"].data
        return f"{guest} {answers['roots']} {answers['poem'].role} {answers['page'].action}"

    @server.tool
    async def awelcome(ctx: Context) -> str:
        """Ask for two things at once."""
        answers = await ctx.aask({"guest": ask_form("Who?", Guest), "roots": ask_roots()})
        return str(answers["guest"].data)

    @server.tool
    def steer(ctx: Context) -> Any:
        """Steer the rounds."""
        if not ctx.has_input_response("guest"):
            assert ctx.request_state_as(Round) is None
            asks = {"guest": ask_form("Who?", Guest), "roots": ask_roots()}
            return InputRequired(asks, state={"number": 1})
        state = ctx.request_state_as(Round)
        roots = ctx.input_response_as(dict, "roots")
        return f"{ctx.input_response_as(Guest, 'guest')} {roots} {state}"

    return server


async def ask(server: MCPServer, name: str = "welcome", **more: Any) -> dict[str, Any]:
    return await WireClient(server, V2026_07_28).result(
        "tools/call", {"name": name, "_meta": META, **more}
    )


async def again(
    server: MCPServer, interim: dict[str, Any], name: str = "welcome", /, **answers: Any
) -> dict[str, Any]:
    return await ask(server, name, requestState=interim["requestState"], inputResponses=answers)


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


async def test_several_questions_are_asked_at_once_and_only_missing_ones_again(server: MCPServer):
    first = await ask(server)
    assert set(first["inputRequests"]) == {"guest", "roots", "poem", "page"}
    fields = first["inputRequests"]["guest"]["params"]["requestedSchema"]["properties"]
    assert fields == {"name": {"type": "string"}, "age": {"type": "integer"}}

    second = await again(
        server, first, guest=accept(name="Ada", age="old"), roots={"roots": []}, poem={"role": "x"}
    )
    assert set(second["inputRequests"]) == {"guest", "poem", "page"}

    poem = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}
    last = await again(
        server, second, guest=accept(name="Ada", age=36), poem=poem, page={"action": "decline"}
    )
    text = last["content"][0]["text"]
    assert text == "Guest(name='Ada', age=36) [] assistant decline"


async def test_a_repeated_question_explains_what_was_invalid(server: MCPServer):
    first = await ask(server)
    for content, message in (
        ({"name": "Ada", "age": "old"}, "Who comes?\n\n- age: must be an integer"),
        ({"name": "Ada"}, "Who comes?\n\n- age: is required"),
        ({}, "Who comes?\n\n- age: is required\n- name: is required"),
    ):
        second = await again(server, first, guest=accept(**content))
        told = second["inputRequests"]["guest"]["params"]["message"]
        assert told.startswith(message), told
        # The reason is not carried along: the next mistake has its own.
        third = await again(server, second)
        assert third["inputRequests"]["guest"]["params"]["message"] == told


async def test_async_handlers_can_ask_several_questions(server: MCPServer):
    first = await ask(server, "awelcome")

    last = await again(
        server, first, "awelcome", guest=accept(name="Ada", age=1), roots={"roots": []}
    )

    assert last["content"][0]["text"] == "Guest(name='Ada', age=1)"


async def test_answers_and_state_are_typed(server: MCPServer):
    first = await ask(server, "steer")
    assert first["inputRequests"]["guest"]["params"]["requestedSchema"]["required"] == [
        "name",
        "age",
    ]

    last = await again(server, first, "steer", guest=accept(name="Ada", age=1), roots={"roots": []})

    assert last["content"][0]["text"] == "Guest(name='Ada', age=1) {'roots': []} {'number': 1}"


async def test_a_declined_answer_has_no_instance_and_an_invalid_one_is_an_error(server: MCPServer):
    first = await ask(server, "steer")

    declined = await again(server, first, "steer", guest={"action": "decline"})
    wrong = await again(server, first, "steer", guest=accept(name="Ada"))

    assert declined["content"][0]["text"] == "None None {'number': 1}"
    assert wrong["isError"] is True
    assert "/age" in wrong["content"][0]["text"]
