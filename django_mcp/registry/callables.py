"""The functions of a site as they are called: plain, asynchronous, or asynchronous generators."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from django_mcp.registry.problems import innermost


class Yielded(list[Any]):
    """The values that an asynchronous generator yielded: the parts of one result."""


def prepare_function(function: Callable[..., Any]) -> tuple[Callable[..., Any], bool]:
    """Return the function to call, and whether it is asynchronous.

    An asynchronous generator becomes a coroutine function that returns all it yields.
    """
    target = _called(function)
    if not inspect.isasyncgenfunction(target):
        return function, is_async_callable(function)

    async def collect(**arguments: Any) -> Yielded:
        return Yielded([item async for item in function(**arguments)])

    return functools.update_wrapper(collect, function, updated=()), True


def is_async_callable(function: Callable[..., Any]) -> bool:
    """Return whether calling a function, method, partial or object returns an awaitable."""
    target = _called(function)
    # asgiref marks functions this way before Python 3.12.
    return (
        inspect.iscoroutinefunction(function)
        or inspect.iscoroutinefunction(target)
        or getattr(function, "_is_coroutine", None) is not None
    )


def _called(function: Callable[..., Any]) -> Any:
    target = innermost(function)
    return target if inspect.isroutine(target) else type(target).__call__
