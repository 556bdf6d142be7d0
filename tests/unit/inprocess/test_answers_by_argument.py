"""Tools that ask, called by clients that cannot: the error says what to ask for, an argument has the answers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

import pytest
from django import forms
from django.contrib.auth.models import Group

from django_mcp import Context, MCPServer
from django_mcp.inprocess import MCPError
from django_mcp.registry.problems import RegistrationError
from django_mcp.test import MCPClient

pytestmark = pytest.mark.django_db

_numbers = count()


@dataclass
class Wrapping:
    paper: Literal["plain", "stars"]
    sheets: int
    card: str = ""


class Parcel(forms.Form):
    weight_kg = forms.DecimalField(min_value=0, max_value=30)


AGREEMENT = {"type": "object", "properties": {}}


@pytest.fixture
def server() -> MCPServer:
    made = MCPServer(f"asking-{next(_numbers)}", public=True)

    @made.tool(ask_by_argument=True, atomic=True)
    def wrap(ctx: Context, order: str) -> str:
        Group.objects.create(name=f"wrapped {order}")
        answer = ctx.elicit("How shall we wrap it?", Wrapping)
        return f"{order}: {answer.data.paper}, {answer.data.sheets}, {answer.data.card!r}"

    @made.tool(ask_by_argument=True)
    def send(ctx: Context) -> str:
        weight = ctx.elicit("How heavy is it?", Parcel).data.cleaned_data["weight_kg"]
        agreed = ctx.elicit("Send it now?", AGREEMENT, key="now").is_accepted
        return f"{weight} {agreed}"

    @made.tool(ask_by_argument=True)
    async def awrap(ctx: Context) -> str:
        return str((await ctx.aelicit("How shall we wrap it?", Wrapping)).data.paper)

    @made.tool(ask_by_argument=True, atomic=True)
    def maybe(ctx: Context, asks: bool) -> str:
        Group.objects.create(name="made")
        return ctx.elicit("Sure?", AGREEMENT).action if asks else "not asked"

    @made.tool(ask_by_argument=True, validate_input=False)
    def unchecked(ctx: Context) -> str:
        return str(ctx.elicit("How shall we wrap it?", Wrapping).data.paper)

    @made.tool
    def ask_only(ctx: Context) -> str:
        return str(ctx.elicit("How shall we wrap it?", Wrapping).data.paper)

    return made


@pytest.fixture
def client(server: MCPServer) -> MCPClient:
    return MCPClient(server, capabilities={})


def refused(result: Any) -> str:
    assert result.is_error
    assert not Group.objects.exists()
    return str(result.text)


def test_the_error_says_what_to_ask_for_and_how_the_call_goes_on(client: MCPClient):
    told = refused(client.call("wrap", order="A-1"))

    assert "How shall we wrap it?" in told
    assert "paper (one of plain, stars), sheets (integer), card (string, optional)" in told
    assert '{"paper":"...","sheets":"...","card":"..."}' in told


def test_the_same_call_with_the_answers_goes_on(client: MCPClient):
    done = client.call("wrap", order="A-1", answers={"paper": "stars", "sheets": 2})

    assert done.text == "A-1: stars, 2, ''"
    assert Group.objects.get().name == "wrapped A-1"
    assert client.call("awrap", answers={"paper": "plain", "sheets": 1}).text == "plain"


def test_answers_to_several_questions_have_their_keys(client: MCPClient):
    told = refused(client.call("send", answers={"weight_kg": 3}))
    assert "Send it now?" in told
    assert '{"weight_kg":3,"now":{}}' in told

    assert client.call("send", answers={"weight_kg": 3, "now": {}}).text == "3 True"
    by_key = {"question-1": {"weight_kg": 3}, "now": {}}
    assert client.call("send", answers=by_key).text == "3 True"


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ({"paper": "gold", "sheets": 1}, "/answers/paper"),
        ({"paper": "plain"}, "/answers"),
        ({"paper": "plain", "sheets": 1, "colour": "red"}, "/answers/colour: is no field"),
        ({"question-1": {"paper": "plain", "sheets": "many"}}, "/answers/question-1/sheets"),
        ({"question-1": "plain"}, "/answers/question-1: must be an object"),
        ({"question-1": {"paper": "plain", "colour": "red"}}, "/answers/question-1/colour"),
        ({"question-2": {"paper": "plain"}}, "How shall we wrap it?"),
        (
            {"paper": "plain", "sheets": 1, "question-2": {}},
            "/answers/question-2: answers no question",
        ),
        ({}, "How shall we wrap it?"),
        ("plain", "/answers"),
        (None, "/answers"),
    ],
)
def test_wrong_answers_do_nothing(client: MCPClient, answers: Any, told: str):
    assert told in refused(client.call("wrap", order="A-1", answers=answers))


@pytest.mark.parametrize("answers", ["plain", None, [], 1])
def test_answers_are_an_object_also_without_a_schema(client: MCPClient, answers: Any):
    assert "/answers: must be an object" in refused(client.call("unchecked", answers=answers))


def test_a_form_of_django_judges_answers(client: MCPClient):
    assert "/answers/weight_kg" in refused(client.call("send", answers={"weight_kg": 99}))


def test_answers_to_what_is_not_asked_do_nothing(client: MCPClient):
    told = refused(client.call("maybe", asks=False, answers={"sure": True}))
    assert "/answers/sure: answers no question" in told
    assert client.call("maybe", asks=False).text == "not asked"


def test_an_agreement_is_not_taken_from_other_answers(client: MCPClient):
    for answers in ({}, {"sure": True}):
        assert client.call("maybe", asks=True, answers=answers).is_error
    assert client.call("maybe", asks=True, answers={"question-1": {}}).text == "accept"


def test_other_tools_only_name_the_fields(client: MCPClient):
    with pytest.raises(MCPError, match=r"paper \(one of plain, stars\)") as caught:
        client.call("ask_only")
    assert "answers" not in str(caught.value)
    (schema,) = (each for each in client.list_tools() if each["name"] == "ask_only")
    assert "answers" not in str(schema["inputSchema"])


def test_a_client_that_can_ask_is_asked(server: MCPServer):
    client = MCPClient(server)
    client.answer({"paper": "plain", "sheets": 1})
    assert client.call("wrap", order="A-1").text == "A-1: plain, 1, ''"


def test_an_argument_of_that_name_is_a_mistake(server: MCPServer):
    with pytest.raises(RegistrationError, match="adds an argument 'answers'"):

        @server.tool(ask_by_argument=True)
        def quiz(answers: list[str]) -> str:
            return ""
