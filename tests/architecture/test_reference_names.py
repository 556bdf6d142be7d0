"""Everything that users of the package can name is in a reference page, at the place of its owner."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

import django_mcp
from django_mcp.registry.options import CommonOptions, ResourceOptions, TemplateOptions, ToolOptions
from tests.architecture.sources import ROOT

REFERENCE = ROOT / "docs" / "reference"
WORD = re.compile(r"[A-Za-z_]\w*")
CODE = re.compile(r"`([^`]+)`")

OWNERS = {"context": django_mcp.Context, "api": django_mcp.MCPServer}
"""Pages, and the class whose members each has."""

OPTIONS = {
    "tool": ToolOptions,
    "resource": ResourceOptions | TemplateOptions,
    "prompt": CommonOptions,
}
"""Decorators, and the keywords that they take as `**options`."""


def _blocks(page: str) -> list[str]:
    """Return the paragraphs and the rows of tables of a page."""
    text = (REFERENCE / f"{page}.md").read_text()
    return [row for block in text.split("\n\n") for row in re.split(r"\n(?=\| )", block)]


def _names(text: str) -> set[str]:
    return {word for code in CODE.findall(text) for word in WORD.findall(code)}


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the public members of a class; of a method and its twin with the prefix `a` only the method."""
    found = dict(inspect.getmembers_static(cls))
    for name, value in found.items():
        if not name.startswith("_") and not (name.startswith("a") and name[1:] in found):
            yield name, value


def _keywords(value: Callable[..., Any]) -> set[str]:
    parameters = inspect.signature(value).parameters.values()
    return {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}


METHODS = [
    pytest.param(page, name, value, id=f"{page}-{name}")
    for page, cls in OWNERS.items()
    for name, value in _members(cls)
    if inspect.isfunction(value)
]


@pytest.mark.parametrize("page", OWNERS)
def test_each_member_is_on_the_page_of_its_class(page: str):
    known = _names("\n".join(_blocks(page)))

    assert [name for name, _ in _members(OWNERS[page]) if name not in known] == []


@pytest.mark.parametrize(("page", "name", "value"), METHODS)
def test_each_keyword_of_a_method_is_described_with_the_method(
    page: str, name: str, value: Callable[..., Any]
):
    described = [_names(block) for block in _blocks(page)]
    beside = set().union(*(names for names in described if name in names))

    assert _keywords(value) - beside == set()


@pytest.mark.parametrize("name", OPTIONS)
def test_each_option_of_a_decorator_is_described(name: str):
    known = _names("\n".join(_blocks("api")))
    kinds = getattr(OPTIONS[name], "__args__", (OPTIONS[name],))

    assert {key for kind in kinds for key in kind.__annotations__} - known == set()


def _public_modules() -> list[str]:
    tree = ast.parse((ROOT / "docs" / "conf.py").read_text())
    return next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MODULES"
    )


TABLES = "django_mcp.models"
"""Its names are tables, most of which only the package uses."""


@pytest.mark.parametrize("module", sorted({*_public_modules()} - {TABLES}))
def test_what_a_public_module_exports_is_in_the_reference(module: str):
    known = {name for page in REFERENCE.glob("*.md") for name in _names(page.read_text())}

    exported = getattr(import_module(module), "__all__", ())
    assert [name for name in exported if name not in known] == []


def test_the_module_of_routes_is_public():
    assert "django_mcp.routing" in _public_modules()
