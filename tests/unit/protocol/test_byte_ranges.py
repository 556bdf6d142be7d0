"""Cursors are opaque and signed; parts of a text make up the whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.protocol.byte_ranges import (
    MAX_CURSOR_CHARS,
    ByteRange,
    decode_cursor,
    encode_cursor,
    find_range,
)
from django_mcp.protocol.errors import Refusal
from tests.unit.protocol.test_json import json_values


def sign(data: bytes) -> str:
    return "signed:" + data.hex()


def unsign(text: str) -> bytes | None:
    if not text.startswith("signed:"):
        return None
    try:
        return bytes.fromhex(text.removeprefix("signed:"))
    except ValueError:
        return None


KINDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
NAMES = st.text(st.characters(exclude_categories=["Cs"]))


@given(KINDS, NAMES)
def test_a_cursor_contains_the_entry_it_follows(kind, last):
    assert decode_cursor(encode_cursor(kind, last, sign), kind, unsign) == last


@given(KINDS, KINDS, NAMES)
def test_a_cursor_is_valid_only_for_its_list(kind, other, last):
    found = decode_cursor(encode_cursor(kind, last, sign), other, unsign)

    assert found == (last if other == kind else None)


@given(json_values)
def test_any_other_value_is_an_invalid_cursor(value):
    assert decode_cursor(value, "tools", unsign) is None


@pytest.mark.parametrize("payload", [b"", b"tools", b"tools\0\xff", b"\xff\0x"])
def test_another_signed_payload_is_an_invalid_cursor(payload):
    assert decode_cursor(sign(payload), "tools", unsign) is None


def test_an_overlong_cursor_is_rejected_without_reading_it():
    def explode(text: str) -> bytes:
        raise AssertionError("opened")

    assert decode_cursor("x" * (MAX_CURSOR_CHARS + 1), "tools", explode) is None


def test_an_entry_with_an_overlong_cursor_gets_none():
    with pytest.raises(ValueError, match="shorter name"):
        encode_cursor("resources", "x" * MAX_CURSOR_CHARS, sign)


def test_a_kind_must_not_contain_the_separator():
    with pytest.raises(ValueError, match="NUL"):
        encode_cursor("a\0b", "x", sign)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(texts, st.integers(4, 9))
def test_fixed_size_ranges_make_up_the_whole_text(text: str, size: int):
    count = len(text.encode()) // size + 1

    parts = [ByteRange(number * size, size).cut(text) for number in range(count)]

    assert "".join(parts) == text


@given(texts, st.integers(1, 9))
def test_reading_after_each_range_reaches_the_end(text: str, size: int):
    found, offset = "", 0
    while part := ByteRange(offset, size).cut(text):
        found += part
        offset += len(part.encode())

    assert found == text


@given(texts, st.integers(4, 9), st.integers(0, 200))
def test_a_range_exceeds_its_size_by_at_most_one_character(text: str, size: int, offset: int):
    assert len(ByteRange(offset, size).cut(text).encode()) <= size + 3


@given(texts, st.integers(0, 300))
def test_a_range_without_a_length_is_the_rest(text: str, offset: int):
    rest = ByteRange(offset, None).cut(text)

    assert text.endswith(rest)
    assert (rest == "") is (offset >= len(text.encode()))


@pytest.mark.parametrize(
    ("params", "clamp", "found"),
    [
        ({}, 5, None),
        ({"offset": 3}, None, ByteRange(3, None)),
        ({"offset": 3}, 5, ByteRange(3, 5)),
        ({"length": 9}, 5, ByteRange(0, 5)),
        ({"offset": 1, "length": 2}, 5, ByteRange(1, 2)),
        ({"offset": 10**30, "length": 10**30}, None, ByteRange(10**30, 10**30)),
    ],
)
def test_a_range_is_parsed(params: dict[str, Any], clamp: int | None, found: ByteRange | None):
    assert find_range(params, clamp) == found


@pytest.mark.parametrize("value", [-1, 1.5, "1", True, None, [], {}])
@pytest.mark.parametrize("key", ["offset", "length"])
def test_an_invalid_byte_count_is_rejected(key: str, value: Any):
    assert isinstance(find_range({key: value}, None), Refusal)
    assert isinstance(find_range({"length": 0}, None), Refusal)
