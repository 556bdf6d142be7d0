"""Numbers that JSON does not have, in the data of tools: NaN and the infinities.

They are written as null, which the schema of the data may not admit.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any, TypeAlias

from django_mcp.protocol.json import JSONObject, to_pointer

Path: TypeAlias = tuple[str | int, ...]

_NUMERIC = frozenset({"number", "integer"})


_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keywords whose values are schemas by names, which may be those of keywords: a property may be called `type`."""

_VALUES = ("enum", "const", "default", "examples")
"""Keywords whose values are data."""


def has_numbers(schema: Any) -> bool:
    """Return whether a schema demands a number somewhere: only there does null stand for one."""
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            kinds = each.get("type")
            if not _NUMERIC.isdisjoint(kinds if isinstance(kinds, list) else (kinds,)):
                return True
            for keyword, value in each.items():
                if keyword in _BY_NAME and isinstance(value, dict):
                    waiting.extend(value.values())
                elif keyword not in _VALUES:
                    waiting.append(value)
        elif isinstance(each, list):
            waiting.extend(each)
    return False


def find_refused(data: Any, schema: JSONObject) -> tuple[str, float] | None:
    """Return the first number that JSON does not have where a schema admits no null, with its pointer."""
    admitted: dict[Path, bool] = {}
    for path, value in _find_infinite(data):
        # The items of a list have one schema, except for the first ones.
        place = tuple(min(step, 99) if isinstance(step, int) else step for step in path)
        if place not in admitted:
            admitted[place] = _admits_null(schema, path)
        if not admitted[place]:
            return to_pointer(path), value
    return None


def _find_infinite(data: Any) -> Iterator[tuple[Path, float]]:
    waiting: list[tuple[Path, Any]] = [((), data)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(((*path, key), each) for key, each in value.items())
        elif isinstance(value, list | tuple):
            waiting.extend(((*path, index), each) for index, each in enumerate(value))
        elif isinstance(value, float) and not isfinite(value):
            yield path, value


def _admits_null(root: JSONObject, path: Path) -> bool:
    """Return whether a schema admits null at a path. What it says in other keywords than these is not read."""
    schemas = _alternatives(root, root)
    for step in path:
        # By their identities: recursive forms lead to the same schemas in each level.
        inner = {
            id(alternative): alternative
            for schema in schemas
            for member in _find_inner(schema, step)
            for alternative in _alternatives(member, root)
        }
        schemas = list(inner.values())
    return any(map(_is_null_of, schemas))


def _is_null_of(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return schema is not False
    if "const" in schema:
        return schema["const"] is None
    if "enum" in schema:
        return None in schema["enum"]
    kinds = schema.get("type")
    return kinds is None or kinds == "null" or (isinstance(kinds, list) and "null" in kinds)


def _alternatives(schema: Any, root: JSONObject) -> list[Any]:
    """Return the schemas, one of which a value has to fit."""
    found, waiting, seen = list[Any](), [schema], set[int]()
    while waiting:
        each = waiting.pop()
        if not isinstance(each, dict):
            found.append(each)
        elif id(each) not in seen:
            seen.add(id(each))
            inner = [*each.get("anyOf", ()), *each.get("oneOf", ()), *each.get("allOf", ())]
            if "$ref" in each:
                inner.append(_resolve(each["$ref"], root))
            waiting.extend(inner)
            if not inner:
                found.append(each)
    return found


def _resolve(reference: str, root: JSONObject) -> Any:
    node: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        node = node.get(step.replace("~1", "/").replace("~0", "~")) if type(node) is dict else None
    return True if node is None else node


def _find_inner(schema: Any, step: str | int) -> Iterator[Any]:
    """Yield the schema of a member or an item."""
    if not isinstance(schema, dict):
        yield schema
    elif _is_of(schema, "array" if isinstance(step, int) else "object"):
        if isinstance(step, str):
            members = schema.get("properties", {})
            others = (
                True if "patternProperties" in schema else schema.get("additionalProperties", True)
            )
            yield members.get(step, others)
        else:
            first = schema.get("prefixItems", ())
            yield first[step] if step < len(first) else schema.get("items", True)


def _is_of(schema: JSONObject, kind: str) -> bool:
    kinds = schema.get("type", kind)
    return kind in kinds if isinstance(kinds, list) else bool(kinds == kind)
