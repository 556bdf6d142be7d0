"""Validators of Django in `Annotated`, and functions there that nobody would call."""

import datetime as dt
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

import annotated_types
import pytest
import typing_extensions
from django.core.exceptions import ValidationError
from django.core.validators import (
    DecimalValidator,
    EmailValidator,
    MaxLengthValidator,
    MaxValueValidator,
    MinLengthValidator,
    MinValueValidator,
    RegexValidator,
    StepValueValidator,
    URLValidator,
    validate_email,
    validate_slug,
    validate_unicode_slug,
)
from django.utils.deconstruct import deconstructible
from pydantic import AfterValidator, BaseModel, Field

from django_mcp.execution.values import DJANGO_CONVERTER
from django_mcp.registry.problems import ArgumentErrors, RegistrationError
from django_mcp.server.server import BaseServer
from tests.support.registry import Ctx, Site, bind
from tests.support.server.plain import MCPServer
from tests.support.wire import V2026_07_28, WireClient


class Even(MinValueValidator):
    """A subclass that compares in its own way."""

    message = "Must be even."

    def compare(self, a: Any, b: Any) -> bool:
        return bool(a % 2)


class DjangoServer(MCPServer):
    converter = DJANGO_CONVERTER


class Line(typing_extensions.TypedDict):
    sku: Annotated[str, RegexValidator(r"^[A-Z]+$")]
    quantity: Annotated[int, MinValueValidator(1)]


@dataclass
class Address:
    zip_code: Annotated[str, RegexValidator(r"^\d{5}\Z", message="Five digits.")]
    floor: Annotated[int | None, MaxValueValidator(9)] = None


class Item(BaseModel):
    name: Annotated[str, MaxLengthValidator(3)]
    price: Annotated[Decimal, MinValueValidator(Decimal("0.01"))] = Field(
        Decimal(1), description="In euros."
    )


Sku = Annotated[str, RegexValidator(r"^[A-Z]+$")]


def register(annotation: Any) -> Any:
    site = Site(DJANGO_CONVERTER)

    def tool(value: Any) -> None:
        """Take a value."""

    tool.__annotations__["value"] = annotation
    site.tool(tool)
    return site.registry.tools["tool"]


def problems_of(annotation: Any, value: Any) -> list[str]:
    """Return what is wrong with a value, by its schema or by the function that reads it."""
    entry = register(annotation)
    problems = entry.input_validator.problems({"value": value})
    if not problems:
        try:
            bind(entry.handler, {"value": value}, Ctx())
        except ArgumentErrors as error:
            problems = error.problems
    return [f"{problem.pointer} {problem.message}" for problem in problems]


