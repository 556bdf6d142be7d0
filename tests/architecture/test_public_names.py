"""The names that users import: all there, all told about."""

from __future__ import annotations

import inspect
import re

import pytest

import django_mcp
from tests.architecture.sources import ROOT

REFERENCE = "\n".join(path.read_text() for path in (ROOT / "docs" / "reference").glob("*.md"))
ALIKE = {"to_wire"}  # the same for all: a value's JSON form
NAMES = sorted(django_mcp.__all__)


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_resolves(name: str):
    assert getattr(django_mcp, name) is not None


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_stands_in_the_reference(name: str):
    assert re.search(rf"`{name}\b", REFERENCE), f"docs/reference says nothing of {name}"


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_and_its_methods_say_what_they_do(name: str):
    things = _documented(name, getattr(django_mcp, name))

    silent = [called for called, thing in things if not inspect.getdoc(thing)]

    assert silent == []


def _documented(name: str, value: object) -> list[tuple[str, object]]:
    methods = inspect.getmembers(value, inspect.isfunction) if inspect.isclass(value) else []
    ours = [
        (f"{name}.{method}", function)
        for method, function in methods
        if not method.startswith("_")
        and method not in ALIKE
        and function.__module__.startswith("django_mcp")
    ]
    return [(name, value), *ours]
