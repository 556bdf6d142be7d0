"""Rules about the package's source that no linter checks."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.sources import REVISIONS, code_strings, shown, source_files, tree_of

DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")
VERSION_WORDS = {"revision", "revisions", "protocol_version"}
ORDERINGS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)

OUTSIDE_REVISIONS = [path for path in source_files() if REVISIONS not in path.parents]


@pytest.mark.parametrize("path", OUTSIDE_REVISIONS, ids=shown)
def test_only_the_revision_records_know_version_dates(path: Path):
    found = [(line, text) for line, text in code_strings(tree_of(path)) if DATE.search(text)]

    assert found == [], f"{shown(path)}: put the difference into a Revision record"


@pytest.mark.parametrize("path", OUTSIDE_REVISIONS, ids=shown)
def test_nothing_outside_the_revision_records_compares_versions(path: Path):
    found = [
        node.lineno
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Compare) and _compares_versions(node)
    ]

    assert found == [], f"{shown(path)}: ask the Revision record a question instead"


def test_the_rules_detect_violations():
    late = ast.parse("if peer.revision.name >= oldest: pass\nx = f'since {1} 2025-06-18'")

    assert any(DATE.search(text) for _, text in code_strings(late))
    assert any(_compares_versions(n) for n in ast.walk(late) if isinstance(n, ast.Compare))


def _compares_versions(node: ast.Compare) -> bool:
    operands = [node.left, *node.comparators]
    is_ordered = any(isinstance(operator, ORDERINGS) for operator in node.ops)
    is_by_name = any(isinstance(operand, ast.Constant) for operand in operands)
    return any(_is_version(operand) for operand in operands) and (
        is_ordered or (is_by_name and not _asks_for_none(node))
    )


def _is_version(node: ast.expr) -> bool:
    """Whether an expression is a revision, or the name of one."""
    if isinstance(node, ast.Attribute) and node.attr == "name":
        node = node.value
    word = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return word.lower() in VERSION_WORDS


def _asks_for_none(node: ast.Compare) -> bool:
    return any(isinstance(each, ast.Constant) and each.value is None for each in node.comparators)
