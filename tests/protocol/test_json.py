from __future__ import annotations

import datetime as dt
import json
import uuid
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.protocol.json import MAX_DEPTH, JSONDecodeError, Raw, decode, encode

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
def test_what_is_encoded_decodes_to_the_same(value: object) -> None:
    assert decode(encode(value)) == value


@given(json_values)
def test_the_standard_library_reads_what_is_encoded_on_one_line(value: object) -> None:
    text = encode(value)

    assert b"\n" not in text
    assert json.loads(text) == value


@given(st.binary(max_size=60))
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
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
def test_what_is_not_json_is_refused(text: bytes) -> None:
    """SEC-09, RPC-01"""
    with pytest.raises(JSONDecodeError):
        decode(text)


def test_nesting_is_bounded_exactly() -> None:
    decode(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)

    with pytest.raises(JSONDecodeError, match="deep"):
        decode(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1))


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert len(decode(b"[" + b",".join([b"[]"] * 5000) + b"]")) == 5000


def test_the_last_of_duplicate_keys_wins() -> None:
    assert decode(b'{"a":1,"a":2}') == {"a": 2}


def test_whole_numbers_stay_exact() -> None:
    assert decode(b"1" + b"0" * 30) == 10**30


def test_common_values_have_a_form() -> None:
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    key = uuid.UUID(int=7)

    assert decode(encode([moment, moment.date(), key, Decimal("1.50"), Raw(b'{"x":1}')])) == [
        "2026-01-02T03:04:05Z",
        "2026-01-02",
        str(key),
        "1.50",
        {"x": 1},
    ]


def test_an_unknown_object_is_a_fault() -> None:
    with pytest.raises(TypeError, match="object cannot be written"):
        encode(object())


def test_texts_of_other_kinds_are_read() -> None:
    class Promise:
        def __str__(self) -> str:
            return "lazy"

    class Safe(str):
        __slots__ = ()

    assert decode(encode([Promise(), Safe("safe")])) == ["lazy", "safe"]
