"""The `x-mcp-header` annotations of input schemas."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter
from typing_extensions import TypedDict

from django_mcp.protocol.header_params import (
    HeaderParam,
    McpHeader,
    header_params,
)
from tests.unit.protocol.test_json import json_values


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def string(name: Any) -> dict[str, Any]:
    return {"type": "string", "x-mcp-header": name}


def test_annotated_properties_are_found_in_order_at_any_depth():
    """Nested properties are found too."""
    found = header_params(
        schema(
            plain={"type": "string"},
            region=string("Region"),
            page=schema(limit={"type": "integer", "x-mcp-header": "Limit"}),
            dry={"type": "boolean", "x-mcp-header": "Method"},
        )
    )

    assert found == (
        HeaderParam(path=("region",), header="Mcp-Param-Region"),
        HeaderParam(path=("page", "limit"), header="Mcp-Param-Limit"),
        HeaderParam(path=("dry",), header="Mcp-Param-Method"),
    )


@pytest.mark.parametrize("name", ["", "a b", "a:b", "é", "a\n", 5, None, ["a"], {}, True])
def test_an_invalid_header_name_is_rejected_with_its_path(name):
    with pytest.raises(ValueError, match=r"at /region is not a header name\. Use"):
        header_params(schema(region=string(name)))


def test_a_header_name_with_an_underscore_is_rejected():
    with pytest.raises(ValueError, match="Write 'user-id'"):
        header_params(schema(user=string("user_id")))


def test_names_that_differ_by_case_only_are_rejected():
    with pytest.raises(ValueError, match=r"at /b is used at /a already"):
        header_params(schema(a=string("Region"), b=string("REGION")))


@pytest.mark.parametrize(
    "kind", ["number", "array", "object", "null", ["string"], ["string", "null"], None]
)
def test_only_strings_integers_and_booleans_fit(kind):
    with pytest.raises(ValueError, match="Only a string, integer or boolean"):
        header_params(schema(a={"type": kind, "x-mcp-header": "A"}))


@pytest.mark.parametrize(
    "bad",
    [
        {"$defs": {"x": string("A")}},
        {"properties": {"a": {"items": string("A")}}},
        {"properties": {"a": {"prefixItems": [string("A")]}}},
        {"properties": {"a": {"anyOf": [string("A"), {"type": "null"}]}}},
        {"allOf": [schema(a=string("A"))]},
        {"if": schema(a=string("A"))},
        {"not": string("A")},
        {"additionalProperties": string("A")},
        {"patternProperties": {"^a": string("A")}},
        {"properties": {"a": {"items": schema(b=string("A"))}}},
        {"dependentSchemas": {"a": schema(b=string("A"))}},
        {"type": "object", "x-mcp-header": "A"},
    ],
)
def test_annotations_are_allowed_only_below_properties(bad):
    with pytest.raises(ValueError, match="may only be reached through `properties`"):
        header_params(bad)


@pytest.mark.parametrize(
    "good",
    [
        schema(**{"x-mcp-header": {"type": "string"}}),
        schema(a={"type": "object", "default": {"x-mcp-header": 5}}),
        schema(a={"enum": [{"x-mcp-header": 5}]}),
        {"examples": [{"x-mcp-header": 5}]},
        {},
        True,
        None,
        {"properties": []},
        {"properties": {"a": True}},
    ],
)
def test_data_and_property_names_are_not_taken_for_annotations(good):
    assert header_params(good) == ()


@given(
    json_values | st.dictionaries(st.sampled_from(["properties", "items", "anyOf"]), json_values)
)
def test_any_schema_is_parsed_or_rejected(value):
    with suppress(ValueError):
        assert isinstance(header_params(value), tuple)


def test_a_very_deep_schema_is_walked_without_recursion():
    deep: dict[str, Any] = string("A")
    for _ in range(5_000):
        deep = schema(a=deep)

    (param,) = header_params(deep)

    assert len(param.path) == 5_000


# --- McpHeader in pydantic schemas


class Color(Enum):
    RED = "red"
    BLUE = "blue"


Plain = Annotated[str, McpHeader("Region")]
Optional_ = Annotated[str | None, McpHeader("Region")]


def published(annotation: Any) -> dict[str, Any]:
    @dataclass
    class Arguments:
        a: annotation = None

    return TypeAdapter(Arguments).json_schema()


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        (Plain, "string"),
        (Optional_, "string"),
        (Annotated[Optional[str], McpHeader("Region")], "string"),  # noqa: UP045
        (Annotated[int | None, McpHeader("Region")], "integer"),
        (Annotated[bool, McpHeader("Region")], "boolean"),
        (Annotated[Literal["a", "b"] | None, McpHeader("Region")], "string"),
        (Annotated[Color, McpHeader("Region")], "string"),
        (Annotated[Color | None, McpHeader("Region")], "string"),
        (Annotated[str | None, Field(description="Where"), McpHeader("Region")], "string"),
        (Annotated[str | None, McpHeader("Region"), Field(max_length=5)], "string"),
    ],
)
def test_the_annotation_publishes_one_plain_type(annotation, kind):
    found = published(annotation)

    assert found["properties"]["a"]["type"] == kind
    assert "anyOf" not in found["properties"]["a"]
    assert "$ref" not in found["properties"]["a"]
    assert header_params(found) == (HeaderParam(path=("a",), header="Mcp-Param-Region"),)


def test_an_enum_keeps_its_members_and_leaves_its_definition_alone():
    found = TypeAdapter(tuple[Annotated[Color | None, McpHeader("Region")], Color]).json_schema()

    assert found["prefixItems"][0]["enum"] == ["red", "blue"]
    assert "x-mcp-header" not in found["$defs"]["Color"]


def test_a_header_annotation_keeps_description_and_bounds():
    annotation = Annotated[
        str | None, Field(description="Where", max_length=5), McpHeader("Region")
    ]

    found = published(annotation)["properties"]["a"]

    assert found["description"] == "Where"
    assert found["maxLength"] == 5


class Nested(BaseModel):
    region: Optional_ = None


class Typed(TypedDict):
    region: Plain


@pytest.mark.parametrize("kind", [Nested, Typed])
def test_the_annotation_works_in_models_and_typed_dicts(kind):
    (found,) = header_params(TypeAdapter(kind).json_schema())

    assert found.path == ("region",)


@pytest.mark.parametrize(
    "annotation",
    [
        Annotated[float, McpHeader("A")],
        Annotated[list[str], McpHeader("A")],
        Annotated[int | str, McpHeader("A")],
        Annotated[Nested, McpHeader("A")],
        Annotated[str, McpHeader("a_b")],
        Annotated[str, McpHeader("")],
    ],
)
def test_types_unfit_for_headers_are_rejected_with_the_schema(annotation):
    with pytest.raises(ValueError):
        header_params(published(annotation))


def test_an_annotation_inside_an_optional_is_rejected_with_a_hint():
    with pytest.raises(ValueError, match="reached through"):
        header_params(published(Annotated[str, McpHeader("Region")] | None))
