"""jsonschema-rs gives the verdict and jsonschema the report, so they must judge alike."""

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.registry import schemas, validators
from django_mcp.registry.validators import Validator

pytestmark = pytest.mark.skipif(
    schemas.find_rust_engine() is None, reason="jsonschema-rs is not installed"
)

SCHEMAS: list[Any] = [
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    {"type": "object", "additionalProperties": False, "properties": {"a": {}, "b": {}}},
    {"properties": {"a": {"minLength": 1, "maxLength": 2}, "b": {"pattern": "^[ab]+$"}}},
    {"properties": {"a": {"minimum": -1, "exclusiveMaximum": 2}, "b": {"multipleOf": 0.1}}},
    {"properties": {"a": {"enum": [1, "a", None, [True]]}, "b": {"const": {"a": 1}}}},
    {"items": {"type": ["string", "null", "boolean"]}, "uniqueItems": True, "maxItems": 3},
    {"prefixItems": [{"type": "integer"}], "items": {"type": "number"}, "minItems": 1},
    {"contains": {"type": "integer"}, "minContains": 1, "maxContains": 2},
    {"anyOf": [{"type": "object", "required": ["a"]}, {"type": "array"}, {"type": "null"}]},
    {"oneOf": [{"type": "number"}, {"type": "integer"}, {"type": "string"}, {"type": "object"}]},
    {"allOf": [{"required": ["a"]}, {"not": {"required": ["b"]}}], "type": "object"},
    {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"maxProperties": 1}},
    {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"b": {"minProperties": 2}}},
    {"patternProperties": {"^[a-m]": {"type": "integer"}}, "additionalProperties": False},
    {"propertyNames": {"pattern": "^[ab]$"}},
    {"properties": {"a": {}}, "unevaluatedProperties": False},
    {"prefixItems": [{}], "unevaluatedItems": {"type": "string"}},
    {"$ref": "#/$defs/x", "$defs": {"x": {"anyOf": [{"type": "array"}, {"minProperties": 1}]}}},
    {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "integer"}]},
    {"$schema": "http://json-schema.org/draft-04/schema#", "maximum": 3, "exclusiveMaximum": True},
    {
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "items": [{"type": "integer"}],
        "additionalItems": False,
    },
]

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.integers()
    | st.sampled_from([0.1, 0.3, 0.7, 1.0, 1.5, -0.0, 1e300])
    | st.sampled_from(["", "a", "ab", "b", "aaa", "é", "x\n"])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "c", "z"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: "-".join(schema)[:60])
def test_both_engines_agree(schema: Any):
    validator = Validator(schema, "a test", is_input=False)
    assert validators._compile_fast(validator._checked) is not None

    @given(values)
    def judge_alike(value: Any) -> None:
        report = validator._find_errors(value, validators.MAX_STEPS, is_all=True)
        assert (validator.problems(value) == []) is (report == [])

    judge_alike()


def test_schemas_unsupported_by_the_fast_engine_use_the_other(monkeypatch: pytest.MonkeyPatch):
    class Engine:
        RegexOptions = object

        @staticmethod
        def validator_for(*args: Any, **options: Any) -> Any:
            raise ValueError("no")

    monkeypatch.setattr(validators, "find_rust_engine", lambda: Engine)

    validator = Validator({"type": "string"}, "a test", is_input=False)

    assert validator.problems("a") == []
    assert validator.problems(1) != []


def test_the_fast_engine_does_not_fetch_references():
    with pytest.raises(ValueError, match="nothing is fetched"):
        validators._reject_retrieval("http://example.com")


def test_a_missing_fast_engine_is_not_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)

    assert schemas.find_rust_engine.__wrapped__() is None


def test_the_verdict_of_the_fast_engine_is_final(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(validators, "_compile_fast", lambda checked: lambda value: False)

    validator = Validator({}, "a test", is_input=False)

    assert [problem.message for problem in validator.problems(1)] == ["does not match the schema"]
