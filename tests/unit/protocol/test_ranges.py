"""Parts of a text: never half a character, and together the whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.ranges import ByteRange, find_range

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(texts, st.integers(4, 9))
def test_parts_of_a_fixed_size_make_up_the_whole(text: str, size: int):
    count = len(text.encode()) // size + 1

    parts = [ByteRange(number * size, size).cut(text) for number in range(count)]

    assert "".join(parts) == text


@given(texts, st.integers(1, 9))
def test_who_goes_on_behind_what_came_gets_to_the_end(text: str, size: int):
    found, offset = "", 0
    while part := ByteRange(offset, size).cut(text):
        found += part
        offset += len(part.encode())

    assert found == text


@given(texts, st.integers(4, 9), st.integers(0, 200))
def test_a_part_is_larger_than_asked_for_by_the_rest_of_a_character_at_most(
    text: str, size: int, offset: int
):
    assert len(ByteRange(offset, size).cut(text).encode()) <= size + 3


@given(texts, st.integers(0, 300))
def test_without_a_length_it_is_the_rest(text: str, offset: int):
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
def test_a_part_is_asked_for(params: dict[str, Any], clamp: int | None, found: ByteRange | None):
    assert find_range(params, clamp) == found


@pytest.mark.parametrize("value", [-1, 1.5, "1", True, None, [], {}])
@pytest.mark.parametrize("key", ["offset", "length"])
def test_what_is_no_number_of_bytes_is_refused(key: str, value: Any):
    assert isinstance(find_range({key: value}, None), Refusal)
    assert isinstance(find_range({"length": 0}, None), Refusal)
