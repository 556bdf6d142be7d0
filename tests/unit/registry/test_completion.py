"""Completion: of one argument, from the choices of a type, and by a catch-all handler."""

import enum
import re
from datetime import date
from decimal import Decimal
from typing import Any, Literal

import pytest
from oauth2_provider.models import DeviceGrant

from django_mcp.protocol.results import Completion
from django_mcp.registry.problems import RegistrationError
from django_mcp.registry.returns import ReturnError
from django_mcp.server.memory import PlainConverter
from example_project.shop import models as shop
from tests.support.registry import Ctx, Site, User, bind


class Tone(enum.Enum):
    WARM = "warm"
    WEARY = "weary"
    COLD = "cold"


def propose_nothing() -> list[str]:
    return []


async def complete(site: Site, target: str, argument: str, value: str = "", **others: str) -> Any:
    """Complete an argument as a server does; None when nothing completes it."""
    entry = site.registry.prompts.get(target) or site.registry.templates[target]
    handler = site.registry.completer(entry, argument)
    if handler is None:
        return None
    given = {"ref": {"name": target}, "argument": argument, "value": value, "arguments": others}
    found = handler.function(**bind(handler, given, Ctx()))
    return handler.convert(await found if handler.is_async else found)


@pytest.fixture
def prompts(site: Site) -> Site:
    @site.prompt
    def apology(order: str, tone: str = "warm") -> str:
        return ""

    @site.resource("order://{pk}{?part}")
    def order(pk: int, part: str = "") -> str:
        return ""

    site.apology, site.order = apology, order  # type: ignore[attr-defined]
    return site


@pytest.mark.parametrize("target", ["apology", "order://{pk}{?part}"])
async def test_a_completer_is_found_by_name_or_template(prompts: Site, target: str):
    argument = "order" if target == "apology" else "pk"

    @prompts.completion(target, argument)
    def numbers(value: str) -> list[str]:
        return [value + "1", value + "2"]

    assert (await complete(prompts, target, argument, "4")).values == ("41", "42")
    assert numbers("4") == ["41", "42"]


@pytest.mark.parametrize(("function", "argument"), [("apology", "order"), ("order", "pk")])
async def test_a_completer_is_found_by_function(prompts: Site, function: str, argument: str):
    prompts.completion(getattr(prompts, function), argument)(lambda value: ["x"])

    target = "apology" if function == "apology" else "order://{pk}{?part}"
    assert (await complete(prompts, target, argument)).values == ("x",)


async def test_a_completer_gets_the_other_arguments_and_the_user(prompts: Site):
    @prompts.completion("apology", "tone")
    async def tones(arguments: dict[str, str], user: User, value: str) -> list[str]:
        return [user, value, arguments["order"]]

    found = await complete(prompts, "apology", "tone", "w", order="7")

    assert found.values == ("jane", "w", "7")


async def test_a_completer_may_take_no_parameters(prompts: Site):
    prompts.completion("apology", "tone")(lambda: ["warm"])

    assert (await complete(prompts, "apology", "tone")).values == ("warm",)


async def test_a_literal_or_an_enum_has_automatic_completion(site: Site):
    @site.prompt
    def write(
        tone: Tone, size: Literal["small", 2] = 2, loud: bool | None = None, to: str = ""
    ) -> str:
        return ""

    @site.resource("write://{tone}")
    def written(tone: Tone) -> str:
        return ""

    assert (await complete(site, "write", "tone", "we")).values == ("weary",)
    assert (await complete(site, "write", "size", "")).values == ("small", "2")
    assert (await complete(site, "write", "loud", "T")).values == ("true",)
    assert await complete(site, "write", "to") is None
    assert (await complete(site, "write://{tone}", "tone", "w")).values == ("warm", "weary")


async def test_a_completer_precedes_choices_which_precede_the_handler(site: Site):
    @site.prompt
    def write(tone: Tone, size: Literal["small"], to: str) -> str:
        return ""

    site.completion(write, "tone")(lambda: ["mine"])
    site.set_completion_handler(lambda ref, argument, value, arguments: [ref["name"], argument])

    assert (await complete(site, "write", "tone")).values == ("mine",)
    assert (await complete(site, "write", "size")).values == ("small",)
    assert (await complete(site, "write", "to")).values == ("write", "to")


async def test_the_catch_all_completion_handler_can_be_removed(prompts: Site):
    prompts.set_completion_handler(propose_nothing)

    assert (await complete(prompts, "apology", "tone")).values == ()

    prompts.set_completion_handler(None)

    assert not prompts.registry.has_completers
    assert await complete(prompts, "apology", "tone") is None


