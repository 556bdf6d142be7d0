"""Structured content as objects, for the revisions in which it can be nothing else.

A value that is no object, such as a list or a number, goes into one as its `result`, and its schema too.
Whether that is done depends on the schema alone if there is one, so that clients know from `tools/list`.
"""

from __future__ import annotations

from typing import Any

from django_mcp.protocol.json import JSONObject

KEY = "result"
_DEFINITIONS = ("$defs", "definitions")
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
    is_object = isinstance(value, dict) if schema is None else describes_objects(schema)
    found: JSONObject = value if is_object else {KEY: value}
    return found


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
            return all(_describes_objects(each, root, seen) for each in branches)
    return False


def _find(root: JSONObject, reference: str) -> Any:
    """Return a definition of the same schema, or None."""
    place, _, name = reference.removeprefix("#/").partition("/")
    definitions = root.get(place) if place in _DEFINITIONS else None
    return definitions.get(name) if isinstance(definitions, dict) else None


def _move(schema: Any) -> Any:
    """Return a schema whose references lead to where it is inside of the object."""
    if isinstance(schema, list):
        return [_move(each) for each in schema]
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
    if not reference.startswith("#") or reference.startswith(("#/$defs/", "#/definitions/")):
        return reference
    if reference not in ("#", "#/") and not reference.startswith("#/"):
        return reference  # an anchor
    return f"#/properties/{KEY}{reference.removeprefix('#').rstrip('/')}"
