"""System check of functions that keep their results in a cache of `functools`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage

from django_mcp.checks.declared import check
from django_mcp.checks.function_text import read_text
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
