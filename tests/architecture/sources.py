"""The package's own source files, as the architecture tests look at them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "django_mcp"
REVISIONS = PACKAGE / "protocol" / "revisions"


def source_files() -> list[Path]:
    """Return every Python file of the package but its migrations."""
    return sorted(path for path in PACKAGE.rglob("*.py") if "migrations" not in path.parts)


def shown(path: Path) -> str:
    """Return a file's path as a reader of the repository writes it."""
    return path.relative_to(ROOT).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    """Return a file's syntax tree."""
    return ast.parse(path.read_text(), filename=str(path))


def code_strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of the string constants that are no docstrings."""
    prose = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value
