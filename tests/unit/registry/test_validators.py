"""Verdicts and reports: complete, ordered, short, and in bounded time."""

import time
from typing import Any

import pytest

from django_mcp.registry import schemas, validators
from django_mcp.registry.patterns import surplus_of
from django_mcp.registry.problems import MAX_PROBLEMS, Problem
from django_mcp.registry.validators import Validator

SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 2},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100},
        "status": {"enum": ["placed", "shipped"]},
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"sku": {"type": "string"}},
                "required": ["sku"],
            },
        },
    },
    "required": ["query", "status"],
    "additionalProperties": False,
}


@pytest.fixture(params=["with jsonschema-rs", "without"], autouse=True)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without":
        monkeypatch.setattr(validators, "find_rust_engine", lambda: None)
    elif schemas.find_rust_engine() is None:
        pytest.skip("jsonschema-rs is not installed")


def problems(schema: Any, value: Any) -> list[tuple[str, str]]:
    validator = Validator(schema, "a test", is_input=False)
    found = validator.problems(value)
    return [(problem.pointer, problem.message) for problem in found]


def messages(schema: Any, value: Any) -> list[str]:
    return [message for _, message in problems(schema, value)]


def test_a_valid_value_has_no_problems():
    assert problems(SCHEMA, {"query": "ab", "status": "placed", "lines": [{"sku": "1"}]}) == []


def test_all_problems_are_reported_at_once_by_pointer():
    value = {"query": "a", "limit": "ten", "lines": [{"sku": "1"}, {}, 3], "lmit": 1}

    assert problems(SCHEMA, value) == [
        ("/limit", 'must be an integer, not the string "ten"'),
        ("/lines/1/sku", "is required"),
        ("/lines/2", "must be an object, not 3"),
        ("/lmit", 'is unknown; did you mean "limit"?'),
        ("/query", "must have at least 2 characters, not 1"),
        ("/status", "is required"),
    ]


def test_pointers_are_escaped():
    """RFC 6901 section 3"""
    schema = {"properties": {"a/b": {"properties": {"m~n": {"type": "string"}}}}}

    assert problems(schema, {"a/b": {"m~n": 1}})[0][0] == "/a~1b/m~0n"


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ({"type": "string"}, 1, "must be a string, not 1"),
        ({"type": ["string", "null"]}, {}, "must be a string or null, not an object"),
        ({"type": "boolean"}, [], "must be true or false, not an array"),
        ({"type": "integer"}, 1.5, "must be an integer, not 1.5"),
        ({"enum": ["a", 1, None]}, "b", 'must be one of "a", 1, null; not "b"'),
        ({"const": True}, 1, "must be true, not 1"),
        ({"minimum": 3}, 1, "must be at least 3, not 1"),
        ({"maximum": 3}, 4, "must be at most 3, not 4"),
        ({"exclusiveMinimum": 3}, 3, "must be more than 3, not 3"),
        ({"exclusiveMaximum": 3}, 3, "must be less than 3, not 3"),
        ({"multipleOf": 0.5}, 0.7, "must be a multiple of 0.5, not 0.7"),
        ({"minLength": 2}, "a", "must have at least 2 characters, not 1"),
        ({"maxLength": 2}, "abc", "must have at most 2 characters, not 3"),
        ({"minItems": 1}, [], "must have at least 1 items, not 0"),
        ({"maxItems": 1}, [1, 2], "must have at most 1 items, not 2"),
        ({"minProperties": 1}, {}, "must have at least 1 members, not 0"),
        ({"maxProperties": 0}, {"a": 1}, "must have at most 0 members, not 1"),
        ({"pattern": "^a"}, "b", 'must match the pattern "^a", not "b"'),
        ({"uniqueItems": True}, [1, 1.0], "must not hold an item twice"),
        ({"not": {"type": "string"}}, "a", "is of a form that is excluded"),
        ({"contains": {"const": 1}}, [2], "holds too few items of the kind it must hold"),
        ({"contains": {}, "maxContains": 1}, [2, 3], "holds too many items of one kind"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, 'is required together with "a"'),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, "must have at most 1 characters, not 2"),
        ({"properties": {"a": False}}, {"a": 1}, "is not allowed"),
        ({"additionalProperties": False}, {"a": 1}, "is unknown; there are no members here"),
        (
            {"additionalProperties": False, "properties": {"limit": {}}},
            {"query": 1},
            'is unknown; known are "limit"',
        ),
        (
            {"additionalProperties": False, "patternProperties": {"^x": {"type": "null"}}},
            {"x": 1},
            "must be null, not 1",
        ),
        ({"additionalProperties": {"type": "string"}}, {"a": 1}, "must be a string, not 1"),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1}, "is required"),
        (
            {"if": {"required": ["a"]}, "then": {"required": ["b"]}},
            {"a": 1},
            "is required",
        ),
    ],
)
def test_a_message_says_what_is_expected(schema: Any, value: Any, message: str):
    assert messages(schema, value) == [message]


