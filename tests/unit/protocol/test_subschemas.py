"""Values and schemas as objects: a value valid in the newest revision is valid in older ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, TypeAdapter

from django_mcp.protocol.subschemas import describes_objects, to_object, to_object_schema


class Node(BaseModel):
    name: str
    children: list[Node] = []


class Leaf(BaseModel):
    weight: float


@dataclass
class Order:
    number: str


def schema_of(annotation: Any) -> dict[str, Any]:
    return TypeAdapter(annotation).json_schema(mode="serialization")


@pytest.mark.parametrize(
    ("annotation", "value", "is_wrapped"),
    [
        (int, 3, True),
        (list[str], ["red"], True),
        (list[Node], [{"name": "a", "children": [{"name": "b", "children": []}]}], True),
        (Order, {"number": "1"}, False),
        (Order | None, None, True),
        (Order | None, {"number": "1"}, True),
        (Node, {"name": "a", "children": [{"name": "b", "children": []}]}, False),
        (Node | Leaf, {"weight": 2.0}, False),
        (dict[str, int], {"a": 1}, False),
    ],
)
def test_a_value_fits_the_schema_in_both_forms(annotation: Any, value: Any, is_wrapped: bool):
    schema = schema_of(annotation)
    older = to_object_schema(schema)

    assert older["type"] == "object"
    assert to_object(value, schema) == ({"result": value} if is_wrapped else value)
    Draft202012Validator.check_schema(older)
    Draft202012Validator(schema).validate(value)
    Draft202012Validator(older).validate(to_object(value, schema))
    assert not Draft202012Validator(older).is_valid(to_object([[]], schema))


RECURSIVE = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "array",
    "items": {"anyOf": [{"$ref": "#"}, {"type": "integer"}, {"$ref": "#/$defs/named"}]},
    "$defs": {"named": {"const": {"$ref": "#"}}},
}


def test_references_resolve_to_the_same_schemas():
    older = to_object_schema(RECURSIVE)

    assert older["$schema"] == RECURSIVE["$schema"]
    assert older["$defs"] == RECURSIVE["$defs"]
    validator = Draft202012Validator(older)
    assert validator.is_valid({"result": [1, [2, [3]], {"$ref": "#"}]})
    assert not validator.is_valid({"result": [1, ["x"]]})


@pytest.mark.parametrize(
    "schema",
    [{}, {"$ref": "#"}, {"$ref": "#/$defs/x"}, {"anyOf": []}, {"type": ["object", "null"]}],
)
def test_a_schema_without_an_object_type_is_not_an_object_schema(schema: dict[str, Any]):
    assert not describes_objects(schema)
    assert to_object_schema(schema)["required"] == ["result"]


def test_without_a_schema_an_object_stays_as_it_is():
    assert to_object({"a": 1}, None) == {"a": 1}


@pytest.mark.parametrize("schema", [None, {"type": "object"}])
@pytest.mark.parametrize("value", [[1], "x", 5, None, True])
def test_a_value_that_is_no_object_is_always_wrapped(value: Any, schema: dict[str, Any] | None):
    assert to_object(value, schema) == {"result": value}
