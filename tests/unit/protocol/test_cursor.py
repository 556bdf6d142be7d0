"""Cursors of paged lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.protocol.cursor import MAX_CURSOR_CHARS, decode, encode
from tests.unit.protocol.test_json import json_values


def seal(data: bytes) -> str:
    return "sealed:" + data.hex()


def unseal(text: str) -> bytes | None:
    if not text.startswith("sealed:"):
        return None
    try:
        return bytes.fromhex(text.removeprefix("sealed:"))
    except ValueError:
        return None


KINDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
NAMES = st.text(st.characters(exclude_categories=["Cs"]))


@given(KINDS, NAMES)
def test_a_cursor_names_the_entry_it_was_made_after(kind, last):
    assert decode(encode(kind, last, seal), kind, unseal) == last


@given(KINDS, KINDS, NAMES)
def test_a_cursor_is_good_for_its_own_list_only(kind, other, last):
    found = decode(encode(kind, last, seal), other, unseal)

    assert found == (last if other == kind else None)


@given(json_values)
def test_any_other_value_is_no_cursor(value):
    assert decode(value, "tools", unseal) is None


@pytest.mark.parametrize("payload", [b"", b"tools", b"tools\0\xff", b"\xff\0x"])
def test_a_sealed_payload_of_another_form_is_no_cursor(payload):
    assert decode(seal(payload), "tools", unseal) is None


def test_a_cursor_that_is_too_long_is_not_even_opened():
    def explode(text: str) -> bytes:
        raise AssertionError("opened")

    assert decode("x" * (MAX_CURSOR_CHARS + 1), "tools", explode) is None


def test_an_entry_whose_cursor_would_be_refused_gets_none():
    with pytest.raises(ValueError, match="shorter name"):
        encode("resources", "x" * MAX_CURSOR_CHARS, seal)


def test_a_kind_must_not_hold_what_separates_it():
    with pytest.raises(ValueError, match="NUL"):
        encode("a\0b", "x", seal)
