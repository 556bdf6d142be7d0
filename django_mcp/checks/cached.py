"""System checks of what functions keep: results in a cache of `functools`, values in their modules, and values in Django's cache."""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from django.core import checks
from django.core.cache.backends.base import BaseCache
from django.core.checks import CheckMessage, Info, Tags
from django.utils.connection import ConnectionProxy

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


@check(Tags.security, id="django_mcp.I024")
def check_shared_keys() -> Iterator[CheckMessage]:
    """I024: a function keeps in the cache what depends on the user, under a key that is the same for all."""
    for server in all_servers():
        for entry in server.registry.entries():
            text = read_text(entry.handler.origin)
            for call in () if text is None else _find_shared(text):
                yield Info(
                    f"{entry.source} keeps in the cache with {ast.unparse(call.func):.80}() in line {call.lineno} what it "
                    "makes for one user, under a key that is the same for all.",
                    hint='Put the user into the key, such as f"orders-{ctx.user.pk}". If the value is the same for all, '
                    "silence this check.",
                )


_KEEPING = frozenset(("aget_or_set", "aset", "get_or_set", "set"))


def _find_shared(text: FunctionText) -> Iterator[ast.Call]:
    """Yield the calls that set a value of a cache, which names the user, with a key that does not."""
    for call in text.nodes:
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr in _KEEPING
            and len(call.args) >= 2
            and _is_cache(text.infer(call.func.value))
        ):
            key, value = (_find_names(text, each) for each in call.args[:2])
            if any(map(_OF_USER.search, value)) and not any(map(_OF_CALLER.search, key)):
                yield call


def _is_cache(known: Any) -> bool:
    return isinstance(known, Known) and isinstance(known.value, BaseCache | ConnectionProxy)


_OF_USER = re.compile("user|owner")
_OF_CALLER = re.compile(
    "user|owner|account|context|ctx|customer|email|member|person|principal|profile|request|self|session|tenant|token"
)
"""Names in what is made for one user, and names by which a key may be told from that of another user."""


def _find_names(text: FunctionText, expression: ast.expr) -> set[str]:
    """Return the names and attributes that an expression is made of, also through variables of the function."""
    found: set[str] = set()
    waiting: list[ast.AST] = [expression]
    while waiting:
        for node in ast.walk(waiting.pop()):
            if isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.Name) and node.id not in found:
                found.add(node.id)
                waiting.extend(_find_sources(text, node.id))
    return found


def _find_sources(text: FunctionText, name: str) -> Iterator[ast.AST]:
    """Yield what a variable of a function is made from, as far as the text tells."""
    for node in text.nodes:
        match node:
            case ast.Assign(targets=targets, value=value):
                pass
            case (
                ast.AnnAssign(target=target, value=value)
                | ast.AugAssign(target=target, value=value)
            ):
                targets = [target]
            case ast.NamedExpr(target=target, value=value):
                targets = [target]
            case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
                targets = [target]
            case ast.FunctionDef(name=given) | ast.AsyncFunctionDef(name=given) if given == name:
                yield node
                continue
            case _:
                continue
        names = (each.id for one in targets for each in ast.walk(one) if isinstance(each, ast.Name))
        if value is not None and name in names:
            yield value


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
