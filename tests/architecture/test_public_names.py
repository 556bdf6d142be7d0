"""The names that users import: all exist, all are documented."""

from __future__ import annotations

import builtins
import inspect
import re
import typing

import django.contrib.auth.models
import django.core.exceptions
import django.http
import pytest

import django_mcp.calls
import django_mcp.extensions.apps
import django_mcp.inprocess
import django_mcp.models
import django_mcp.test
from tests.architecture.sources import ROOT

REFERENCE = "\n".join(path.read_text() for path in (ROOT / "docs" / "reference").glob("*.md"))
RAISED = re.compile(r"^    ([A-Z]\w+(?:, [A-Z]\w+)*):", re.MULTILINE)
HOMES = (
    django_mcp,
    django_mcp.calls,
    django_mcp.extensions.apps,
    django_mcp.inprocess,
    django_mcp.models,
    django_mcp.test,
    builtins,
    django.contrib.auth.models,
    django.core.exceptions,
    django.http,
    typing,
)
ALIKE = {"to_wire"}  # the same for all: a value's JSON form
NAMES = sorted(django_mcp.__all__)


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_resolves(name: str):
    assert getattr(django_mcp, name) is not None


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_documented(name: str):
    assert re.search(rf"`{name}\b", REFERENCE), f"docs/reference says nothing of {name}"


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_and_its_methods_have_docstrings(name: str):
    things = _documented(name, getattr(django_mcp, name))

    silent = [called for called, thing in things if not inspect.getdoc(thing)]

    assert silent == []


@pytest.mark.parametrize("name", NAMES)
def test_an_error_that_a_public_name_can_raise_can_be_imported(name: str):
    raised = {
        error
        for _, thing in _documented(name, getattr(django_mcp, name))
        for errors in RAISED.findall((inspect.getdoc(thing) or "").partition("Raises:")[2])
        for error in errors.split(", ")
    }

    assert [each for each in raised if not any(hasattr(home, each) for home in HOMES)] == []


def test_a_class_named_in_the_reference_can_be_imported():
    named = {
        each
        for page in ("api", "context")
        for each in re.findall(r"`([A-Z][a-z]+[A-Za-z]*)\b", _page(page))
    }

    assert [each for each in named if not any(hasattr(home, each) for home in HOMES)] == []


def _page(name: str) -> str:
    return (ROOT / "docs" / "reference" / f"{name}.md").read_text()


def _documented(name: str, value: object) -> list[tuple[str, object]]:
    if typing.get_origin(value) is not None:
        # An alias of a type has no docstring of its own.
        return []
    methods = inspect.getmembers(value, inspect.isfunction) if inspect.isclass(value) else []
    ours = [
        (f"{name}.{method}", function)
        for method, function in methods
        if not method.startswith("_")
        and method not in ALIKE
        and function.__module__.startswith("django_mcp")
    ]
    return [(name, value), *ours]