def test_unevaluated_members_are_named():
    schema = {"properties": {"a": {}}, "unevaluatedProperties": False}

    assert "'b'" in messages(schema, {"a": 1, "b": 2})[0]


def test_an_optional_value_is_explained_by_its_non_null_type():
    schema = {"anyOf": [{"type": "object", "required": ["a"]}, {"type": "null"}]}

    assert problems(schema, {}) == [("/a", "is required")]
    assert problems(schema, 1) == [("", "must be an object or null, not 1")]


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_a_number_of_another_type_beyond_a_limit_is_explained(keyword: str):
    number = {"minimum": 1, "multipleOf": 2, "type": "integer", "maximum": 9}

    for value in (0.5, 9.5):
        told = problems({keyword: [number, {"type": "null"}]}, value)
        assert told == [("", f"must be an integer or null, not {value}")]


def test_the_closest_alternative_is_explained():
    def form(kind: str, *names: str) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {"kind": {"const": kind}},
            "required": ["kind", *names],
        }

    schema = {"oneOf": [form("card", "number"), form("bank", "iban", "name"), {"type": "null"}]}

    assert problems(schema, {"kind": "bank"}) == [
        ("", "fits none of the 3 allowed forms; the nearest fails"),
        ("/iban", "is required"),
        ("/name", "is required"),
    ]


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_an_alternative_that_nothing_fits_is_not_explained(keyword: str):
    assert problems({keyword: [False, {"type": "integer"}]}, "x") == [
        ("", 'must be an integer, not the string "x"')
    ]
    assert problems({keyword: [False]}, "x") == [("", "fits none of the allowed forms")]


def test_matching_two_alternatives_of_one_of_is_reported():
    schema = {"oneOf": [{"type": "integer"}, {"minimum": 2}]}

    assert messages(schema, 3) == ["fits more than one of the allowed forms, and must fit one"]


def test_reported_problems_are_capped_and_the_rest_counted():
    schema = {"type": "array", "items": {"type": "integer"}}

    found = messages(schema, ["x"] * 70)

    assert len(found) == MAX_PROBLEMS + 1
    assert "and 20 further problems" in found


def test_the_search_for_problems_stops_at_a_limit():
    schema = {"type": "array", "items": {"type": "integer"}}

    assert "and 950 or more further problems" in messages(schema, ["x"] * 5000)


def test_long_values_are_not_quoted():
    long = "x" * 100_000
    schema = {
        "properties": {
            "a": {"enum": ["b"]},
            "b": {"type": "integer"},
            "c": {"pattern": "^y"},
        },
        "unevaluatedProperties": False,
    }

    for message in messages(schema, {"a": long, "b": long, "c": long, long: 1}):
        assert len(message) < 400
        assert "x" * 201 not in message


@pytest.mark.parametrize("value", ["\x00\x1b[31m\r\n", "\u2028", "😀" * 90, "\ud800"])
def test_unusual_text_in_a_value_is_harmless(value: str):
    (message,) = messages({"type": "integer"}, value)

    assert message.isprintable() or "\u2028" in message
    message.encode()


@pytest.mark.parametrize("value", [10**400, -(10**400), 1e308])
def test_large_numbers_are_validated_exactly(value: float):
    assert problems({"type": "number"}, value) == []
    assert problems({"type": "number", "multipleOf": 0.01}, value) == []
    assert len(messages({"minimum": 0, "maximum": 1}, value)) == 1


