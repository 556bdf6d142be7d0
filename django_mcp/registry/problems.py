"""Errors of a registration, and problems with the arguments of a call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct


class RegistrationError(Exception):
    """A tool, resource, prompt or completer cannot be registered as written.

    The text names the function, with its file and line, and what to write instead.
    """


class Problem(Struct, frozen=True):
    """One problem with a value.

    Attributes:
        pointer: its place, as a JSON Pointer (RFC 6901); `""` is the whole value. A missing or an
            unknown member is given by the name it has or should have.
        message: what would be right; short, and at most quoting a part of the value.
    """

    pointer: str
    message: str


class ArgumentErrors(Exception):
    """The arguments of a call do not fit its handler."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(f"{each.pointer}: {each.message}" for each in problems))
        self.problems = list(problems)


def innermost(function: Callable[..., Any]) -> Any:
    """Return what partials are of; another function is returned as it is."""
    target: Any = function
    while isinstance(target, functools.partial):
        target = target.func
    return target


def describe_source(function: Callable[..., Any]) -> str:
    """Return where a function is defined: `shop.mcp.find_orders (/srv/shop/mcp.py:12)`."""
    target = innermost(function)
    if not hasattr(target, "__qualname__"):
        target = type(target)
    name = f"{getattr(target, '__module__', 'builtins')}.{target.__qualname__}"
    inner = inspect.unwrap(target)
    code = getattr(getattr(inner, "__func__", inner), "__code__", None)
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code is not None else name


def check_names(given: Iterable[str], known: Iterable[str], owner: str) -> None:
    """Check that an owner such as `MCPServer()` has the options with these names.

    Raises:
        TypeError: there is no such option; the text suggests the nearest one.
    """
    names = list(known)
    for name in given:
        if name not in names:
            raise TypeError(f"{owner} has no option {name!r}. {suggest(name, names)}")


def suggest(name: object, known: Iterable[str]) -> str:
    """Return a sentence with the nearest known name, or with all of them."""
    import difflib

    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(str(name).lower(), by_lower, n=1)
    if near:
        return f"Did you mean {by_lower[near[0]]!r}?"
    return f"Use one of {', '.join(by_lower.values())}."