def converted(value: Any, converter: Any = None) -> Completion:
    site = Site(converter)
    site.register_prompt(lambda a: "", name="p")
    site.completion("p", "a")(lambda: value)
    handler = site.registry.completer(site.registry.prompts["p"], "a")
    assert handler is not None
    return handler.convert(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["a"], Completion(["a"], total=1, has_more=False)),
        ((), Completion([], total=0, has_more=False)),
        (None, Completion([])),
        ([1, Tone.WARM], Completion(["1", "warm"], total=2, has_more=False)),
        ({"a": 1}.keys(), Completion(["a"], total=1, has_more=False)),
        (Completion(["a"], total=9), Completion(["a"], total=9)),
    ],
)
def test_every_return_type_becomes_completions(value: Any, expected: Completion):
    assert converted(value) == expected


@pytest.mark.parametrize("value", [[("a",)], [["a"]], [{"name": "a"}]])
def test_a_row_is_no_completion(value: Any):
    with pytest.raises(ReturnError, match=r"values_list\('name', flat=True\)"):
        converted(value)


def test_at_most_a_hundred_values_are_completed():
    found = converted([str(number) for number in range(150)])

    assert len(found.values) == 100
    assert (found.total, found.has_more) == (150, True)


def test_lazy_completions_are_consumed_only_as_needed():
    read = []

    def proposals():
        for number in range(10_000):
            read.append(number)
            yield str(number)

    found = converted(proposals())

    assert (len(found.values), found.total, found.has_more) == (100, None, True)
    assert len(read) == 101


@pytest.mark.parametrize("value", ["abc", 5, object()])
def test_a_completer_result_that_is_no_list_is_rejected(value: Any):
    with pytest.raises(ReturnError, match="return a list of strings"):
        converted(value)


def test_framework_objects_are_converted():
    class Converter(PlainConverter):
        def convert(self, value: Any) -> Any:
            return ["a"] if value == 5 else value

    assert converted(5, Converter()).values == ("a",)


@pytest.mark.parametrize("target", ["nobody", "x://{isbn}", lambda: None])
def test_a_target_must_be_registered_first(prompts: Site, target: Any):
    with pytest.raises(RegistrationError, match="Register the prompt or template first"):
        prompts.completion(target, "order")(lambda value: [])


def test_a_target_that_is_like_a_registered_one_is_suggested(prompts: Site):
    prompts.register_resource("order://{pk}", lambda pk: pk, name="order")
    for target, meant in (("apologies", "apology"), ("orders://{pk}", "order://{pk}")):
        with pytest.raises(RegistrationError, match=re.escape(f"Did you mean {meant!r}?")):
            prompts.completion(target, "order")(lambda value: [])


def test_the_argument_must_belong_to_the_target(prompts: Site):
    with pytest.raises(RegistrationError, match=r"has no argument 'x'\. It has order, tone"):
        prompts.completion("apology", "x")(lambda value: [])


def test_a_completer_with_unknown_parameters_is_rejected(prompts: Site):
    with pytest.raises(RegistrationError, match=r"does not receive `prefix`\. It may take `value`"):
        prompts.completion("apology", "tone")(lambda prefix: [])


def test_two_completers_for_one_argument_are_refused_naming_both(prompts: Site):
    def first() -> list[str]:
        return []

    def second() -> list[str]:
        return []

    prompts.completion("apology", "tone")(first)

    with pytest.raises(RegistrationError, match=r"second \(.*is completed by .*first \("):
        prompts.completion("apology", "tone")(second)


def test_a_function_registered_twice_is_no_clear_target(site: Site):
    def apology(order: str) -> str:
        return ""

    site.register_prompt(apology)
    site.register_prompt(apology, name="other")

    with pytest.raises(RegistrationError, match="several of them"):
        site.completion(apology, "order")(propose_nothing)


def test_completers_are_removed_with_their_target(prompts: Site):
    prompts.completion("apology", "tone")(propose_nothing)
    prompts.completion("order://{pk}{?part}", "pk")(propose_nothing)

    assert prompts.remove_prompt("apology")
    assert prompts.remove_resource("order://{pk}{?part}")
    assert not prompts.registry.has_completers


class Silent:
    """An object without a text."""


class Named:
    def __str__(self) -> str:
        return "a"


@pytest.mark.parametrize("choice", [Silent(), b"a", DeviceGrant(pk=1), {"a"}])
def test_an_object_without_a_text_of_its_own_is_no_completion(choice: Any):
    with pytest.raises(ReturnError, match=r"values_list\('name', flat=True\)"):
        converted([choice])


@pytest.mark.parametrize(
    ("choice", "expected"),
    [(Named(), "a"), (1, "1"), (True, "True"), (1.5, "1.5"), (Decimal("1.50"), "1.50"), (date(2026, 1, 2), "2026-01-02"), (shop.Product(name="Tea"), "Tea"), (Tone.WARM, "warm")],
)  # fmt: skip
def test_an_object_with_a_text_is_a_completion(choice: Any, expected: str):
    assert converted([choice]).values == (expected,)