def test_numbers_too_large_to_print_are_harmless():
    schema = {"type": "number", "minimum": 0, "maximum": 1}

    assert len(Validator(schema, "a test", is_input=False).problems(10**5000)) == 1


def test_multiples_are_those_of_the_decimal_fraction():
    assert problems({"multipleOf": 0.1}, 0.3) == []
    assert problems({"multipleOf": 0.01}, 4.35) == []


@pytest.mark.parametrize(
    ("one", "other"), [(1, True), (0, False), ("1", 1), ([], {}), ([1], [True]), ("", None)]
)
def test_values_distinct_in_json_are_not_equal(one: Any, other: Any):
    assert problems({"uniqueItems": True}, [one, other]) == []
    assert problems({"const": one}, other) != []
    assert problems({"enum": [one]}, other) != []


def test_digits_and_words_are_ascii_as_in_ecmascript():
    """JSON Schema 2020-12 core, section 6.4"""
    assert problems({"pattern": r"^[\d-]+$"}, "12-3") == []
    assert problems({"pattern": r"^\d+$"}, "٣") != []
    assert problems({"pattern": r"^\w+$"}, "é") != []
    assert problems({"pattern": r"^\D\W$"}, "é-") == []
    assert problems({"pattern": "^a$"}, "a\n") != []


def test_formats_and_encodings_are_hints_only():
    old = {"$schema": "http://json-schema.org/draft-07/schema#"}

    assert problems({"format": "date"}, "never") == []
    assert problems({**old, "format": "date"}, "never") == []
    assert problems({**old, "contentEncoding": "base64"}, "%%%") == []


def within(seconds: float, schema: Any, value: Any) -> list[tuple[str, str]]:
    validator = Validator(schema, "a test", is_input=False)
    started = time.process_time()
    validator.check(value)
    found = validator.problems(value)
    assert time.process_time() - started < seconds
    return [(problem.pointer, problem.message) for problem in found]


def test_patterns_take_linear_time():
    """The text is the client's; `re` would need exponential time."""
    assert within(2, {"pattern": "^(a+)+$"}, "a" * 50_000 + "!")
    assert within(2, {"patternProperties": {"^(a+)+$": False}}, {"a" * 50_000 + "!": 1}) == []
    schema = {"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False}
    assert within(2, schema, {"a" * 50_000 + "!": 1})


@pytest.mark.parametrize(
    "items",
    [
        [{"a": number} for number in range(30_000)],
        [number * (2**61 - 1) for number in range(1, 30_000)],  # equal hashes in Python
        [[number] for number in range(30_000)],
    ],
)
def test_unique_items_take_linear_time(items: list[Any]):
    assert within(3, {"uniqueItems": True}, items) == []
    assert within(3, {"uniqueItems": True}, [*items, items[0]])


def branching(keyword: str) -> dict[str, Any]:
    """Return a schema that looks at each level of a value twice."""
    node = {"properties": {"next": {"$ref": "#/$defs/node"}, "end": False}}
    return {"$ref": "#/$defs/node", "$defs": {"node": {keyword: [node, node]}}}


def chain(end: Any) -> Any:
    for _ in range(40):
        end = {"next": end}
    return end


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_alternatives_of_a_recursive_schema_take_linear_time(keyword: str):
    found = dict(within(20, branching(keyword), chain({"end": 1})))

    assert found["/next" * 40] == "is not allowed"
    assert within(20, branching("anyOf"), chain({})) == []


def test_branching_recursion_is_stopped():
    assert within(20, branching("allOf"), chain({})) == [
        ("", "is too large or too deep to be checked; send less at once")
    ]


def test_deep_values_are_rejected_without_a_crash():
    value: Any = {}
    for _ in range(50_000):
        value = {"next": value}
    schema = {"type": "object", "properties": {"next": {"$ref": "#"}}}

    assert within(20, schema, value) == [
        ("", "is too large or too deep to be checked; send less at once")
    ]


def test_problems_of_a_large_value_are_reported_in_bounded_time():
    found = within(20, {"type": "array", "items": {"type": "integer"}}, [1] * 1_000_000 + ["x"])

    assert len(found) == 1


def test_concurrent_validations_do_not_share_a_budget():
    validator = Validator(SCHEMA, "a test", is_input=False)

    for _ in range(50):
        assert validator.problems({"query": "x", "status": "placed"}) == [
            Problem("/query", "must have at least 2 characters, not 1")
        ]


def form(op: str) -> dict[str, Any]:
    expression = {"$ref": "#/$defs/expression"}
    return {
        "type": "object",
        "properties": {"op": {"const": op}, "left": expression, "right": expression},
        "required": ["op"],
        "additionalProperties": False,
    }


EXPRESSION = {
    "$ref": "#/$defs/expression",
    "$defs": {
        "expression": {"anyOf": [{"$ref": f"#/$defs/{op}"} for op in ("and", "or", "not")]},
        **{op: form(op) for op in ("and", "or", "not")},
    },
}


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_constants_exclude_variants_of_a_recursive_union(keyword: str):
    """Trying each form to its end takes 3**60 steps."""
    forms = EXPRESSION["$defs"]["expression"]["anyOf"]  # type: ignore[index]
    schema = {**EXPRESSION, "$defs": {**EXPRESSION["$defs"], "expression": {keyword: forms}}}  # type: ignore[dict-item]
    value: dict[str, Any] = {"op": "not"}
    for _ in range(60):
        value = {"op": "or", "left": value, "right": {"op": "not"}}

    assert problems(schema, value) == []
    value["right"] = {"op": "not", "centre": 1}
    assert ("/right/centre", 'is unknown; known are "op", "left", "right"') in problems(
        schema, value
    )


def test_a_const_next_to_a_ref_is_ignored_in_older_drafts():
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {
            "text": {"type": "string"},
            "node": {
                "properties": {
                    "kind": {"$ref": "#/definitions/text", "const": "a"},
                    "next": {"anyOf": [{"$ref": "#/definitions/node"}, {"type": "null"}]},
                }
            },
        },
        "properties": {"v": {"anyOf": [{"$ref": "#/definitions/node"}, {"type": "null"}]}},
    }

    assert problems(schema, {"v": {"kind": "z", "next": None}}) == []


