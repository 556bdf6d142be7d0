"""The functions of a site that run for an entry: its own, or the methods of the classes that it is generated from."""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import Any

from django_mcp.registry.entries import Entry
from django_mcp.registry.problems import innermost, is_of_framework


def find_functions(entry: Entry) -> Iterator[tuple[str, Any]]:
    """Yield the functions of the site that run for an entry, with what they are called."""
    origin = entry.handler.origin
    yield entry.source, origin
    find_code: Any = getattr(origin, "find_code", tuple)
    for each in find_code():
        target = innermost(each)
        classes = target.__mro__ if isinstance(target, type) else ()
        found = [given for cls in classes for given in vars(cls).values()]
        for function in found if classes else [target]:
            if isinstance(function, FunctionType) and not is_of_framework(function):
                name = f"{function.__module__}.{function.__qualname__}"
                yield f"{name}, in the code of the {entry.kind.word} {entry.key},", function
