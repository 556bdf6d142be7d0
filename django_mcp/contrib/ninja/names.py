"""The names of operations, which are equal in all processes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django_mcp.contrib.generated import to_ascii
from django_mcp.contrib.ninja.found import FoundOperation


def name_operations(operations: Sequence[FoundOperation]) -> list[str]:
    """Return the names of all operations of an API.

    An operation is named by its `operation_id`, a function of a controller of django-ninja-extra by both, and any
    other by its function. Operations that would have the same name get the prefix of their router, the
    name that the API's schema has for them, or their path, whichever tells them apart first.
    """
    names = list(map(_own_name, operations))
    counts = Counter(names)
    by_name: dict[str, list[int]] = {}
    for position, name in enumerate(names):
        if counts[name] > 1:
            by_name.setdefault(name, []).append(position)
    for same in by_name.values():
        taken = set(names)
        for make in _LONGER:
            longer = [make(operations[position]) for position in same]
            if len(set(longer)) == len(longer) and not taken.intersection(longer):
                for position, name in zip(same, longer, strict=True):
                    names[position] = name
                break
    return names


def _own_name(found: FoundOperation) -> str:
    name = _clean([found.operation.operation_id or found.function.__name__])
    controller = found.controller
    if controller is not None:
        name = _without_random_ends(name, found)
    # The first method has the name of the operation, as most have no other.
    is_first = found.method == found.operation.methods[0].upper()
    return name if is_first else f"{name}_{found.method.lower()}"


def _without_random_ends(name: str, found: FoundOperation) -> str:
    """Return the name of a function of a controller without what django-ninja-extra adds in each process.

    It makes an `operation_id` of the controller, the function and a random number, unless the site gave one. The
    functions that it makes itself, of a model, end in another random number.
    """
    function = found.function.__name__
    owner = found.controller.__name__.lower().replace("controller", "")
    if re.fullmatch(rf"{re.escape(_clean([owner, function]))}(_[0-9a-f]{{8}})?", name):
        if found.written.__module__.startswith("ninja_extra."):
            function = re.sub(r"_[0-9a-f]{6}$", "", function)
        return _clean([owner, function])
    return name


def _with_prefix(found: FoundOperation) -> str:
    return _clean([*_words(found.prefix), _own_name(found)])


def _as_in_schema(found: FoundOperation) -> str:
    return _clean([found.function.__module__, _own_name(found)])


def _with_path(found: FoundOperation) -> str:
    return _clean([*_words(f"{found.prefix}/{found.operation.path}"), found.method.lower()])


_LONGER: list[Callable[[FoundOperation], str]] = [_with_prefix, _as_in_schema, _with_path]


def _words(path: str) -> list[str]:
    """Return the constant parts of a path, and the names of its variables where it has no others."""
    parts = [part for part in path.split("/") if part]
    return [part for part in parts if "{" not in part] or [
        part.strip("{}").rpartition(":")[2] for part in parts
    ]


def _clean(parts: Iterable[Any]) -> str:
    """Return a name of a tool."""
    plain = to_ascii("_".join(map(str, parts)))
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", plain).strip("_")[:128] or "operation"
