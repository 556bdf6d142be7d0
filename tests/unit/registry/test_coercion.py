"""Arguments that do not fit their schema, but have one meaning that does."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.protocol.json import MAX_DEPTH
from django_mcp.registry.coercion import MAX_ARGUMENTS_DEPTH, MAX_STEPS, coerce

INTEGER, NUMBER, TEXT = {"type": "integer"}, {"type": "number"}, {"type": "string"}
BOOLEAN, NOTHING = {"type": "boolean"}, {"type": "null"}
LIST, OBJECT = {"type": "array", "items": INTEGER}, {"type": "object"}
POINT = {
    "type": "object",
    "properties": {"x": INTEGER, "y": {**INTEGER, "default": 0}},
    "required": ["x"],
}


def schema_of(value: Any, **keywords: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"value": value},
        "additionalProperties": False,
        **keywords,
    }


def read(given: Any, schema: Any, **options: Any) -> Any:
    """Return what the argument `value` is read as; the value itself if it stays."""
    found = coerce({"value": given}, schema_of(schema), **{"max_values": 1000, **options})
    return given if found is None else found.arguments.get("value", "absent")


@pytest.mark.parametrize(
    ("given", "schema", "expected"),
    [
        ("[1, 2]", LIST, [1, 2]),
        (' {"x": 1} ', OBJECT, {"x": 1}),
        ("5", INTEGER, 5),
        ("-0.5e3", NUMBER, -500.0),
        ("123456789012345678901", INTEGER, 123456789012345678901),
        ("true", BOOLEAN, True),
        ("false", BOOLEAN, False),
        ("5", {"anyOf": [INTEGER, NOTHING]}, 5),
        ("5", {"enum": [4, 5]}, 5),
        ("[1]", {"anyOf": [LIST, INTEGER]}, [1]),
        (["1", 2], LIST, [1, 2]),
        ('["1"]', LIST, [1]),
        ({"x": "1"}, POINT, {"x": 1}),
        ({"x": 1, "y": None}, POINT, {"x": 1}),
        (["1", "a"], {"type": "array", "prefixItems": [INTEGER, TEXT]}, [1, "a"]),
        ({"a": "1"}, {"type": "object", "additionalProperties": INTEGER}, {"a": 1}),
        ({"x": "1"}, {"allOf": [POINT]}, {"x": 1}),
        ({"x": "1"}, {"anyOf": [POINT, NOTHING]}, {"x": 1}),
    ],
)
def test_a_value_with_one_meaning_is_read(given: Any, schema: Any, expected: Any):
    found = read(given, schema)

    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("given", "schema"),
    [
        ("5", TEXT),
        ("5", {}),
        ("5", True),
        ("5", {"anyOf": [INTEGER, TEXT]}),
        ("5", {"anyOf": [INTEGER, {"type": "string", "format": "date"}]}),
        ("5", {"enum": [5, "6"]}),
        ("5", {"type": ["integer", "string"]}),
        ("5", BOOLEAN),
        ("05", INTEGER),
        (" 5", INTEGER),
        ("+5", INTEGER),
        ("5.", NUMBER),
        ("1_000", INTEGER),
        ("NaN", NUMBER),
        ("Infinity", NUMBER),
        ("٥", INTEGER),
        ("5\n", INTEGER),
        ("True", BOOLEAN),
        ("1", BOOLEAN),
        (1, BOOLEAN),
        (5, TEXT),
        ("[1", LIST),
        ('{"x": 1}', LIST),
        ("[1]", OBJECT),
        ("\ud800", LIST),
        ('["\ud800"]', LIST),
        ("null", INTEGER),
        # It may be left out, but would then mean something else, such as to keep a value.
        (None, INTEGER),
        (None, {**INTEGER, "default": 5}),
        (None, {"anyOf": [INTEGER, NOTHING]}),
        ({"x": None}, POINT),
        # Either form could be meant.
        ({"x": "1"}, {"anyOf": [POINT, {"type": "object", "properties": {"x": BOOLEAN}}]}),
    ],
)
def test_nothing_is_guessed(given: Any, schema: Any):
    assert read(given, schema) == given


def test_the_form_of_a_union_is_found_by_its_tag():
    forms = [
        {"type": "object", "properties": {"kind": {"const": kind}, "size": size}}
        for kind, size in (("small", INTEGER), ("free", TEXT))
    ]

    assert read({"kind": "small", "size": "1"}, {"oneOf": forms}) == {"kind": "small", "size": 1}
    assert read({"kind": "free", "size": "1"}, {"oneOf": forms}) == {"kind": "free", "size": "1"}


def test_references_are_followed():
    schema = schema_of({"$ref": "#/$defs/Node"})
    schema["$defs"] = {
        "Node": {
            "type": "object",
            "properties": {"x": INTEGER, "next": {"$ref": "#/$defs/Node"}},
        }
    }

    found = coerce({"value": {"next": '{"x": "1"}'}}, schema, max_values=1000)

    assert found is not None
    assert found.arguments == {"value": {"next": {"x": 1}}}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/properties/value"},
        {"$ref": "#/nowhere"},
        {"$ref": "https://example.com/schema"},
        {"anyOf": [{"$ref": "#/properties/value"}] * 3},
    ],
)
def test_a_reference_that_leads_nowhere_changes_nothing(schema: Any):
    assert read("5", schema) == "5"
    assert read({"x": "5"}, schema) == {"x": "5"}


def test_what_is_sent_is_not_changed():
    sent = {"value": ["1"], "other": {"x": "1"}}

    found = coerce(sent, schema_of(LIST), max_values=1000)

    assert found is not None
    assert sent == {"value": ["1"], "other": {"x": "1"}}
    assert (found.names, found.has_dropped) == (("value",), False)


def test_unknown_members_are_dropped_if_that_is_wanted():
    closed = {**POINT, "additionalProperties": False}
    sent = {"value": {"x": 1, "z": 2}, "extra": 3}

    assert coerce(sent, schema_of(closed), max_values=1000) is None
    found = coerce(sent, schema_of(closed), reads_values=False, drops_unknown=True, max_values=1000)

    assert found is not None
    assert found.arguments == {"value": {"x": 1}}
    assert (found.names, found.has_dropped) == (("value",), True)


def test_null_is_absent_for_an_argument_with_a_default():
    assert read(None, INTEGER, defaulted={"value"}) == "absent"
    assert read(None, {"anyOf": [INTEGER, NOTHING]}, defaulted={"value"}) is None


def test_without_reading_values_nothing_else_changes():
    options: Any = {"reads_values": False, "drops_unknown": True}

    assert read("5", INTEGER, **options) == "5"
    assert read(None, INTEGER, **options) is None


def test_the_values_of_all_texts_are_limited():
    lists = {"type": "array", "items": {"type": "array"}}
    some = f"[{'[],' * 120}[]]"

    assert read([some], lists) != [some]
    assert read([some] * 3, lists) == [some] * 3


@pytest.mark.parametrize(
    ("text", "most"), [("1e308", 66), ("[1e308]", 58), ("[" + "9" * 640 + "]", 7)]
)
def test_numbers_that_take_long_to_read_count_as_in_a_message(text: str, most: int):
    schema = {"type": "array", "items": {"type": ["array", "number"]}}

    assert read([text] * most, schema) != [text] * most
    assert read([text] * (most + 1), schema) == [text] * (most + 1)


@pytest.mark.parametrize("depth", [MAX_ARGUMENTS_DEPTH - 1, MAX_ARGUMENTS_DEPTH, MAX_DEPTH])
def test_arguments_are_not_read_deeper_than_a_message_could_hold_them(depth: int):
    """What is stored of a call is read again, with what is around it."""
    deep = "[" * depth + "]" * depth

    is_read = read(deep, {"type": "array"}) != deep

    assert is_read == (depth < MAX_ARGUMENTS_DEPTH)


def test_texts_inside_of_texts_are_not_read_deeper_either():
    lists: dict[str, Any] = {"type": "array", "items": {"$ref": "#/properties/value"}}
    half = "[" * 40 + "]" * 40
    nested = f"{'[' * 40}{json.dumps(half)}{']' * 40}"

    assert read(nested, lists) == nested


@pytest.mark.parametrize("reference", ["#any", "#any/properties", "other#/properties/value"])
def test_a_reference_to_a_name_is_not_taken_for_the_whole_schema(reference: str):
    """Nobody knows here what it admits."""
    assert read('{"value": 1}', {"$ref": reference}) == '{"value": 1}'


def test_references_of_a_schema_with_names_of_its_own_are_not_followed():
    schema = {"$ref": "#/properties/number"}
    whole = schema_of(schema, **{"$id": "https://example.com/s"})
    whole["properties"]["number"] = INTEGER

    assert coerce({"value": "5"}, whole, has_own_references=True, max_values=1000) is None
    assert coerce({"value": "5"}, whole, max_values=1000) is not None


def test_a_schema_that_branches_much_is_looked_at_once():
    branches: dict[str, Any] = INTEGER
    for _ in range(40):
        branches = {"anyOf": [branches, branches]}

    assert read("5", branches) == 5


def test_the_steps_are_limited():
    many = [str(number) for number in range(6000)]

    assert read(many, LIST) == many
    assert read(many, LIST, max_steps=MAX_STEPS) == list(range(6000))


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(["5", "true", "[1]", "{}"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xy"), inner, max_size=2)
    ),
    max_leaves=8,
)
schemas = st.recursive(
    st.sampled_from([INTEGER, NUMBER, TEXT, BOOLEAN, NOTHING, {"enum": [5, "a"]}, {"const": True}]),
    lambda inner: st.one_of(
        inner.map(lambda each: {"type": "array", "items": each}),
        st.lists(inner, min_size=1, max_size=3).map(lambda each: {"anyOf": each}),
        inner.map(lambda each: {"type": "object", "properties": {"x": each}, "required": ["x"]}),
    ),
    max_leaves=5,
)


@given(given=json_values, schema=schemas)
def test_a_value_that_fits_is_never_changed(given: Any, schema: Any):
    """What a schema admits as it is has that meaning, also inside of what does not fit."""
    if jsonschema.Draft202012Validator(schema).is_valid(given) and given is not None:
        assert read(given, schema) == given


@given(given=json_values, schema=schemas)
def test_a_read_value_reads_the_same_again(given: Any, schema: Any):
    once = read(given, schema)

    if once != "absent":
        assert read(once, schema) == once
