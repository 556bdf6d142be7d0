"""The grammar of names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.protocol.names import (
    find_hidden_character,
    is_extension_id,
    is_meta_key,
    is_reserved_meta_key,
    is_token,
    is_tool_name,
)


@pytest.mark.parametrize("name", ["a", "find_orders", "v1.find-orders", "A" * 128, "-", "0"])
def test_a_tool_name_has_up_to_128_plain_characters(name):
    assert is_tool_name(name)


@pytest.mark.parametrize("name", ["", "A" * 129, "find orders", "a/b", "é", "a\n", "a,b", "a:b"])
def test_other_tool_names_are_rejected(name):
    assert not is_tool_name(name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Region", True), ("a_b", True), ("!#$%&'*+-.^_`|~09", True)]
    + [(bad, False) for bad in ["", "a b", "a:b", "a\r\n", "(a)", "é", "a/b", '"a"']],
)
def test_a_header_name_is_an_http_token(text, expected):
    assert is_token(text) is expected


META_KEYS = ["progressToken", "a", "1", "a.b", "a-b_c.d", "example.com/name", "example.com/", "a/b"]
BAD_META_KEYS = [
    *("", "/", "/a", "-a", "a-", "a b", ".a", "_a", "1a/b", "a-/b", "a..b/c", "a./b", "-a/b"),
    *("a_b/c", "a/b/c", "é", "example.com/-", "a\n", "a.b/c\n"),
]


@pytest.mark.parametrize("key", META_KEYS)
def test_a_meta_key_is_a_name_after_an_optional_prefix(key):
    assert is_meta_key(key)


@pytest.mark.parametrize("key", BAD_META_KEYS)
def test_other_meta_keys_are_rejected(key):
    assert not is_meta_key(key)


@pytest.mark.parametrize(
    "key",
    [
        "io.modelcontextprotocol/protocolVersion",
        "dev.mcp/x",
        "org.modelcontextprotocol.api/",
        "traceparent",
        "progressToken",
    ],
)
def test_prefixes_whose_second_label_is_the_protocols_are_reserved(key):
    assert is_reserved_meta_key(key)


@pytest.mark.parametrize("key", ["com.example.mcp/x", "mcp/x", "x", "mcp.example/x", "a.mcps/x"])
def test_other_prefixes_are_free(key):
    assert not is_reserved_meta_key(key)


@pytest.mark.parametrize("identifier", ["io.modelcontextprotocol/ui", "com.example/a-b", "a/b"])
def test_an_extension_id_is_a_prefix_and_a_name(identifier):
    assert is_extension_id(identifier)


@pytest.mark.parametrize("identifier", ["", "ui", "com.example/", "/ui", "1a/ui", "a/b/c", "a/-"])
def test_an_extension_id_without_both_parts_is_rejected(identifier):
    assert not is_extension_id(identifier)


@given(st.text())
def test_every_extension_id_is_a_meta_key(text):
    assert is_meta_key(text) or not is_extension_id(text)


@pytest.mark.parametrize(
    "text",
    ["Find orders", "Zwei\nZeilen\tund mehr\r\n", "שלום\u200f!", "👩\u200d🚀", "e\u0301", ""],
)
def test_visible_names_may_be_displayed(text):
    assert find_hidden_character(text) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("abc\u202edef", "U+202E RIGHT-TO-LEFT OVERRIDE at character 3"),
        ("\u2066x", "U+2066 LEFT-TO-RIGHT ISOLATE at character 0"),
        ("a\0b", "U+0000 control character at character 1"),
        ("a\x1b[31m", "U+001B control character at character 1"),
        ("a\x85", "U+0085 control character at character 1"),
        ("hi\U000e0041", "U+E0041 TAG LATIN CAPITAL LETTER A at character 2"),
        ("\ud800", "U+D800 control character at character 0"),
    ],
)
def test_invisible_characters_are_reported_with_their_position(text, found):
    assert find_hidden_character(text) == found
