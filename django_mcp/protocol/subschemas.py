"""Walk over a JSON Schema to find the schemas inside it.

Only keywords decide what is a schema: a `$ref` among examples is data, as is a property called
`$ref`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
"""Keywords whose value is the URI of a further schema for the same value."""

# Keywords with schemas for the value itself, ...
_BESIDE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
# ... and for a part of it.
_INSIDE = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "items",
        "patternProperties",
        "prefixItems",
        "properties",
        "propertyNames",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_DEFINITIONS = frozenset({"$defs", "definitions"})
_MAPS = frozenset({"patternProperties", "properties", "dependentSchemas", *_DEFINITIONS})


class Child(Struct, frozen=True):
    """A schema directly inside another.

    Attributes:
        path: keyword, and index or name below it.
        schema: an object or a boolean, if the schema is valid.
        is_beside: whether it applies to the same value as the schema around it.
        is_applied: whether it applies by its position; definitions do not.
    """

    path: tuple[str | int, ...]
    schema: Any
    is_beside: bool
    is_applied: bool = True


def children(schema: Any) -> Iterator[Child]:
    """Yield the schemas directly inside a schema; accepts any JSON value."""
    if not isinstance(schema, dict):
        return
    for keyword, value in schema.items():
        if keyword == "dependencies" and isinstance(value, dict):
            for name, child in value.items():
                if not isinstance(child, list):  # a list names properties, in older dialects
                    yield Child((keyword, name), child, is_beside=True)
        elif keyword in _DEFINITIONS and isinstance(value, dict):
            for name, child in value.items():
                yield Child((keyword, name), child, is_beside=False, is_applied=False)
        elif keyword in _BESIDE or keyword in _INSIDE:
            yield from _under(keyword, value, is_beside=keyword in _BESIDE)


def _under(keyword: str, value: Any, *, is_beside: bool) -> Iterator[Child]:
    if keyword in _MAPS:
        for name, child in value.items() if isinstance(value, dict) else ():
            yield Child((keyword, name), child, is_beside=is_beside)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield Child((keyword, index), child, is_beside=is_beside)
    else:
        yield Child((keyword,), value, is_beside=is_beside)


def walk(schema: Any) -> Iterator[tuple[tuple[str | int, ...], int, Any]]:
    """Yield a schema and those inside it in order: path, depth from 1 on, and the schema itself."""
    # A stack, so that a limit can report a deep schema before a RecursionError does.
    waiting: list[tuple[tuple[str | int, ...], int, Any]] = [((), 1, schema)]
    while waiting:
        path, depth, node = waiting.pop()
        yield path, depth, node
        inner = [((*path, *child.path), depth + 1, child.schema) for child in children(node)]
        waiting.extend(reversed(inner))
