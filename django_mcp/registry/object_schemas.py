"""The JSON Schema of an object, and of a value that may be null."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django_mcp.protocol.json import JSONObject


def object_schema(
    properties: Mapping[str, Any], *, required: Sequence[str] = (), description: Any = None
) -> JSONObject:
    """Return the JSON Schema of an object that has no other members."""
    schema: JSONObject = {
        "type": "object",
        "properties": dict(properties),
        "additionalProperties": False,
    }
    if required:
        schema["required"] = list(required)
    if description is not None:
        schema["description"] = description
    return schema


def or_null(schema: JSONObject) -> JSONObject:
    """Return a JSON Schema that also takes null."""
    nullable = dict(schema)
    if "anyOf" in schema:
        nullable["anyOf"] = [*schema["anyOf"], {"type": "null"}]
    if "enum" in schema:
        nullable["enum"] = [*schema["enum"], None]
    if "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        nullable["type"] = [*kinds, "null"]
    return nullable
