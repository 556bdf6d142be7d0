"""Prompts: strings to parameters, and return values to messages."""

import enum
import re
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from django_mcp.protocol.content import File, Image, Text
from django_mcp.protocol.results import PromptMessage, PromptResult
from django_mcp.registry.entries import PromptArgument
from django_mcp.registry.problems import ArgumentErrors, RegistrationError
from django_mcp.registry.returns import ReturnError
from tests.support.registry import Ctx, Lazy, Site, User, bind


class Tone(enum.Enum):
    WARM = "warm"
    COLD = "cold"


class Filter(BaseModel):
    limit: int


def fill(site: Site, name: str, arguments: dict[str, Any]) -> Any:
    """Call a prompt as a server does, and return what the handler returned."""
    handler = site.registry.prompts[name].handler
    return handler.function(**bind(handler, arguments, Ctx()))


def result(value: Any) -> PromptResult:
    entry = Site().register_prompt(lambda: value, name="handle")
    return entry.convert(entry.handler.function())


def messages(value: Any) -> list[PromptMessage]:
    return list(result(value).messages)


PICTURE = Image(b"png")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Hi", [PromptMessage("Hi")]),
        (Lazy(en="Hi"), [PromptMessage("Hi")]),
        (Text("Hi"), [PromptMessage(Text("Hi"))]),
        (PICTURE, [PromptMessage(PICTURE)]),
        (File(b"x", name="a.png"), [PromptMessage(Image(b"x"))]),
        (PromptMessage("Hi", role="assistant"), [PromptMessage("Hi", role="assistant")]),
        (["Hi", PICTURE], [PromptMessage("Hi"), PromptMessage(PICTURE)]),
        (
            [{"role": "assistant", "content": "Hi"}, {"a": 1}],
            [PromptMessage("Hi", role="assistant"), PromptMessage('{"a":1}')],
        ),
        ((word for word in ["a", "b"]), [PromptMessage("a"), PromptMessage("b")]),
        ({"a": 1}, [PromptMessage('{"a":1}')]),
        ([], []),
    ],
)
def test_every_return_type_becomes_messages(value: Any, expected: Any):
    assert messages(value) == expected


def test_bytes_become_an_embedded_resource():
    assert messages(b"x")[0].content == File(b"x").to_content()


def test_a_result_object_is_returned_unchanged():
    given = PromptResult([PromptMessage("Hi")], description="Greets.")

    assert result(given) is given


def test_a_result_has_the_description_of_its_prompt(site: Site):
    entry = site.register_prompt(lambda: "Hi", name="greet", description=Lazy(en="Greets."))

    assert entry.convert("Hi").to_wire()["description"] == "Greets."


@pytest.mark.parametrize(
    ("value", "message"), [(None, "returned None"), (object(), "cannot be represented")]
)
def test_an_invalid_message_is_rejected(value: Any, message: str):
    with pytest.raises(ReturnError, match=message):
        messages(value)


def test_parameters_are_listed_as_arguments(site: Site):
    @site.prompt(title="Apology", icons=["https://example.com/i.png"], meta={"a": 1})
    def apology(
        ctx: Ctx,
        user: User,
        order: Annotated[str, "Its number."],
        tone: Annotated[str, Field(title="Tone")] = "warm",
    ) -> str:
        """Apologise.

        Args:
            tone: How it sounds.
        """
        return f"{order} {tone} {user}"

    assert site.registry.prompts["apology"].to_wire() == {
        "name": "apology",
        "title": "Apology",
        "description": "Apologise.",
        "arguments": [
            {"name": "order", "description": "Its number.", "required": True},
            {"name": "tone", "title": "Tone", "description": "How it sounds."},
        ],
        "icons": [{"src": "https://example.com/i.png"}],
        "_meta": {"a": 1},
    }
    assert fill(site, "apology", {"order": "7"}) == "7 warm jane"


@pytest.mark.parametrize(
    ("annotation", "text", "expected"),
    [
        (str, "5", "5"),
        (int, "5", 5),
        (float, "1.5", 1.5),
        (bool, "true", True),
        (Decimal, "1.50", Decimal("1.50")),
        (date, "2030-01-02", date(2030, 1, 2)),
        (Tone, "warm", Tone.WARM),
        (Literal["a", 1], "1", 1),
        (int | None, "5", 5),
        (str | None, "5", "5"),
        (list[int], "[1, 2]", [1, 2]),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (Filter, '{"limit": 1}', Filter(limit=1)),
        (list[int] | None, "[1]", [1]),
        (Any, "[1]", "[1]"),
    ],
)
def test_strings_are_converted_by_type_hints(site: Site, annotation: Any, text: str, expected: Any):
    def handle(value):
        return value

    handle.__annotations__["value"] = annotation
    site.register_prompt(handle)

    assert fill(site, "handle", {"value": text}) == expected


