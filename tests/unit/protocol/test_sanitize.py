"""Names that clients choose, escaped for display."""

from __future__ import annotations

import pytest

from django_mcp.protocol.sanitize import clean

INVISIBLE = [
    *(
        "\u3164",
        "\u115f",
        "\u1160",
        "\uffa0",
        "\u2800",
        "\u034f",
        "\u17b4",
        "\u180b",
        "\ufe00",
        "\ufe0f",
    ),
    *(
        "\ufffc",
        "\U000e0100",
        "\u200b",
        "\u2060",
        "\u00ad",
        "\u00a0",
        "\u2003",
        "\U000e0041",
        "\x00",
        "\ud800",
    ),
]


@pytest.mark.parametrize("character", INVISIBLE)
def test_invisible_characters_in_a_name_are_escaped(character: str):
    assert clean(character * 3, 10) == "\ufffd" * 3
    assert clean(f"a{character}b", 10) == "a\ufffdb"


@pytest.mark.parametrize(
    "name", ["Ann", "Größe", "e\u0301", "クライアント", "⚙\ufe0f tool", "عميل", "a b"]
)
def test_other_names_are_unchanged(name: str):
    assert clean(name, 20) == name


def test_a_variation_selector_alone_or_after_a_space_is_invisible():
    assert clean("a\ufe0f \ufe0f", 10) == "a\ufffd \ufffd"
    assert clean("\u2800\ufe0f", 10) == "\ufffd\ufffd"
