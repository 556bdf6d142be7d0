"""Patterns that may take exponential time."""

from __future__ import annotations

import pkgutil
import re
from importlib import import_module
from types import ModuleType

import pytest
from django.core import validators

from django_mcp import protocol, registry, server
from django_mcp.forms.patterns import may_take_exponential_time

SLOW = [
    # a repetition that is repeated
    r"(a+)+$",
    r"(a*)*$",
    r"^(\w+\s?)*$",
    r"([\w.-]+,?\s*)+$",
    r"^(a|b+)*$",
    r"^(?:(?:a*)b?)*$",
    r"((a+)?b?)*$",
    r"(?:a{2,}){2,}$",
    r"x(?P<name>(?:a+?){1,})y",
    r"(a{1,3})+",
    r"(\d{1,19})+$",
    r"(a*,?){3,}$",
    # repetitions beside each other
    r"(x+x+)+y",
    r"(?:a*?a*?)*b",
    r"(.*a){20}",
    r"(.*a){3}",
    # alternatives for one text
    r"(a|a)*$",
    r"(a|aa)+$",
    r"(?:a|b|ab)*c",
    r"(?:(?:a|b)|[ab])*$",
    r'"(\\.|[^"])*"',
    r"(?i:a|(A))*$",
    r"(?:(E)|(?i:e))*$",
    r"(?:[\u4e00-\u9fff]|([一-丁]))+$",
    r"(?:(?:a{2}|a{3})+)$",
    # what may be empty
    r"(a?){30}a{30}",
    r"(?:a?){30,40}a{30}",
    r"(?:(?:a?)*b)+c",
    r"((a|b?)c?)*$",
    # many ways, though each number is small
    r"(a{1,3}){19}",
    r"(?:(?:a|a){5}){6}",
    # inside look-arounds, and with them
    r"(?=(a+)+$)",
    r"(?!(a+)+$)b",
    r"(?:a+(?!b))+$",
    r"(?:(?=aa)a+)+$",
    r"(?<!x)(?:ab|a|b)*$",
    r"(?:a\B|a)+$",
    # back-references and conditions
    r"(?:(a+)\1)+$",
    r"(?:(a+)|\1b)+$",
    r"(a)?(?:(?(1)a|b)|a)*c",
    # possessive repetitions and atomic groups that leave a choice
    r"(?:(?>a)|a)*c",
    r"(?:a{1,2}+|a)*c",
    r"(?>(a+)+b)",
    r"(a+)++b",
]

OTHERS = [
    r"^[a-z0-9]+(-[a-z0-9]+)*$",
    r"^\w+(?: \w+)*$",
    r"^\s*(\w+)\s*(,\s*\w+\s*)*$",
    r"([a-z]+-)*[a-z]+",
    r"^(?:x(?:y+)z)*$",
    r"((a+)?b)*$",
    r"(a+\b)+",
    r"(\w+\b\s*)*$",
    r"(\d{2})+",
    r"([0-9A-F]{2})+",
    r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}",
    r"(\d{1,4}[ -]?){2,5}",
    r"(\w+\s?){2}",
    r"(?>(a+))+",
    r"(a++)+",
    r"^(?:%25(?:[a-z0-9]|%[a-f0-9]{2})+)?$",
    r"(?:(?:[0-9a-f]{1,4}:){0,5}[0-9a-f]{1,4})?::(?:[0-9]{1,3}\.){3}[0-9]{1,3}",
    r"(?:a|b|\d)*c",
    r'"(\\.|[^"\\])*"',
    r"(?:(?!</a>).)*</a>",
    r"(['\"])(?:(?!\1).)*\1",
    r"(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}",
    r"a*a*b",
]


@pytest.mark.parametrize("pattern", SLOW)
def test_a_pattern_that_matches_a_text_in_many_ways_is_found(pattern: str):
    assert may_take_exponential_time(re.compile(pattern))
    if pattern.isascii() and "\\u" not in pattern:
        assert may_take_exponential_time(re.compile(pattern.encode(), re.IGNORECASE))


@pytest.mark.parametrize("pattern", OTHERS)
def test_other_patterns_are_let_pass(pattern: str):
    assert not may_take_exponential_time(re.compile(pattern))


def test_the_patterns_of_django_are_let_pass():
    found = [
        value
        for validator in vars(validators).values()
        for value in [validator, *(getattr(validator, name, None) for name in dir(validator))]
        if isinstance(getattr(value, "pattern", None), str)
    ]

    assert len(found) > 10
    assert [each for each in found if may_take_exponential_time(each)] == []


def test_a_large_pattern_is_judged_in_the_time_of_a_check():
    names = "|".join(f"{one}{other}" for one in "abcdefghijklmn" for other in "opqrstuvwxyz")

    assert not may_take_exponential_time(re.compile(rf"^(?:{names})(?:[ ,]+(?:{names}))*$"))


@pytest.mark.parametrize("package", [protocol, registry, server])
def test_no_pattern_of_the_core_matches_a_text_in_many_ways(package: ModuleType):
    """They are matched with texts of clients, on the event loop."""
    modules = [
        import_module(each.name)
        for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    found = [
        (module.__name__, name)
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, re.Pattern) and may_take_exponential_time(value)
    ]

    assert len(modules) > 10
    assert found == []
