"""Imports have a direction: no two modules need each other, and no two packages beside each other do.

Every import counts, in a function and for types alone as well.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.architecture.sources import PACKAGE, source_files, tree_of

Graph = Mapping[str, Iterable[str]]


def modules() -> dict[str, Path]:
    """Return the file of each module, by its dotted name."""
    found = {}
    for path in source_files():
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imported_by(tree: ast.Module, known: Iterable[str]) -> set[str]:
    """Return the modules of the package that a module imports anywhere."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = {f"{node.module}.{alias.name}" for alias in node.names} & set(known)
            found |= names or {node.module}
    return found & set(known)


def is_inside(name: str, package: str) -> bool:
    return name.startswith(f"{package}.")


@cache
def imports() -> dict[str, set[str]]:
    """Return what each module imports, but for what a package and its contents do."""
    return {
        name: {
            each
            for each in imported_by(tree_of(path), MODULES)
            if each != name and not is_inside(each, name) and not is_inside(name, each)
        }
        for name, path in MODULES.items()
    }


def between_children(graph: Graph, package: str) -> dict[str, set[str]]:
    """Return which children of a package import which others, directly or through their contents."""
    depth = package.count(".") + 2
    found = defaultdict(set)
    for name, targets in graph.items():
        for target in targets:
            if is_inside(name, package) and is_inside(target, package):
                ends = (".".join(each.split(".")[:depth]) for each in (name, target))
                child, other = ends
                if child != other:
                    found[child].add(other)
    return found


def find_cycle(graph: Graph) -> list[str]:
    """Return the names of a cycle, each imported by the one that follows; nothing if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


MODULES = modules()
PACKAGES = sorted({name.rpartition(".")[0] for name in MODULES if "." in name})


def test_no_two_modules_import_each_other():
    cycle = find_cycle(imports())
    assert cycle == [], " is imported by ".join(cycle)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_two_subpackages_import_each_other(package: str):
    cycle = find_cycle(between_children(imports(), package))
    assert cycle == [], " is imported by ".join(cycle)


def test_a_cycle_through_a_third_module_is_detected():
    graph = {
        "site.a.one": {"site.b.two"},
        "site.b.other": {"site.c"},
        "site.c": {"site.a.last"},
        "site.a.last": set[str](),
    }

    assert find_cycle(graph) == []
    assert set(find_cycle(between_children(graph, "site"))) == {"site.a", "site.b", "site.c"}


def test_imports_in_functions_and_for_types_count():
    tree = ast.parse(
        "if TYPE_CHECKING:\n    from site.a import one\n"
        "def f():\n    import site.b.two\n    from site.c import NAME\n"
    )

    known = {"site.a.one", "site.b.two", "site.c"}
    assert imported_by(tree, known) == known
