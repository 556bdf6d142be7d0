"""Accepted and rejected schemas."""

from typing import Any

import pytest
from hypothesis import given

from django_mcp.protocol.subschemas import children
from django_mcp.registry import schemas
from django_mcp.registry.problems import RegistrationError
from django_mcp.registry.schemas import DIALECTS, check_schema, resolve_texts
from tests.support.registry import Lazy
from tests.unit.protocol.test_json import json_values


@pytest.fixture(params=["with jsonschema-rs", "without"], autouse=True)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without":
        monkeypatch.setattr(schemas, "find_rust_engine", lambda: None)
    elif schemas.find_rust_engine() is None:
        pytest.skip("jsonschema-rs is not installed")


def check(schema: Any, *, is_input: bool = True) -> schemas.CheckedSchema:
    return check_schema(schema, "shop.find (/mcp.py:1)", is_input=is_input)


def objects(**keywords: Any) -> dict[str, Any]:
    return {"type": "object", **keywords}


def refused(schema: Any, *, is_input: bool = True) -> str:
    with pytest.raises(RegistrationError) as refusal:
        check(schema, is_input=is_input)
    text = str(refusal.value)
    assert text.startswith("shop.find (/mcp.py:1): the ")
    return text


def test_a_schema_without_a_dialect_is_of_2020_12():
    checked = check(objects(properties={"a": {"prefixItems": [{"type": "string"}]}}))

    assert checked.dialect == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    ("uri", "validator"),
    [
        ("https://json-schema.org/draft/2020-12/schema", "Draft202012Validator"),
        ("https://json-schema.org/draft/2019-09/schema", "Draft201909Validator"),
        ("http://json-schema.org/draft-07/schema#", "Draft7Validator"),
        ("http://json-schema.org/draft-07/schema", "Draft7Validator"),
        ("http://json-schema.org/draft-06/schema#", "Draft6Validator"),
        ("http://json-schema.org/draft-04/schema#", "Draft4Validator"),
    ],
)
def test_a_declared_dialect_is_honoured(uri: str, validator: str):
    assert DIALECTS[check(objects(**{"$schema": uri})).dialect] == validator


@pytest.mark.parametrize("uri", ["http://json-schema.org/draft-03/schema#", "urn:mine", 7, None])
def test_an_unknown_dialect_is_rejected_with_the_supported_ones(uri: Any):
    text = refused(objects(**{"$schema": uri}))

    assert "declares the dialect" in text
    assert "2020-12" in text


def test_a_dialect_cannot_change_inside():
    inner = {"$schema": "http://json-schema.org/draft-07/schema#"}

    assert "changes its dialect at /properties/a" in refused(objects(properties={"a": inner}))


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        (objects(properties={"a": {"type": "strin"}}), "/properties/a/type"),
        (objects(properties=[]), "/properties"),
        (objects(required="a"), "/required"),
        (objects(minProperties=-1), "/minProperties"),
        (objects(properties={"a": {"anyOf": []}}), "/properties/a/anyOf"),
    ],
)
def test_an_invalid_schema_is_rejected(schema: Any, where: str):
    assert f"not valid in https://json-schema.org/draft/2020-12/schema: at {where}" in refused(
        schema
    )


@pytest.mark.parametrize(
    "reference",
    [
        "http://127.0.0.1:9/schema.json",
        "https://json-schema.org/draft/2020-12/schema",
        "file:///etc/passwd",
        "other.json",
        "#/$defs/missing",
        "#nowhere",
    ],
)
def test_external_references_are_rejected(reference: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("socket.socket.connect", pytest.fail)

    text = refused(objects(properties={"a": {"$ref": reference}}))

    assert f"refers to '{reference}', which is not inside" in text
    assert "Nothing is fetched" in text


@pytest.mark.parametrize(
    "schema",
    [
        objects(properties={"a": {"$ref": "#/$defs/b"}}, **{"$defs": {"b": {"type": "string"}}}),
        objects(properties={"a": {"$ref": "#b"}}, **{"$defs": {"b": {"$anchor": "b"}}}),
        objects(
            properties={"a": {"$ref": "b"}},
            **{"$id": "https://example.com/a", "$defs": {"b": {"$id": "b", "type": "string"}}},
        ),
        objects(properties={"a": {"$ref": "#/components/b"}}, components={"b": {"minimum": 1}}),
        objects(properties={"$ref": {"const": {"$ref": "http://example.com"}}}),
        objects(examples=[{"$ref": "http://example.com"}], default={"$ref": 1}),
    ],
)
def test_internal_references_and_data_are_accepted(schema: Any):
    assert not check(schema).is_recursive


def test_a_self_reference_below_a_property_is_recursive():
    assert check(objects(properties={"next": {"$ref": "#"}})).is_recursive


def test_the_target_of_a_dynamic_reference_is_unknown():
    schema = objects(properties={"a": {"$dynamicRef": "#b"}}, **{"$defs": {"b": {"$anchor": "b"}}})

    assert check(schema).is_recursive


def test_chains_of_references_are_bounded():
    definitions: Any = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(900)}
    definitions["d900"] = {"type": "string"}

    text = refused(objects(properties={"a": {"$ref": "#/$defs/d0"}}, **{"$defs": definitions}))

    assert "chains too many references" in text


