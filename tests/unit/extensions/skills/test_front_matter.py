"""Front matter is read as every reader of YAML reads it, or refused with the remedy."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import assume, example, given
from hypothesis import strategies as st

from django_mcp.extensions.skills.core.front_matter import (
    MAX_FRONT_MATTER_BYTES,
    FrontMatterError,
    read_front_matter,
    write_front_matter,
)

WHOLE = """---
# What hosts show.
name: refund-order
description: >-
  Refund an order, in full or in part.
  Use it when a customer asks for money back.

license: Apache-2.0   # of the text
compatibility: Needs the tools of the shop,
  and a signed-in user
metadata:
  author: "Ops: Berlin"
  version: "1.10"
  reviewed: true
  level: 3
  note: 'it''s a draft'
  nested:
    deep: yes please
allowed-tools:
- find_orders
- "refund_order"
tags: [orders, money]
links: {"a": ["b", 1]}
steps: |
  1. Find it.
    - by number

  2. Refund it.
---

# Refund
"""


def read(yaml_text: str) -> Any:
    return read_front_matter(f"---\n{yaml_text}\n---\n")


def test_front_matter_is_read_as_yaml_is():
    front_matter = read_front_matter(WHOLE)

    assert front_matter == yaml.safe_load(WHOLE.split("---\n")[1])
    assert front_matter["metadata"]["version"] == "1.10"
    assert front_matter["allowed-tools"] == ["find_orders", "refund_order"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "does not begin with a line ---"),
        ("\ufeff---\nname: a\n---\n", "does not begin with a line ---"),
        ("---\r\nname: a\r\n---\r\n", "does not begin with a line ---"),
        ("---\nname: a\r\n---\n", "a carriage return"),
        ("---\nname: a\n", "no line --- at its end"),
        ("---\n---\n", "nothing in it"),
        ("---\n" + "a: b\n" * MAX_FRONT_MATTER_BYTES, f"more than {MAX_FRONT_MATTER_BYTES} bytes"),
    ],
)
def test_what_surrounds_front_matter(text: str, told: str):
    with pytest.raises(FrontMatterError, match=told):
        read_front_matter(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("description: Use when: asked", "line 2: a text with a colon"),
        ("a: b\nversion: 1.10", 'line 3: not every reader takes 1.10 for a text: write "1.10"'),
        ("day: 2026-01-31", 'write "2026-01-31"'),
        ("at: 12:30:45", 'write "12:30:45"'),
        ("code: 012", 'write "012"'),
        ("code: 0x1F", 'write "0x1F"'),
        ("answer: yes", 'write "yes"'),
        ("answer: Null", 'write "Null"'),
        ("on: a", 'the key "on" in quotes'),
        ("name: a\nname: b", "the key 'name' is there twice"),
        ("name:", "the key has no value"),
        ("a: &b c", "begins with &"),
        ("a: *b", "begins with \\*"),
        ("a: !!python/object:os.system b", "begins with !"),
        ("a: @b", "begins with @"),
        ("a:\tb", "a tab"),
        ("a: b\x00", "it has '\\\\x00'"),
        ('a: "b', "the quotes do not end"),
        ('a: "b" c', "something follows them"),
        ('a: "\\x41"', "as in JSON"),
        ('a: "\\ud83d\\ude00"', "the character itself"),
        ("a: b\n\n  c", "an empty line inside of a text"),
        ("a: b\n  # c", "a comment inside of a text"),
        ("a: >\n  b\n    c", "indented more"),
        ("a: |\n    b\n  c", "indented less"),
        ("a: |2\n   b", "begins with |"),
        ("a: |\nb: c", "the text is empty"),
        ("a: [b, {c: d}]", "in one line as JSON"),
        ('a: {"b": 1.5}', "not whole"),
        ("a: {b: c}", "in one line as JSON"),
        ("a:\n  - b: c", "a text with a colon"),
        ("a\nb: c", "it is no `key: value`"),
        ("a: b\n...", "... ends the front matter"),
        ("a:\n  b: c\n d: e", "belongs to nothing"),
        (
            "a:\n " + "".join(f"{' ' * n}a:\n " for n in range(1, 9)) + " " * 20 + "b: c",
            "levels deep",
        ),
    ],
)
def test_what_readers_of_yaml_read_differently_is_refused(text: str, told: str):
    with pytest.raises(FrontMatterError, match=told):
        read(text)


PIECES = st.sampled_from(
    [
        *"ab10-:#'\"[]{},.|>&*!%@`?\\ ~=\n",
        "\n  ",
        "\n    ",
        "\n- ",
        "\n  - ",
        ": ",
        "a: ",
        "key: ",
        "yes",
        "null",
        "1.5",
        "2026-01-31",
        "|\n  ",
        ">-\n  ",
        " # ",
        "ü",
        "\x85",
        "\u2028",
        "\xa0",
    ]
)


@given(st.lists(PIECES, max_size=12).map("".join))
@example("a: b\n  - c")
@example("a: b\n  c:\n")
@example("a: >\n  b\n\n\n  c\n\n")
@example("a: |\n  b  \n  c\n# d")
@example("a: -1")
@example("a: - b")
@example("a: ?b")
@example("a:\n  - b\n    c")
@example("a:\n- b\n  - c")
@example("a: b #c\n  d")
@example("a: b:c")
@example("a: '---'")
def test_what_is_accepted_is_read_alike_by_pyyaml(text: str):
    assume("---" not in text.split("\n"))
    try:
        front_matter = read(f"first: x\n{text}")
    except FrontMatterError:
        return

    assert front_matter == yaml.safe_load(f"first: x\n{text}\n")


SCALARS = st.text(max_size=20) | st.integers(-(10**9), 10**9) | st.booleans()
KEYS = st.from_regex(r"[a-m][a-z_.-]{1,9}", fullmatch=True).filter(
    lambda key: key not in ("false", "no")
)


@given(
    st.dictionaries(
        KEYS,
        SCALARS
        | st.lists(SCALARS, min_size=1, max_size=3)
        | st.dictionaries(KEYS, SCALARS, min_size=1, max_size=3),
        min_size=1,
        max_size=4,
    )
)
def test_what_is_written_is_read_again(fields: dict[str, Any]):
    try:
        text = write_front_matter(fields)
    except ValueError:
        return

    assert read_front_matter(text) == fields == yaml.safe_load(text.split("---\n")[1])
