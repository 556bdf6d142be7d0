from __future__ import annotations

import datetime as dt
import json
import re
import uuid
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.protocol.json import (
    EXPONENT_WEIGHT,
    LIST_WEIGHT,
    MAX_DEPTH,
    OBJECT_WEIGHT,
    JSONDecodeError,
    decode,
    encode,
    has_more_values,
    has_repeated_keys,
)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda children: (
        st.lists(children) | st.dictionaries(st.text(st.characters(codec="utf-8")), children)
    ),
    max_leaves=20,
)


@given(json_values)
def test_json_round_trips(value: object) -> None:
    assert decode(encode(value)) == value


@given(json_values)
def test_the_standard_library_parses_the_single_line_output(value: object) -> None:
    text = encode(value)

    assert b"\n" not in text
    assert json.loads(text) == value


@given(st.binary(max_size=60))
def test_any_bytes_decode_or_are_rejected(data: bytes) -> None:
    try:
        decode(data)
    except JSONDecodeError:
        pass


@pytest.mark.parametrize(
    "text",
    [
        b"NaN",
        b"[Infinity]",
        b"[1e999]",
        b'"\xff"',
        b'"\\ud800"',
        b"",
        b"   ",
        b'{"a":1,}',
        b"{} {}",
        b"9" * 5000,
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"\xef\xbb\xbf{}",
        '{"a":1}'.encode("utf-16"),
    ],
    ids=lambda text: repr(text[:12]),
)
def test_invalid_json_is_rejected(text: bytes) -> None:
    with pytest.raises(JSONDecodeError):
        decode(text)


def test_nesting_depth_is_limited_exactly() -> None:
    decode(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)

    with pytest.raises(JSONDecodeError, match="deep"):
        decode(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1))


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert len(decode(b"[" + b",".join([b"[]"] * 5000) + b"]")) == 5000


def test_the_last_of_duplicate_keys_wins() -> None:
    assert decode(b'{"a":1,"a":2}') == {"a": 2}


def test_whole_numbers_stay_exact() -> None:
    assert decode(b"1" + b"0" * 30) == 10**30


def test_common_types_are_serializable() -> None:
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    key = uuid.UUID(int=7)

    assert decode(encode([moment, moment.date(), key, Decimal("1.50")])) == [
        "2026-01-02T03:04:05Z",
        "2026-01-02",
        str(key),
        "1.50",
    ]


def test_an_unknown_object_raises() -> None:
    with pytest.raises(TypeError, match="object cannot be written"):
        encode(object())


def test_lazy_and_safe_strings_are_encoded() -> None:
    class Promise:
        def __str__(self) -> str:
            return "lazy"

    class Safe(str):
        __slots__ = ()

    assert decode(encode([Promise(), Safe("safe")])) == ["lazy", "safe"]


def weight(value: object) -> int:
    """Return the weight of a JSON value, by traversing it."""
    if isinstance(value, dict):
        return OBJECT_WEIGHT + max(len(value) - 1, 0) + sum(map(weight, value.values()))
    if isinstance(value, list):
        return LIST_WEIGHT + max(len(value) - 1, 0) + sum(map(weight, value))
    if isinstance(value, float) and re.search(rb"e[+-]?[23]", encode(value)):
        return EXPONENT_WEIGHT
    return 0


@given(json_values, st.integers(0, 60))
def test_values_are_counted_as_they_will_be_decoded(value: object, limit: int) -> None:
    assert has_more_values(encode(value), limit) is (weight(value) > limit)


@pytest.mark.parametrize("text", ["x" * 1000, ",[{" * 1000, '\\",' * 1000, "\\\\,[" * 1000])
def test_a_long_string_counts_as_one_value(text: str) -> None:
    assert not has_more_values(encode({"a": text, "b": [text, text]}), 20)


@pytest.mark.parametrize("number", [b"1e300", b"5E-324", b"1.7976931348623157e+308", b"1e-0300"])
def test_expensive_numbers_count_as_several_values(number: bytes):
    def listed(count: int) -> bytes:
        return b'{"e": "1e300", "a": [' + b",".join([number] * count) + b"]}"

    assert not has_more_values(listed(65), 1120)
    assert has_more_values(listed(75), 1120)


@pytest.mark.parametrize("number", [b"1e-05", b"2.5e-7", b"1e+10", b"true", b"false"])
def test_other_numbers_with_an_exponent_count_once(number: bytes):
    assert not has_more_values(b"[" + b",".join([number] * 1000) + b"]", 1120)


@pytest.mark.parametrize("sign", [b"", b"-"])
def test_numbers_with_many_digits_count_as_several_values(sign: bytes):
    def listed(count: int) -> bytes:
        text = encode({"text": "7" * 100_000})[:-1]
        numbers = b",".join([sign + b"1234567890" * 400] * count)
        return text + b', "numbers": [' + numbers + b"]}"

    # Each of 4,000 digits: 62 runs of 64 digits.
    assert not has_more_values(listed(140), 115_000)
    assert has_more_values(listed(145), 115_000)


@pytest.mark.parametrize(
    "number", [b"9" + b"0" * 108 + b"e199", b"0." + b"0" * 108 + b"1e-199", b"1" * 107 + b"e+201"]
)
def test_the_digits_of_an_expensive_number_may_hide_its_exponent(number: bytes):
    def listed(count: int) -> bytes:
        return b"[" + b",".join([number] * count) + b"]"

    assert not has_more_values(listed(300), 115_000)
    assert has_more_values(listed(8_500), 115_000)


@pytest.mark.parametrize(
    ("text", "has_any"),
    [
        (b'{"a": 1, "b": {"a": 1}}', False),
        (b'[{"a": 1}, {"a": 1}]', False),
        (b'{"a": 1, "\\u0061": 2}', True),
        (b'{"b": [{"a": {}, "a": {}}], "c": {}}', True),
    ],
)
def test_keys_that_an_object_has_twice_are_found(text: bytes, has_any: bool):
    decode(text)
    assert has_repeated_keys(text) is has_any
