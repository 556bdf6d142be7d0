"""Find the names that `has_permission` of a `ModelTools` class compares its action with, and that are no actions.

A rule for `"change"`, which is what `ModelAdmin` calls it, would not hold for `"update"`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from django_mcp.checks.asked import find_texts
from django_mcp.checks.function_text import read_function

ACTIONS = ("search", "get", "create", "update", "delete")
"""What `has_permission` is asked about."""

ASKED_AS = {"summarize": "search", "update_many": "update", "resource": "get"}
"""The actions of options that `has_permission` knows under another name."""

_MEANT = {
    **ASKED_AS,
    "add": "create",
    "change": "update",
    "destroy": "delete",
    "edit": "update",
    "list": "search",
    "partial_update": "update",
    "remove": "delete",
    "retrieve": "get",
    "view": "get",
}
"""What other names for actions are here, above all those of `ModelAdmin` and of REST views."""

_MAX_NAME = 80


def find_unknown_actions(method: Any) -> Iterator[tuple[str, str | None]]:
    """Yield the names that the code of `has_permission` compares its action with in vain, and what they may mean.

    A name beside the one that it means is harmless, as `summarize` in `("search", "summarize")`.
    """
    read = read_function(method)
    if read is None:
        return
    node, function = read
    given = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
    if len(given) < 3 or _is_assigned(node, given[2]):
        return
    unknown: dict[str, str | None] = {}
    for names in _find_compared(node, given[2], function.__globals__):
        for name in names:
            if name not in ACTIONS and _MEANT.get(name) not in names:
                unknown[f"{name:.{_MAX_NAME}}"] = _MEANT.get(name)
    yield from unknown.items()


def _is_assigned(node: ast.AST, parameter: str) -> bool:
    """Return whether a name may stand for something else than the parameter."""
    names = [
        getattr(each, "arg", None) or (each.id if isinstance(each, ast.Name) else "")
        for each in ast.walk(node)
        if isinstance(each, ast.arg)
        or (isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load))
    ]
    return names.count(parameter) > 1


def _find_compared(node: ast.AST, parameter: str, values: dict[str, Any]) -> Iterator[list[str]]:
    """Yield the texts of each comparison with a parameter."""

    def is_parameter(each: ast.expr) -> bool:
        return isinstance(each, ast.Name) and each.id == parameter

    for each in ast.walk(node):
        if isinstance(each, ast.Match) and is_parameter(each.subject):
            parts = [part for case in each.cases for part in ast.walk(case.pattern)]
            patterns = [part.value for part in parts if isinstance(part, ast.MatchValue)]
            yield [text for pattern in patterns for text in find_texts(pattern, values)]
        elif isinstance(each, ast.Compare):
            operands = [each.left, *each.comparators]
            for left, operator, right in zip(operands, each.ops, each.comparators, strict=False):
                if isinstance(operator, ast.Eq | ast.NotEq):
                    other = right if is_parameter(left) else left if is_parameter(right) else None
                    yield [] if other is None else list(find_texts(other, values))
                elif isinstance(operator, ast.In | ast.NotIn) and is_parameter(left):
                    yield [] if _is_text(right, values) else list(find_texts(right, values))


def _is_text(node: ast.expr, values: dict[str, Any]) -> bool:
    """Return whether an expression is a single text, in which a part of it is looked for."""
    known = values.get(node.id) if isinstance(node, ast.Name) else None
    return isinstance(node, ast.Constant) or isinstance(known, str)