@pytest.mark.parametrize(
    ("arguments", "problems"),
    [
        ({}, [("/order", "is required")]),
        ({"order": "7", "x": "1"}, [("/x", "is unknown")]),
        ({"order": 7}, [("/order", "must be a string, not 7")]),
        ({"order": None}, [("/order", "must be a string, not null")]),
        ({"order": "7", "limit": {}}, [("/limit", "must be a string, not an object")]),
    ],
)
def test_invalid_arguments_are_reported(site: Site, arguments: Any, problems: Any):
    @site.prompt
    def apology(order: str, limit: int = 1) -> str:
        return order

    with pytest.raises(ArgumentErrors) as errors:
        fill(site, "apology", arguments)

    assert [(each.pointer, each.message) for each in errors.value.problems] == problems


@pytest.mark.parametrize("text", ["[1", "1", '{"limit": "x"}', "NaN"])
def test_invalid_json_arguments_are_reported(site: Site, text: str):
    @site.prompt
    def search(terms: Filter) -> str:
        return ""

    with pytest.raises(ArgumentErrors) as errors:
        fill(site, "search", {"terms": text})

    assert errors.value.problems[0].pointer == "/terms"


@pytest.mark.parametrize("text", ["3", "1, 2", "none", "", '{"a": 1}'])
def test_the_error_shows_how_a_list_is_typed(site: Site, text: str):
    @site.prompt
    def add(n: list[int], m: list[str] | None = None) -> str:
        return f"{n} {m}"

    told = 'must be a list in JSON, such as [1, 2] or ["a", "b"]'
    for given in ({"n": text}, {"n": "[1]", "m": text}):
        with pytest.raises(ArgumentErrors, match=re.escape(told)):
            fill(site, "add", given)
    assert fill(site, "add", {"n": " [1]", "m": "null"}) == "[1] None"


def test_arguments_may_be_declared_explicitly(site: Site):
    entry = site.register_prompt(
        raw,
        name="raw",
        arguments=[
            PromptArgument(name="order-id", required=True, description=Lazy(en="Number.")),
            PromptArgument(name="tone", title="Tone"),
        ],
    )

    assert entry.to_wire()["arguments"] == [
        {"name": "order-id", "description": "Number.", "required": True},
        {"name": "tone", "title": "Tone"},
    ]
    assert fill(site, "raw", {"order-id": "7"}) == ({"order-id": "7"}, "jane")
    for wrong in ({}, {"order-id": 7}, {"order-id": "7", "x": "1"}):
        with pytest.raises(ArgumentErrors):
            fill(site, "raw", wrong)


def raw(given: dict[str, str], ctx: Ctx) -> Any:
    return given, ctx.user


def test_declared_arguments_are_passed_as_a_dict(site: Site):
    with pytest.raises(RegistrationError, match="Take one parameter"):
        site.register_prompt(lambda a, b: "", name="x", arguments=[PromptArgument(name="a")])
    with pytest.raises(RegistrationError, match="takes a list of PromptArgument"):
        site.register_prompt(lambda a: "", name="x", arguments=["a"])  # type: ignore[list-item]


def test_a_prompt_may_have_no_arguments(site: Site):
    site.register_prompt(lambda: "Hi", name="hi")
    site.register_prompt(lambda: "Hi", name="raw", arguments=[])

    assert "arguments" not in site.registry.prompts["hi"].to_wire()
    assert fill(site, "hi", {}) == "Hi"
    assert fill(site, "raw", {}) == "Hi"


@pytest.mark.parametrize(
    "value",
    [
        ("user", "Hi"),
        ["assistant", "Hi"],
        [("user", "Hi"), ("assistant", "Hello")],
        [PromptMessage(Text("Hi")), ("assistant", "Hello")],
        {"role": "assistant", "text": "Hi"},
        [{"role": "user", "content": "Hi", "name": "a"}],
    ],
)
def test_a_role_that_would_become_a_text_is_rejected(value: Any):
    with pytest.raises(ReturnError, match=r"return PromptMessage\(text, role='(user|assistant)'\)"):
        result(value)


@pytest.mark.parametrize(
    "value", [("Hi", "Hello"), ["user", "Hi", "Hello"], {"role": "cook"}, {"role": "user", "content": "Hi"}]
)  # fmt: skip
def test_texts_that_are_no_roles_are_messages(value: Any):
    assert result(value).messages