def test_an_excessive_number_is_harmless():
    assert check(objects(maxProperties=10**30)).schema["maxProperties"] == 10**30


@pytest.mark.parametrize(
    "schema",
    [
        objects(**{"$ref": "#"}),
        objects(anyOf=[{"$ref": "#"}, {"type": "object"}]),
        objects(
            **{"$ref": "#/$defs/a"},
            **{"$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}}},
        ),
    ],
)
def test_an_endless_self_reference_is_rejected(schema: Any):
    assert "refers to itself without going into the value" in refused(schema)


def test_schema_depth_is_limited():
    nested: Any = {}
    for _ in range(schemas.MAX_DEPTH):
        nested = {"items": nested}

    assert "nested more than 32 deep" in refused(objects(properties={"a": nested}))


def test_the_number_of_schemas_is_bounded():
    many: Any = {f"p{number}": {} for number in range(schemas.MAX_SUBSCHEMAS)}

    assert "more than 1000 schemas" in refused(objects(properties=many))


def test_the_expansion_of_references_is_limited():
    definitions: dict[str, Any] = {"d0": {"type": "string"}}
    for number in range(1, 40):
        reference = {"$ref": f"#/$defs/d{number - 1}"}
        definitions[f"d{number}"] = {"anyOf": [reference, reference]}

    text = refused(objects(properties={"a": {"$ref": "#/$defs/d39"}}, **{"$defs": definitions}))

    assert "with its references expanded" in text


@pytest.mark.parametrize("pattern", ["(?=a)b", r"(a)\1", "(", "a{99999}{99999}"])
def test_patterns_with_more_than_linear_time_are_rejected(pattern: str):
    schemas: list[Any] = [{"pattern": pattern}, {"patternProperties": {pattern: {}}}]
    for schema in schemas:
        text = refused(objects(properties={"a": schema}))
        assert "at /properties/a, which cannot be used" in text


def test_a_pattern_dangerous_only_in_other_engines_is_accepted():
    check(objects(properties={"a": {"pattern": r"^(\d+)+$"}}))


def test_patterns_behind_references_are_checked():
    schema = objects(properties={"a": {"$ref": "#/mine"}}, mine={"pattern": "(?=a)"})

    assert "'(?=a)'" in refused(schema)


def test_unevaluated_properties_beside_patterns_are_rejected():
    schema = objects(patternProperties={"^a": {}}, unevaluatedProperties=False)

    assert "Use additionalProperties" in refused(schema)


@pytest.mark.parametrize("schema", [None, True, [], "object"])
def test_a_schema_is_a_dict(schema: Any):
    assert "Write it as a dict" in refused(schema)


@pytest.mark.parametrize("value", [{1, 2}, object(), float("nan"), b"x", {1: "x"}, "\ud800"])
def test_a_schema_is_plain_json(value: Any):
    assert "not plain JSON" in refused(objects(default=value))


@pytest.mark.parametrize("schema", [{}, {"type": "array"}, {"type": ["object", "null"]}])
def test_arguments_are_an_object(schema: Any):
    assert 'lacks "type": "object"' in refused(schema)
    check(schema, is_input=False)


def test_lazy_texts_stay_lazy_and_are_not_read():
    schema = objects(title=Lazy(en="Find", de="Suchen"))

    assert check(schema).schema == objects(title="")
    found: list[Any] = []
    resolve_texts(schema, found.append)
    assert found == [schema["title"]]
    assert resolve_texts(schema) == objects(title="Find")


@given(json_values)
def test_walking_never_fails(value: Any):
    list(children(value))
    for keyword in ("properties", "allOf", "items", "dependencies", "$defs"):
        list(children({keyword: value}))


@given(json_values)
def test_checking_never_fails(value: Any):
    for schema in (value, objects(properties=value), objects(properties={"a": value})):
        try:
            check(schema)
        except RegistrationError:
            continue
