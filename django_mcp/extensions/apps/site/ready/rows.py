"""Where the rows of a result are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django_mcp.extensions.apps.site.ready.columns import find, resolve
from django_mcp.protocol.json import JSONObject

ROWS = ("results", "items", "rows", "groups", "result")
"""The members that usually have the rows of a result."""


def properties_of(schema: JSONObject | None) -> JSONObject:
    """Return the members that a schema describes."""
    properties = (schema or {}).get("properties")
    return properties if isinstance(properties, dict) else {}


def find_rows(
    schema: JSONObject, result: Any, member: str | None
) -> tuple[list[Any], JSONObject, str]:
    """Return the rows of a result, the schema of one, and the member that has them.

    Args:
        schema: the output schema.
        result: the structured result.
        member: the name of the member; None: it is looked for.
    """
    if isinstance(result, list):
        return result, resolve(schema, schema).get("items") or {}, ""
    name = _find_member(schema, result) if member is None else member
    if name is None:
        return [], {}, ""
    path = name.split(".")
    described = schema
    for part in path:
        described = resolve(properties_of(resolve(described, schema)).get(part), schema)
    rows = find(result, path)
    return (rows if isinstance(rows, list) else []), described.get("items") or {}, name


def _find_member(schema: JSONObject, result: Any) -> str | None:
    if not isinstance(result, Mapping):
        return None
    lists = [name for name, each in result.items() if isinstance(each, list)]
    for name in ROWS:
        if name in lists:
            return name
    objects = [name for name in lists if any(isinstance(each, Mapping) for each in result[name])]
    described = [
        name
        for name, each in properties_of(resolve(schema, schema)).items()
        if name in lists and resolve(each, schema).get("type") == "array"
    ]
    return next(iter(objects or described or lists), None)
