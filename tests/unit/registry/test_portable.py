"""Published schemas are in the part of JSON Schema that clients accept, and admit the same values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import UUID

import pytest
from django.utils import translation
from django.utils.translation import gettext_lazy
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.protocol.json import is_lazy
from django_mcp.registry.portable import make_portable
from django_mcp.registry.problems import ArgumentErrors
from django_mcp.registry.validators import Validator
from tests.support.client_schemas import violations
from tests.support.registry import Site
from tests.unit.registry.test_agreement import SCHEMAS, values

STRINGS = {"type": "string"}
NUMBERS = {"type": "number"}


@pytest.mark.parametrize(
    ("schema", "published"),
    [
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": "array", "items": True}, {"type": "array", "items": {}}),
        ({"type": "array", "items": False}, {"type": "array", "items": {}, "maxItems": 0}),
        (
            {"type": "array", "prefixItems": [STRINGS, NUMBERS, STRINGS], "maxItems": 3},
            {
                "type": "array",
                "prefixItems": [STRINGS, NUMBERS, STRINGS],
                "items": {"anyOf": [STRINGS, NUMBERS]},
                "maxItems": 3,
            },
        ),
        (
            {"type": "array", "prefixItems": [STRINGS], "items": False},
            {"type": "array", "prefixItems": [STRINGS], "items": STRINGS, "maxItems": 1},
        ),
        (
            {"type": "array", "prefixItems": [STRINGS]},
            {"type": "array", "prefixItems": [STRINGS], "items": {}},
        ),
        ({"type": ["string"]}, STRINGS),
        (
            {"type": ["string", "integer", "null"], "maxLength": 3, "minimum": 1, "title": "T"},
            {
                "anyOf": [
                    {"type": "string", "maxLength": 3},
                    {"type": "integer", "minimum": 1},
                    {"type": "null"},
                ],
                "title": "T",
            },
        ),
        (
            {"type": ["string", "null"], "enum": ["a", 1, None]},
            {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]},
        ),
        ({"type": ["string", "null"], "enum": ["a"]}, {"type": "string", "enum": ["a"]}),
        ({"type": ["string", "integer"], "const": 1}, {"type": "integer", "const": 1}),
        ({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
        ({"type": ["integer", "number"]}, NUMBERS),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        (
            {"type": "string", "format": "email", "description": "Whom to tell"},
            {"type": "string", "description": "Whom to tell. Format: email."},
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/a~1b", "description": "Mine."}},
                "$defs": {"a/b": {**STRINGS, "description": "A text."}, "unused": NUMBERS},
            },
            {"type": "object", "properties": {"a": {**STRINGS, "description": "Mine."}}},
        ),
        (
            {"$ref": "#/$defs/a", "minLength": 1, "$defs": {"a": {**STRINGS, "minLength": 2}}},
            {"minLength": 1, "allOf": [{**STRINGS, "minLength": 2}]},
        ),
    ],
)
def test_a_schema_is_published_as_clients_accept_it(schema: Any, published: Any):
    assert make_portable(schema) == published
    assert violations(published) == []


SHARED = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"$ref": "#/$defs/x", "description": "B."}},
    "$defs": {"x": {"type": "object", "properties": {"in": {"$ref": "#/$defs/y"}}}, "y": STRINGS},
}


def test_a_shared_definition_stays_and_what_is_in_it_moves():
    published = make_portable(SHARED)

    assert published["$defs"] == {"x": {"type": "object", "properties": {"in": STRINGS}}}
    assert published["properties"]["a"] == {"$ref": "#/$defs/x"}
    assert published["properties"]["b"] == {"anyOf": [{"$ref": "#/$defs/x"}], "description": "B."}


TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {"type": "array", "items": {"$ref": "#/$defs/inner"}},
        "inner": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": ["string", "null"]}]},
    },
}


def test_a_recursive_definition_stays():
    published = make_portable(TREE)

    assert list(published["$defs"]) == ["node"]
    assert violations(published) == []


@pytest.mark.parametrize(
    "schema",
    [
        {
            "properties": {
                "a": {"type": ["object", "null"], "properties": {"b": STRINGS}},
                "b": {"$ref": "#/properties/a/properties/b"},
            }
        },
        {"$id": "https://example.com/a", "$ref": "#/$defs/x", "$defs": {"x": STRINGS}},
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {"a": {"$ref": "#/definitions/x", "minLength": 9}},
            "definitions": {"x": STRINGS},
        },
    ],
)
def test_what_a_reference_could_lead_to_stays_in_its_place(schema: Any):
    assert make_portable(schema) == schema


def test_a_header_stays_where_clients_look_for_it():
    schema = {
        "type": ["object", "null"],
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    }

    assert make_portable(schema) == schema


MORE: list[Any] = [
    SHARED,
    TREE,
    {"type": ["array", "object"], "prefixItems": [{"type": "string"}], "maxItems": 1},
    {"type": "array", "prefixItems": [{}, {"type": "integer"}], "items": False},
    {"type": ["object", "string"], "properties": {"a": NUMBERS}, "required": ["a"], "minLength": 1},
    {"type": ["integer", "null", "array"], "enum": [1, None, ["a"], "b"]},
    {"type": ["integer", "string"], "anyOf": [{"minimum": 0}, {"maxLength": 1}]},
    {"type": ["integer", "number"], "minimum": 0},
    {"type": ["object", "null"], "properties": {"a": {}}, "unevaluatedProperties": False},
    {"allOf": [{"type": "array"}], "unevaluatedItems": False},
    {"enum": [1, 1.5, "a", None]},
]


@pytest.mark.parametrize("schema", [*SCHEMAS, *MORE], ids=lambda schema: "-".join(schema)[:60])
def test_the_published_schema_admits_the_same_values(schema: Any):
    own = Validator(schema, "a test", is_input=False)
    published = Validator(make_portable(schema), "a test", is_input=False)

    @given(values | st.lists(values, max_size=2))
    def judge_alike(value: Any) -> None:
        assert bool(own.problems(value)) is bool(published.problems(value))

    judge_alike()


def test_a_lazy_description_is_read_with_its_format_when_it_is_listed(site: Site):
    label = gettext_lazy("Yes")

    @site.tool(
        input_schema={
            "type": "object",
            "properties": {"on": {"type": "string", "format": "date", "description": label}},
        }
    )
    def look(arguments: dict[str, Any]) -> str:
        return ""

    assert is_lazy(site.registry.tools["look"].input_schema["properties"]["on"]["description"])
    with translation.override("de"):
        published = site.tool_input_schema("look")
    assert published["properties"]["on"]["description"] == "Ja. Format: date, YYYY-MM-DD."


@dataclass
class Stay:
    guest: UUID
    nights: tuple[date, date]


def test_values_that_are_no_dates_or_uuids_are_still_refused(site: Site):
    @site.tool
    def book(stay: Stay) -> Stay:
        return stay

    entry = site.registry.tools["book"]
    assert violations(entry.input_schema) == violations(entry.output_schema) == []
    assert "format" not in str(entry.input_schema).replace("Format", "")
    for wrong in (
        {"guest": "x", "nights": ["2026-01-01", "2026-01-02"]},
        {"guest": "0" * 32, "nights": ["2026-01-01", "2026-13-02"]},
    ):
        with pytest.raises(ArgumentErrors):
            site.call("book", {"stay": wrong})
