"""A thin output schema names members and types, and admits what the whole one admits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.registry.thin import make_thin
from django_mcp.registry.validators import Validator
from tests.support.registry import Site
from tests.unit.registry.test_agreement import SCHEMAS, values


@pytest.mark.parametrize(
    ("schema", "thin"),
    [
        (
            {
                "type": "object",
                "properties": {
                    "title": {"type": "string", "title": "Title", "maxLength": 20},
                    "required": {"enum": ["a", "b"]},
                    "on": {"anyOf": [{"type": "string", "format": "date"}, {"type": "string"}]},
                },
                "required": ["title"],
                "additionalProperties": False,
                "description": "All of it.",
            },
            {
                "type": "object",
                "properties": {
                    "title": {"type": "string"},
                    "required": {"type": "string"},
                    "on": {"type": "string"},
                },
            },
        ),
        (
            {"type": "object", "additionalProperties": {"type": "integer", "minimum": 1}},
            {"type": "object", "additionalProperties": {"type": "integer"}},
        ),
        (
            {
                "oneOf": [{"type": "string", "minLength": 2}, {"type": "null"}],
                "anyOf": [{"type": "string", "pattern": "a"}, {"type": "integer"}],
            },
            {
                "allOf": [{"anyOf": [{"type": "string"}, {"type": "null"}]}],
                "anyOf": [{"type": "string"}, {"type": "integer"}],
            },
        ),
        (
            {"$defs": {"a": {"type": "string", "title": "A"}}, "items": {"$ref": "#/$defs/a"}},
            {"$defs": {"a": {"type": "string"}}, "items": {"$ref": "#/$defs/a"}},
        ),
        ({"const": 1}, {"type": "integer"}),
        ({"enum": [1, "a"]}, {}),
    ],
)
def test_names_and_types_are_kept(schema: Any, thin: Any):
    assert make_thin(schema) == thin


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: "-".join(schema)[:60])
def test_each_value_of_the_whole_schema_is_admitted(schema: Any):
    whole = Validator(schema, "a test", is_input=False)
    thin = Validator(make_thin(schema), "a test", is_input=False)

    @given(values | st.lists(values, max_size=2))
    def is_admitted(value: Any) -> None:
        assert whole.problems(value) or not thin.problems(value)

    is_admitted()


def test_the_form_is_chosen(site: Site):
    @site.tool
    def count() -> dict[str, int]:
        """Count."""
        return {}

    entry = site.registry.tools["count"]
    full = entry.to_wire()["outputSchema"]

    assert entry.with_output("auto").to_wire()["outputSchema"] == full
    assert entry.with_output("full").to_wire()["outputSchema"] == full
    assert entry.with_output("thin").to_wire()["outputSchema"] == make_thin(full)
    assert "outputSchema" not in entry.with_output("none").to_wire()
