"""System check of tools that take answers to questions which they never ask.

Functions are read, and not run. One that passes its context on may ask elsewhere, and is not told.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, get_args

from django.core import checks
from django.core.checks import CheckMessage

from django_mcp.checks.declared import check
from django_mcp.checks.function_text import read_function
from django_mcp.context import Context
from django_mcp.registry import hints
from django_mcp.registry.problems import innermost
from django_mcp.servers import all_servers

_ASKING = ("elicit", "aelicit", "InputRequired")
"""How the names begin that a function asks with."""


@check(id="django_mcp.W051")
def check_unasked() -> Iterator[CheckMessage]:
    """W051: a tool has `ask_by_argument=True`, and asks nothing."""
    for server in all_servers():
        for tool in server.registry.tools.values():
            if tool.asks_by_argument and not _may_ask(tool.handler.origin):
                yield checks.Warning(
                    f"{tool.source} has ask_by_argument=True, and never asks: nothing reads `answers`.",
                    hint="Ask with ctx.elicit(...), of a parameter ctx: Context, or leave ask_by_argument out.",
                )


def _may_ask(given: Any) -> bool:
    """Return whether a function asks, or does what may ask."""
    read = None if hasattr(innermost(given), "__wrapped__") else read_function(given)
    if read is None:
        return True
    node, function = read
    try:
        annotations = hints.resolve_hints(function, "")
    except Exception:  # noqa: BLE001 - annotations are code of the site
        return True
    contexts = {name for name, each in annotations.items() if _is_context(each)}
    nodes = list(ast.walk(ast.Module(body=list(node.body), type_ignores=[])))
    uses = [each for each in nodes if isinstance(each, ast.Attribute)]
    plain = {id(each.value) for each in uses}
    return any(
        (
            isinstance(each, ast.Name)
            and ((each.id in contexts and id(each) not in plain) or each.id.startswith(_ASKING))
        )
        or (isinstance(each, ast.Attribute) and each.attr.startswith(_ASKING))
        for each in nodes
    )


def _is_context(annotation: Any) -> bool:
    plain = hints.strip(annotation)
    classes = [each for each in (plain, *get_args(plain)) if isinstance(each, type)]
    return any(issubclass(each, Context) for each in classes)
