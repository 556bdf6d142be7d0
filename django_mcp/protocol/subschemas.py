"""Find the schemas inside a JSON Schema, and make one of objects from a schema of other values.

Only keywords decide what is a schema: a `$ref` among examples is data, as is a property called
`$ref`. In some revisions structured content is always an object: a value that is none, such as a list
or a number, then goes into one as its `result`, and its schema too. Whether that is done depends on the
schema alone if there is one, so that clients know from `tools/list`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from django_mcp.protocol.json import JSONObject

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
"""Keywords whose value is the URI of a further schema for the same value."""

# Keywords with schemas for the value itself, ...
_BESIDE = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
)
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
_DEFINITIONS = ("$defs", "definitions")
_MAPS = frozenset(
    {"patternProperties", "properties", "dependentSchemas", "dependencies", *_DEFINITIONS}
)

HOLDING = frozenset({*_BESIDE, *_INSIDE, *_DEFINITIONS})
"""All keywords whose values hold schemas. Most schemas have none of them."""

KEYWORDS = frozenset(
    {
        *(
            "$id",
            "$schema",
            "$anchor",
            "$dynamicAnchor",
            "$recursiveAnchor",
            "$comment",
            "$vocabulary",
        ),
        *("type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum"),
        *(
            "exclusiveMinimum",
            "maxLength",
            "minLength",
            "pattern",
            "format",
            "maxItems",
            "minItems",
        ),
        *(
            "uniqueItems",
            "maxContains",
            "minContains",
            "maxProperties",
            "minProperties",
            "required",
        ),
        *("dependentRequired", "contentEncoding", "contentMediaType", "title", "description"),
        *("default", "deprecated", "readOnly", "writeOnly", "examples", "example", "discriminator"),
        *(*REFERENCES, *HOLDING),
    }
)
"""All keywords, with two of OpenAPI that many schemas have: `example` and `discriminator`."""


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
    if not isinstance(schema, dict) or HOLDING.isdisjoint(schema):
        return
    for keyword, value in schema.items():
        if keyword not in HOLDING:
            continue
        is_beside, is_applied = keyword in _BESIDE, keyword not in _DEFINITIONS
        if keyword in _MAPS:
            for name, child in value.items() if isinstance(value, dict) else ():
                if keyword == "dependencies" and isinstance(child, list):
                    continue  # it names properties, in older dialects
                yield Child((keyword, name), child, is_beside, is_applied)
        elif isinstance(value, list):
            for index, child in enumerate(value):
                yield Child((keyword, index), child, is_beside)
        else:
            yield Child((keyword,), value, is_beside)


def with_children(schema: JSONObject, change: Callable[[Any], Any]) -> JSONObject:
    """Return a valid schema with each schema directly inside it replaced by what `change` returns."""
    changed = dict(schema)
    if HOLDING.isdisjoint(schema):
        return changed
    for keyword, value in schema.items():
        if keyword in _MAPS:
            changed[keyword] = {
                # A list names properties, in older dialects.
                name: each if isinstance(each, list) else change(each)
                for name, each in value.items()
            }
        elif keyword in _BESIDE or keyword in _INSIDE:
            changed[keyword] = (
                [change(each) for each in value] if isinstance(value, list) else change(value)
            )
    return changed


def walk(schema: Any) -> Iterator[tuple[tuple[str | int, ...], int, Any]]:
    """Yield a schema and those inside it in order: path, depth from 1 on, and the schema itself."""
    # A stack, so that a limit can report a deep schema before a RecursionError does.
    waiting: list[tuple[tuple[str | int, ...], int, Any]] = [((), 1, schema)]
    while waiting:
        path, depth, node = waiting.pop()
        yield path, depth, node
        if not isinstance(node, dict) or HOLDING.isdisjoint(node):
            continue
        inner = [((*path, *child.path), depth + 1, child.schema) for child in children(node)]
        waiting.extend(reversed(inner))


# -- structured content as objects


KEY = "result"
_VALUES = ("const", "default", "enum", "examples")
"""Keywords whose values are no schemas."""


def to_object_schema(schema: JSONObject) -> JSONObject:
    """Return a schema whose type is `object`: of the same values if they are objects, else wrapped."""
    if schema.get("type") == "object":
        return schema
    if describes_objects(schema):
        return {"type": "object", **schema}
    inner = {key: value for key, value in schema.items() if key not in (*_DEFINITIONS, "$schema")}
    outer = {key: value for key, value in schema.items() if key not in inner}
    return {
        **outer,
        "type": "object",
        "properties": {KEY: inner if "$id" in schema else _move(inner)},
        "required": [KEY],
    }


def to_object(value: Any, schema: JSONObject | None) -> JSONObject:
    """Return structured content as an object, as `to_object_schema` describes it.

    Args:
        value: the content.
        schema: of the content; None: the tool has published none.
    """
    # A value that is not validated may break its schema.
    is_object = isinstance(value, dict) and (schema is None or describes_objects(schema))
    return value if is_object else {KEY: value}


def describes_objects(schema: JSONObject) -> bool:
    """Return whether a schema says of each of its values that it is an object."""
    return _describes_objects(schema, schema, ())


def _describes_objects(schema: Any, root: JSONObject, seen: tuple[str, ...]) -> bool:
    if not isinstance(schema, dict):
        return False
    if schema.get("type") == "object":
        return True
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference not in seen:
        return _describes_objects(_find(root, reference), root, (*seen, reference))
    for keyword in ("anyOf", "oneOf"):
        branches = schema.get(keyword)
        if isinstance(branches, list) and branches:
            return all(_describes_objects(branch, root, seen) for branch in branches)
    return False


def _find(root: JSONObject, reference: str) -> Any:
    place, _, name = reference.removeprefix("#/").partition("/")
    definitions = root.get(place) if place in _DEFINITIONS else None
    return definitions.get(name) if isinstance(definitions, dict) else None


def _move(schema: Any) -> Any:
    """Return a schema whose references lead to where it is inside of the object."""
    if isinstance(schema, list):
        return [_move(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _move_reference(value)
        if key == "$ref" and isinstance(value, str)
        else value
        if key in _VALUES
        else _move(value)
        for key, value in schema.items()
    }


def _move_reference(reference: str) -> str:
    is_path = reference == "#" or reference.startswith("#/")  # else an anchor or another document
    if not is_path or reference.startswith(("#/$defs/", "#/definitions/")):
        return reference
    return f"#/properties/{KEY}{reference.removeprefix('#').rstrip('/')}"
