"""System checks of what functions keep in their process: results in a cache of `functools`, and values in their modules."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage, Info

from django_mcp.checks.declared import check
from django_mcp.checks.function_text import FunctionText, Known, read_text
from django_mcp.registry.problems import innermost
from django_mcp.servers import all_servers

_CACHING: Any = type(lru_cache(abs))
"""The class of what `lru_cache` and `cache` make of a function."""

_HINT = (
    "Use cache.get_or_set() of django.core.cache with a timeout, or take the cache away. Silence this check if the "
    "result depends on nothing but the arguments."
)


@check(id="django_mcp.W056")
def check_cached() -> Iterator[CheckMessage]:
    """W056: a cache of `functools` keeps the results of a function, which then does not run again."""
    for server in all_servers():
        for entry in server.registry.entries():
            if _is_cached(entry.handler.origin):
                yield checks.Warning(
                    f"{entry.source} is inside of a cache of functools: a call with the arguments of an earlier one does "
                    "not run, and gets its result, in each process another.",
                    hint=_HINT,
                )
                continue
            text = read_text(entry.handler.origin)
            for function, line in () if text is None else text.find_called():
                if isinstance(function, _CACHING) and _reads_rows(function):
                    yield checks.Warning(
                        f"{entry.source} calls {function.__qualname__}() in line {line}, which reads the database inside of "
                        "a cache of functools: each process keeps the first result.",
                        hint=_HINT,
                    )


def _is_cached(given: Any) -> bool:
    """Return whether one of the decorators of a function caches its results."""
    function = innermost(given)
    while function is not None:
        if isinstance(function, _CACHING):
            return True
        function = getattr(function, "__wrapped__", None)
    return False


def _reads_rows(function: Any) -> bool:
    text = read_text(function)
    return text is not None and any(
        isinstance(each, ast.Attribute) and text.find_model(each) is not None for each in text.nodes
    )


_CHANGING = frozenset(
    (
        "add", "append", "appendleft", "clear", "difference_update", "discard", "extend", "insert",
        "intersection_update", "pop", "popitem", "popleft", "remove", "setdefault", "symmetric_difference_update",
        "update",
    )
)  # fmt: skip
"""The methods that change a list, a dict, a set or a deque."""


@check(id="django_mcp.I022")
def check_kept() -> Iterator[CheckMessage]:
    """I022: a function keeps something in its module, which all users share, and each process has another."""
    for server in all_servers():
        for entry in server.registry.entries():
            text = read_text(entry.handler.origin)
            for name, line in () if text is None else _find_kept(text):
                yield Info(
                    f"{entry.source} changes {name}, a variable of its module, in line {line}. All users share it, each "
                    "process has its own, and it is lost when the process ends.",
                    hint="Keep the value in a model or in django.core.cache, with the user in the key, or in "
                    "ctx.session for one session. If it may differ between processes, silence this check.",
                )


def _find_kept(text: FunctionText) -> Iterator[tuple[str, int]]:
    """Yield the variables of its module that a function changes, with the first line of each."""
    declared = {name for each in text.nodes if isinstance(each, ast.Global) for name in each.names}
    found: dict[str, int] = {}
    for each in text.nodes:
        if not isinstance(each, ast.expr):
            continue
        name = None
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store | ast.Del):
            name = each.id if each.id in declared else None
        elif isinstance(each, ast.Subscript) and isinstance(each.ctx, ast.Store | ast.Del):
            name = _name_kept(text, each.value)
        elif (
            isinstance(each, ast.Call)
            and isinstance(each.func, ast.Attribute)
            and each.func.attr in _CHANGING
        ):
            name = _name_kept(text, each.func.value)
        if name is not None:
            found.setdefault(name, each.lineno)
    yield from found.items()


def _name_kept(text: FunctionText, expression: ast.expr) -> str | None:
    """Return the name of a list, a dict, a set or a deque that is no variable of the function."""
    while isinstance(expression, ast.Subscript):
        expression = expression.value
    known = text.infer(expression) if isinstance(expression, ast.Name) else None
    is_kept = isinstance(known, Known) and isinstance(known.value, list | dict | set | deque)
    return ast.unparse(expression) if is_kept else None
