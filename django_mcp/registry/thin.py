"""The short form of an output schema: which members a result has, and of what type they are."""

from __future__ import annotations

from typing import Any

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.subschemas import with_children

_KEPT = frozenset(
    {
        *(
            "type",
            "properties",
            "patternProperties",
            "items",
            "prefixItems",
            "additionalProperties",
        ),
        *("anyOf", "oneOf", "allOf", "$ref", "$defs", "definitions"),
        *("$schema", "$id", "$anchor", "$dynamicAnchor", "$dynamicRef"),
        *("$recursiveAnchor", "$recursiveRef"),
    }
)


def make_thin(schema: JSONObject) -> JSONObject:
    """Return an output schema without texts, limits, values and what is required.

    It admits each value that the schema admits.
    """
    thin: JSONObject = _thin(schema)
    return thin


def _thin(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    thin = with_children(
        {keyword: value for keyword, value in schema.items() if keyword in _KEPT}, _thin
    )
    if thin.get("additionalProperties") in (True, False, {}):
        del thin["additionalProperties"]
    if "type" not in thin and ("enum" in schema or "const" in schema):
        types = {_TYPES.get(type(value)) for value in schema.get("enum", [schema.get("const")])}
        if len(types) == 1 and None not in types:
            thin["type"] = types.pop()
    for keyword in ("anyOf", "oneOf"):
        if keyword in thin:
            _merge_options(thin, keyword)
    return thin


_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def _merge_options(thin: JSONObject, keyword: str) -> None:
    """Say once what several of the options have become."""
    options: list[Any] = []
    for option in thin.pop(keyword):
        if option not in options:
            options.append(option)
    only = options[0] if len(options) == 1 else None
    # Options that are equal now could both hold, of which `oneOf` wants exactly one.
    merged = only if isinstance(only, dict) else {"anyOf": options}
    if thin.keys() & merged.keys():
        merged = {"allOf": [*thin.get("allOf", ()), merged]}
    thin.update(merged)