@pytest.mark.parametrize(
    ("annotation", "good", "wrong"),
    [
        (Annotated[int, MinValueValidator(1)], 1, 0),
        (Annotated[int, MaxValueValidator(10)], 10, 11),
        (Annotated[int, MinValueValidator(lambda: 3)], 3, 2),
        (Annotated[int, Even(0)], 2, 3),
        (Annotated[int, StepValueValidator(5)], 10, 11),
        (Annotated[float | None, MinValueValidator(0.5)], None, 0.1),
        (Annotated[dt.date, MinValueValidator(dt.date(2020, 1, 1))], "2020-01-01", "2019-12-31"),
        (Annotated[Decimal, MinValueValidator(Decimal("0.01"))], "0.01", "0.001"),
        (Annotated[Decimal, DecimalValidator(4, 2)], "12.34", "12.345"),
        (Annotated[str, MinLengthValidator(3)], "abc", "ab"),
        (Annotated[str, MaxLengthValidator(3)], "abc", "abcd"),
        (Annotated[list[int], MinLengthValidator(1)], [1], []),
        (Sku, "ABC", "abc;;"),
        (Sku, "ABC", ""),
        (Annotated[str, RegexValidator(r"^A", inverse_match=True)], "bc", "Abc"),
        (Annotated[str, RegexValidator(r"^a+$", flags=re.IGNORECASE)], "AA", "b"),
        (Annotated[str, validate_slug], "a-b_1", "a b"),
        (Annotated[str, validate_unicode_slug], "grün", "grün!"),
        (Annotated[str, validate_email], "a@example.com", "a"),
        (Annotated[str, EmailValidator()], "a@example.com", "a@"),
        (Annotated[str, URLValidator(["https"])], "https://example.com/", "http://example.com/"),
        (list[Sku], ["A", "B"], ["A", "b"]),
        (dict[str, Sku], {"x": "A"}, {"x": "b"}),
        (tuple[int, Sku], [1, "A"], [1, "b"]),
        (Annotated[list[Annotated[int, MinValueValidator(1)]], MaxLengthValidator(2)], [1, 2], [0]),
        (Line, {"sku": "A", "quantity": 1}, {"sku": "A", "quantity": 0}),
        (list[Line], [{"sku": "A", "quantity": 1}], [{"sku": "a", "quantity": 1}]),
        (Address, {"zip_code": "12345"}, {"zip_code": "1234"}),
        (Address, {"zip_code": "12345", "floor": None}, {"zip_code": "12345", "floor": 10}),
        (Item, {"name": "abc"}, {"name": "abcd"}),
        (Item | None, {"name": "abc", "price": "0.01"}, {"name": "abc", "price": "0.001"}),
        (Annotated[int, MinValueValidator(1), Field(le=9), AfterValidator(abs)], 9, 0),
    ],
)
def test_validators_of_django_in_annotations_refuse_what_a_field_of_a_model_would(
    annotation: Any, good: Any, wrong: Any
):
    assert problems_of(annotation, good) == []
    told = problems_of(annotation, wrong)
    assert told
    assert told[0].startswith("/value")


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (
            Annotated[int, MinValueValidator(1), MaxValueValidator(10)],
            {"type": "integer", "minimum": 1, "maximum": 10},
        ),
        (
            Annotated[int, MinValueValidator(1), MinValueValidator(3)],
            {"type": "integer", "minimum": 3},
        ),
        (Annotated[int, Field(ge=5), MinValueValidator(3)], {"type": "integer", "minimum": 5}),
        (Annotated[int, MinValueValidator(lambda: 3)], {"type": "integer"}),
        (Annotated[int, Even(0)], {"type": "integer"}),
        (Annotated[float, MaxValueValidator(Decimal("0.5"))], {"type": "number", "maximum": 0.5}),
        (Annotated[str, MinLengthValidator(2)], {"type": "string", "minLength": 2}),
        (Annotated[str, MaxLengthValidator(5)], {"type": "string", "maxLength": 5}),
        (
            Annotated[list[str], MaxLengthValidator(5)],
            {"type": "array", "items": {"type": "string"}, "maxItems": 5},
        ),
        (Sku, {"type": "string", "pattern": "^[A-Z]+$"}),
        (Annotated[str, RegexValidator(r"\A\d+\Z")], {"type": "string", "pattern": r"^\d+$"}),
        (Annotated[str, validate_slug], {"type": "string", "pattern": "^[-a-zA-Z0-9_]+$"}),
        (Annotated[str, validate_unicode_slug], {"type": "string"}),
        (Annotated[str, RegexValidator("^a$", flags=re.IGNORECASE)], {"type": "string"}),
        (Annotated[str, RegexValidator("^a$", inverse_match=True)], {"type": "string"}),
        (list[Sku], {"type": "array", "items": {"type": "string", "pattern": "^[A-Z]+$"}}),
        (
            Line,
            {
                "type": "object",
                "properties": {
                    "sku": {"type": "string", "pattern": "^[A-Z]+$"},
                    "quantity": {"type": "integer", "minimum": 1},
                },
                "required": ["sku", "quantity"],
                "additionalProperties": False,
            },
        ),
    ],
)
def test_the_schema_says_what_it_can_of_validators(annotation: Any, schema: Any):
    assert register(annotation).input_schema["properties"]["value"] == schema


def test_the_message_of_a_validator_is_told_at_the_place_of_the_value():
    assert problems_of(list[Annotated[int, Even(0)]], [2, 3]) == ["/value/1 Must be even."]
    refusing = RegexValidator(r"^A", inverse_match=True, message="%(value)s starts with an A.")
    assert problems_of(Annotated[str, refusing], "Ab") == ['/value "Ab" starts with an A.']


