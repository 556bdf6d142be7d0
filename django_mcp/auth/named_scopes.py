"""Whether the site's own authentication names scopes, read from its code without running it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from django_mcp.auth.principal import AuthInfo
from django_mcp.registry.problems import innermost, is_of_framework


def names_scopes(given: Any, seen: set[Any] | None = None) -> bool:
    """Return whether a function or class of the site may name the scopes of credentials: by an `AuthInfo`.

    The functions and classes that it uses by their names count, too. What cannot be read may name some.
    """
    seen = set() if seen is None else seen
    target = inspect.unwrap(innermost(given))
    target = getattr(target, "__func__", target)
    if target is AuthInfo:
        return True
    if is_of_framework(target) or target in seen:
        return False
    seen.add(target)
    if isinstance(target, type):
        own = [cls for cls in target.__mro__ if not is_of_framework(cls)]
        values = [getattr(each, "__func__", each) for cls in own for each in vars(cls).values()]
        return any(names_scopes(each, seen) for each in values if isinstance(each, FunctionType))
    if not isinstance(target, FunctionType):
        return callable(target) and names_scopes(type(target), seen)
    names = set(_find_names(target.__code__))
    if "AuthInfo" in names:
        return True
    used = [target.__globals__[name] for name in names if name in target.__globals__]
    return any(names_scopes(each, seen) for each in used if isinstance(each, FunctionType | type))


def _find_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    yield from code.co_freevars
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _find_names(each)