def test_a_union_error_names_a_mismatched_constant():
    assert ("/op", 'must be "and", not "xor"') in problems(EXPRESSION, {"op": "xor", "left": 1})


ROW = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": "string", "maxLength": 100},
        "mail": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "age": {"type": "integer", "minimum": 0},
        "active": {"type": "boolean"},
    },
    "required": ["id", "name"],
}
ROWS = {"type": "array", "items": ROW}


def rows(count: int) -> list[Any]:
    return [
        {"id": number, "name": "a", "mail": None, "age": 3, "active": True}
        for number in range(count)
    ]


def test_ten_thousand_rows_are_valid():
    plain = {name: {"type": "integer"} for name in "abcde"}
    schema = {"items": {"type": "object", "properties": plain}}

    assert problems(schema, [dict.fromkeys("abcde", 1)] * 10_000) == []


def test_an_expensive_validation_is_not_done_on_the_event_loop():
    validator = Validator(ROWS, "a test", is_input=False)
    wrong = [*rows(1000), {}]

    assert validator.check(rows(10)) == []
    assert validator.check(wrong) is None
    assert [each.pointer for each in validator.problems(wrong)] == ["/1000/id", "/1000/name"]


def test_a_value_is_checked_only_once():
    """A verdict before the report would use up the steps of a brief check."""
    validator = Validator({"items": {"type": "integer"}}, "a test", is_input=False)
    found = validator.check([1] * 900 + ["x"])

    assert found is not None
    assert len(found) == 1


def test_a_recursive_schema_may_take_a_tenth_of_the_steps():
    node = {"properties": {"kids": {"items": {"$ref": "#"}}}}
    validator = Validator(node, "a test", is_input=False)

    assert validator.problems({"kids": [{}] * 500}) == []
    assert validator.problems({"kids": [{}] * 5000}) == [validators.TOO_COMPLEX]


def test_suggestions_for_unknown_names_stay_within_the_budget():
    """A comparison costs as much as many other steps, and the client controls how many there are."""
    known: dict[str, Any] = {f"{'abcdefgh' * 8}{number}": {} for number in range(100)}
    validator = Validator(
        {"properties": known, "additionalProperties": False}, "a test", is_input=False
    )

    assert validator.check({f"{'hgfedcba' * 8}{n}": 1 for n in range(1000)}) is None