def test_a_validator_of_which_the_schema_says_nothing_tells_what_is_wrong():
    annotation = Annotated[Decimal, DecimalValidator(3, 1)]

    assert "no more than 1 decimal place" in problems_of(annotation, "1.23")[0]


def test_a_number_with_which_a_validator_cannot_calculate_is_refused():
    annotation = Annotated[int, StepValueValidator(3)]

    assert "too large" in problems_of(annotation, 10**400)[0]


async def test_a_client_is_told_which_argument_a_validator_refuses():
    server: BaseServer = DjangoServer("tests")

    @server.tool
    def order(quantity: Annotated[int, Even(0)]) -> str:
        return f"{quantity}"

    client = WireClient(server, V2026_07_28)

    refused = await client.call("order", {"quantity": 3})
    assert refused["isError"] is True
    assert "quantity" in refused["content"][0]["text"]
    assert "Must be even." in refused["content"][0]["text"]
    assert (await client.call("order", {"quantity": 4}))["content"][0]["text"] == "4"


def test_the_arguments_of_prompts_and_templates_are_validated_too():
    site = Site(DJANGO_CONVERTER)

    @site.resource("line://{sku}/{number}")
    def line(sku: Sku, number: Annotated[int, MinValueValidator(1)]) -> str:
        return sku

    (entry,) = site.registry.templates.values()
    assert bind(entry.handler, {"sku": "A", "number": "1"}, Ctx()) == {"sku": "A", "number": 1}
    for wrong in ({"sku": "a", "number": "1"}, {"sku": "A", "number": "0"}):
        with pytest.raises(ArgumentErrors):
            bind(entry.handler, wrong, Ctx())


def even(value: int) -> None:
    """Validate as functions of Django do."""
    if value % 2:
        raise ValidationError("Must be even.")


@deconstructible
class OfSite:
    """A validator of the site's own, of a class that Django does not know."""

    def __call__(self, value: Any) -> None:
        raise ValidationError("No.")


@pytest.mark.parametrize(
    ("annotation", "told"),
    [
        (Annotated[int, even], "`even` in Annotated is never called.*AfterValidator"),
        (list[Annotated[int, even]], "`even` in Annotated is never called"),
        (Annotated[int, OfSite()], "`OfSite` in Annotated is never called"),
        (Annotated[int, lambda value: value], "is never called"),
        (
            Annotated[int, MinValueValidator],
            r"is a class, and does nothing. Write `MinValueValidator\(\.\.\.\)`",
        ),
        (Annotated[int, annotated_types.Ge], r"Write `Ge\(\.\.\.\)`"),
        (Annotated[int, AfterValidator], r"Write `AfterValidator\(\.\.\.\)`"),
        (Annotated[str, RegexValidator(r"^(?=a)a")], "cannot be matched in linear time"),
    ],
)
def test_what_nobody_would_call_in_an_annotation_is_refused_with_a_remedy(
    annotation: Any, told: str
):
    with pytest.raises(
        RegistrationError, match=f"the annotation of the parameter `value`: .*{told}"
    ):
        register(annotation)


def test_a_validator_inside_of_the_type_of_a_field_is_refused():
    class Deep(BaseModel):
        skus: list[Sku]

    with pytest.raises(RegistrationError, match=r"the field `skus` of Deep has a validator inside"):
        register(Deep)


class Marker:
    """What another library reads."""


@pytest.mark.parametrize(
    "metadata",
    [
        "A text.",
        Marker,
        Marker(),
        int,
        None,
        Field(ge=1),
        annotated_types.Ge(1),
        annotated_types.Predicate(lambda value: value > 0),
        AfterValidator(lambda value: value),
    ],
)
def test_other_metadata_stays_as_it_is(metadata: Any):
    assert problems_of(Annotated[int, metadata], 5) == []


def test_validators_of_a_result_are_not_run():
    site = Site(DJANGO_CONVERTER)

    @site.tool
    def line() -> Line:
        return {"sku": "a", "quantity": 0}

    assert site.call("line").structured == {"sku": "a", "quantity": 0}
