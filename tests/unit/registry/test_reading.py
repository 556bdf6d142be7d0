"""Reading declared fields from objects of unrelated classes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NotRequired, Optional, Union

import pytest
from pydantic import BaseModel, field_validator
from typing_extensions import TypedDict

from django_mcp.registry.returns import ReturnError
from tests.support.registry import Lazy, Site

# Under names of their own, so that the older spellings are tested as well.
Either: Any = Union
Maybe: Any = Optional


class LineModel(BaseModel):
    sku: str


class OrderModel(BaseModel):
    number: str
    lines: list[LineModel] = []
    customer: "OrderModel | None" = None

    @field_validator("number", mode="before")
    @classmethod
    def to_text(cls, value: Any) -> Any:
        return str(value)


class PlainModel(BaseModel):
    number: str
    total: int = 0


@dataclass
class LineData:
    sku: str


@dataclass
class OrderData:
    number: str
    lines: list[LineData] = field(default_factory=list)
    customer: "OrderData | None" = None


class LineDict(TypedDict):
    sku: str


class OrderDict(TypedDict):
    number: str
    lines: NotRequired[list[LineDict]]


class ModernDict(TypedDict):
    number: str
    next: NotRequired["ModernDict"]


class Manager:
    """Stands for what a framework gives for related objects: no list, but with one."""

    def __init__(self, *items: Any) -> None:
        self.items = items

    def all(self) -> "Rows":
        return Rows(*self.items)


class Rows:
    """Stands for lazy rows: something to iterate, and no list."""

    def __init__(self, *items: Any) -> None:
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)


def line(sku: str) -> SimpleNamespace:
    return SimpleNamespace(sku=sku, secret="hidden")


def order(number: Any, **fields: Any) -> SimpleNamespace:
    return SimpleNamespace(number=number, secret="hidden", **fields)


def read(annotation: Any, value: Any) -> Any:
    site = Site()

    def handle():
        return value

    handle.__annotations__["return"] = annotation
    site.register_tool(handle)
    return site.call("handle").structured


@pytest.mark.parametrize("declared", [OrderModel, OrderData, OrderDict])
@pytest.mark.parametrize("lines", [[line("a")], Rows(line("a")), Manager(line("a")), (line("a"),)])
def test_only_declared_attributes_are_read(declared: Any, lines: Any):
    found = read(declared, order("7", lines=lines))

    found.pop("customer", None)
    assert found == {"number": "7", "lines": [{"sku": "a"}]}


@pytest.mark.parametrize("declared", [OrderModel, OrderData, OrderDict])
def test_a_list_of_objects_may_be_anything_iterable(declared: Any):
    found = read(list[declared], Rows(order("1", lines=[]), order("2", lines=[])))

    assert [each["number"] for each in found] == ["1", "2"]


@pytest.mark.parametrize("declared", [OrderModel, OrderData])
def test_declared_objects_may_be_nested(declared: Any):
    found = read(declared, order("1", lines=Rows(), customer=order("2", lines=[], customer=None)))

    assert found["customer"]["number"] == "2"


@pytest.mark.parametrize("declared", [OrderModel, OrderData, OrderDict])
def test_mappings_are_read_by_key(declared: Any):
    found = read(declared, {"number": "7", "lines": Rows(line("a"), {"sku": "b"})})

    assert found["lines"] == [{"sku": "a"}, {"sku": "b"}]


@pytest.mark.parametrize("declared", [OrderModel, OrderData, OrderDict, PlainModel])
def test_optional_fields_may_be_missing(declared: Any):
    assert read(declared, order("7"))["number"] == "7"


@pytest.mark.parametrize("declared", [OrderModel, OrderData, OrderDict, PlainModel])
def test_required_fields_may_not_be_missing(declared: Any):
    with pytest.raises(ReturnError, match="number is required"):
        read(declared, SimpleNamespace(secret=1))


@pytest.mark.parametrize("declared", [OrderData, OrderDict])
def test_lazy_texts_are_read(declared: Any):
    assert read(declared, order(Lazy(en="seven"), lines=[]))["number"] == "seven"


def test_validators_of_a_model_see_the_values():
    assert read(OrderModel, order(7, lines=Rows()))["number"] == "7"


def test_a_typed_dict_may_be_recursive():
    assert read(ModernDict, order("1", next=order("2"))) == {"number": "1", "next": {"number": "2"}}


@pytest.mark.parametrize(
    ("declared", "value", "expected"),
    [
        (Maybe[LineData], None, None),
        (Maybe[LineData], line("a"), {"sku": "a"}),
        (Either[LineData, int], line("a"), {"sku": "a"}),
        (Either[LineData, int], 5, 5),
        (dict[str, LineData], {"x": line("a")}, {"x": {"sku": "a"}}),
        (dict[str, list[LineDict]], {"x": Rows(line("a"))}, {"x": [{"sku": "a"}]}),
        (tuple[LineDict, ...], Rows(line("a")), [{"sku": "a"}]),
    ],
)
def test_declared_fields_are_found_inside_other_types(declared: Any, value: Any, expected: Any):
    assert read(declared, value) == expected


@pytest.mark.parametrize("declared", [list[LineData], LineData, dict[str, LineData]])
@pytest.mark.parametrize("value", ["text", 5, None])
def test_a_scalar_is_not_a_record(declared: Any, value: Any):
    with pytest.raises(ReturnError, match="did not return what it declares"):
        read(declared, value)