def test_a_large_value_is_not_traversed_for_each_constant():
    schema = {"anyOf": [{"properties": {"op": {"const": f"a{number}"}}} for number in range(300)]}
    validator = Validator({"items": schema}, "a test", is_input=False)
    large = [[[1] * 100] * 100]

    assert validator.problems([{"op": large}]) != [validators.TOO_COMPLEX]


@pytest.mark.parametrize(
    ("pattern", "surplus"),
    [
        ("^[a-z]+$", 0),
        ("a{5}b", 4),
        ("a{,5}", 4),
        ("(ab{3}){10}", 38),
        ("(?:[01]{1,50}){50}", 2499),
        (r"[](]{3}\({4}\)", 5),
        (r"\p{L}{20}", 19),
        ("(a|b){3,}", 4),
        ("(a+){7}{2}", 13),
    ],
)
def test_the_states_of_counted_repetitions_count_towards_the_limit(pattern: str, surplus: int):
    assert surplus_of(pattern) == surplus


SLOW = {"type": "string", "pattern": "(?:[01]{1,50}){50}x"}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"text": SLOW}},
        {
            "type": "object",
            "additionalProperties": False,
            "patternProperties": {SLOW["pattern"]: {}},
        },
        {"type": "object", "propertyNames": SLOW},
    ],
)
def test_a_pattern_too_slow_for_a_text_is_not_matched(schema: Any):
    validator = Validator(schema, "here", is_input=True)
    text = "01" * 100_000
    begun_s = time.thread_time()
    value = {"text": text} if "properties" in schema else {text: 1}
    assert validator.check(value) is None
    assert validator.problems(value) == [validators.TOO_COMPLEX]
    # Matching it takes ten seconds.
    assert time.thread_time() - begun_s < 1
    short = "01" * 50 + "x"
    assert validator.problems({"text": short} if "properties" in schema else {short: 1}) == []


def test_a_long_text_may_be_matched_with_a_simple_pattern():
    pattern = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
    schema = {"type": "object", "properties": {"data": {"type": "string", "pattern": pattern}}}
    validator = Validator(schema, "here", is_input=True)
    assert validator.problems({"data": "abcd" * 1_000_000}) == []


NUMBERS = [0.1] * 20_000


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"allOf": [{"multipleOf": 0.1}] * 300}}, NUMBERS),
        ({"allOf": [{"uniqueItems": True}] * 300}, list(range(20_000))),
        (
            {"patternProperties": {f"a|{n}": {"minimum": 1} for n in range(300)}},
            {f"k{n}": 1 for n in range(20_000)},
        ),
        ({"allOf": [{"pattern": f"(a|b)*c{n}|^a"} for n in range(900)]}, "a" * 4_000_000),
        (
            {
                "items": {"allOf": [{"$ref": "#/$defs/many"}] * 20},
                "$defs": {"many": {"allOf": [{"minimum": -n} for n in range(20)]}},
            },
            NUMBERS,
        ),
    ],
)
def test_many_schemas_for_each_part_of_a_large_value_are_not_applied(schema: Any, value: Any):
    """The faster engine has no budget, and holds the interpreter's lock while it works."""
    validator = Validator(schema, "here", is_input=False)

    assert validator.check(value) is None
    assert validator.problems(value) == [validators.TOO_COMPLEX]


def test_schemas_with_a_place_each_may_be_many():
    """Each part of a value gets only those of its own place."""
    rows = [{f"field{n}": {"price": 0.5} for n in range(50)}] * 400
    price = {"type": "object", "properties": {"price": {"type": "number", "multipleOf": 0.25}}}
    row = {"type": "object", "properties": {f"field{n}": price for n in range(50)}}
    columns = {"prefixItems": [{"type": "integer"}] * 200, "items": False}

    assert schemas.check_schema({"items": row}, "here", is_input=False).width < 40
    assert schemas.check_schema(columns, "here", is_input=False).width < 40
    assert messages({"items": {"properties": row["properties"]}}, rows[:5]) == []
