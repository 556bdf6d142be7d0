"""The reference pages match the code that they document."""

from __future__ import annotations

import ast
import pkgutil
import re
from functools import cache
from pathlib import Path

import pytest

from django_mcp.registry.schemas import DIALECTS
from tests.architecture.sources import PACKAGE, ROOT, code_strings, source_files, tree_of
from tests.support import checks_page
from tests.support.checks_page import CHECK_ID

REFERENCE = ROOT / "docs" / "reference"
DOTTED = re.compile(r"(?<![\w./\"-])django_mcp(?:\.\w+){2,}\b(?<![A-Z]\d{3})")
"""Something in a module; not the id of a check, a template or a file."""

NAMED = sorted(
    {name for file in (ROOT / "docs").rglob("*.md") for name in DOTTED.findall(file.read_text())}
)


def test_the_reference_lists_exactly_the_checks():
    strings = [text for path in source_files() for _, text in code_strings(tree_of(path))]
    raised = {found for text in strings for found in CHECK_ID.findall(text)}

    assert set(CHECK_ID.findall(checks_page.explanations())) == raised
    assert set(CHECK_ID.findall(checks_page.block())) == raised


def test_every_public_module_of_contrib_has_a_page_in_the_python_reference():
    declared = {
        importable(path): [text for line, text in code_strings(tree_of(path)) if line in lines]
        for path in (PACKAGE / "contrib").rglob("*.py")
        if (lines := lines_of_all(tree_of(path)))
    }
    public = {module for module, names in declared.items() if names}

    tree = ast.parse((ROOT / "docs" / "conf.py").read_text())
    listed = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MODULES"
    )
    assert public <= set(listed)
    assert listed == sorted(listed)


def importable(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def lines_of_all(tree: ast.Module) -> range | None:
    """Return the lines of a module's `__all__`."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if [ast.unparse(each) for each in targets] == ["__all__"]:
            return range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return None


def test_every_command_is_documented():
    commands = {path.stem for path in (PACKAGE / "management" / "commands").glob("mcp_*.py")}

    headings = re.findall(r"^## .*", page("commands"), re.MULTILINE)
    assert set(re.findall(r"\bmcp_\w+", " ".join(headings))) == commands


def page(name: str) -> str:
    return (REFERENCE / f"{name}.md").read_text()


def test_the_schema_dialects_are_documented():
    text = (ROOT / "docs" / "howto" / "handlers.md").read_text()

    assert set(re.findall(r"`(https?://json-schema\.org/[^`]+/schema)", text)) == set(DIALECTS)


@pytest.mark.parametrize("name", NAMED)
def test_dotted_names_in_the_documentation_exist(name: str):
    assert name in find_exported() or pkgutil.resolve_name(name) is not None


@cache
def find_exported() -> set[str]:
    """Return the names of metrics and attributes, which no module has."""
    paths = [path for path in source_files() if path.parent.name == "telemetry"]
    return {text for path in paths for _, text in code_strings(tree_of(path))}
