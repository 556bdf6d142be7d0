"""Patterns that repeat a repetition."""

from __future__ import annotations

import re

import pytest

from django_mcp.contrib.patterns import has_nested_repetition

SLOW = [
    r"(a+)+$",
    r"(a*)*$",
    r"^(\w+\s?)*$",
    r"([\w.-]+,?\s*)+$",
    r"^(a|b+)*$",
    r"^(?:(?:a*)b?)*$",
    r"((a+)?b?)*$",
    r"(?:a{2,}){2,}$",
    r"x(?P<name>(?:a+?){1,})y",
    r"(?=(a+)+$)",
    r"(a{1,3})+",
    r"(\d{1,19})+$",
]

OTHERS = [
    r"^[a-z0-9]+(-[a-z0-9]+)*$",
    r"^\w+(?: \w+)*$",
    r"([a-z]+-)*[a-z]+",
    r"^(?:x(?:y+)z)*$",
    r"((a+)?b)*$",
    r"(a+\b)+",
    r"(\d{2})+",
    r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}",
    r"(?>(a+))+",
    r"(a++)+",
]


@pytest.mark.parametrize("pattern", SLOW)
def test_a_repeated_repetition_is_found(pattern: str):
    assert has_nested_repetition(re.compile(pattern))
    assert has_nested_repetition(re.compile(pattern.encode(), re.IGNORECASE))


@pytest.mark.parametrize("pattern", OTHERS)
def test_other_patterns_are_let_pass(pattern: str):
    assert not has_nested_repetition(re.compile(pattern))
