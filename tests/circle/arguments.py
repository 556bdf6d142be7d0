"""Arguments for a tool, from its schema alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_FORMATS = {
    "date": "2026-03-01",
    "date-time": "2026-03-01T12:00:00Z",
    "time": "12:30:00",
    "duration": "PT5M",
    "uuid": "00000000-0000-0000-0000-0000000000ff",
    "email": "new@example.com",
    "uri": "https://example.com/new",
    "decimal": "1",
}


_NAMED = {
    "addr": "10.0.0.9",
    "country": "DE",
    "currency": "EUR",
    "email": "new@example.com",
    "ip": "10.0.0.9",
    "language": "en",
    "phone": "+4930123459",
    "slug": "new-slug",
    "timezone": "UTC",
    "url": "https://example.com/new",
    "website": "https://example.com/new",
}
"""Texts of the arguments that have one of these words in their names: schemas do not tell all that a form asks for."""


def make_value(schema: Mapping[str, Any], hint: Any = None, name: str = "") -> Any:
    """Return a value that a schema allows, not null where it may be another.

    Args:
        schema: of the value.
        hint: of what the value should be, where the schema allows it: the key of an object.
        name: of the argument.
    """
    if "anyOf" in schema:
        return make_value(schema["anyOf"][0], hint, name)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        values = [each for each in schema["enum"] if each not in (None, "")]
        return values[0] if values else schema["enum"][0]
    kinds = schema.get("type", "object" if "properties" in schema else "string")
    kind = kinds if isinstance(kinds, str) else "number" if "number" in kinds else kinds[0]
    if kind == "array":
        item = make_value(schema.get("items", {}), hint, name)
        return [item] * max(1, schema.get("minItems", 1))
    if kind == "object":
        # A row of an inline says by its schema alone what it may need.
        is_row = not schema.get("required")
        row = make_arguments(schema, is_whole=is_row)
        return {name: value for name, value in row.items() if not name.startswith("_")}
    if hint is not None:
        return hint if kind != "string" else str(hint)
    if kind in ("integer", "number"):
        return schema.get("minimum", min(1, schema.get("maximum", 1)))
    if kind == "boolean":
        return True
    return "1" if takes_keys(schema) else _make_text(schema, name)


def takes_keys(schema: Mapping[str, Any]) -> bool:
    """Return whether a text, or a list of texts, says which objects are meant."""
    return _OF_OBJECTS.search(str(schema.get("description", ""))) is not None


_OF_OBJECTS = re.compile(r"\b(Keys? or|From) \w+|\bKeys?(\.|$)")


def _make_text(schema: Mapping[str, Any], name: str) -> str:
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    for word in name.lower().split("_"):
        if word in _NAMED and len(_NAMED[word]) <= schema.get("maxLength", 100):
            return _NAMED[word]
    text = "new-text"[: schema.get("maxLength", 8)]
    return text + "x" * (schema.get("minLength", 0) - len(text))


def make_arguments(
    schema: Mapping[str, Any], hints: Mapping[str, Any] | None = None, *, is_whole: bool = False
) -> dict[str, Any]:
    """Return arguments that a schema allows.

    Args:
        schema: of an object.
        hints: of values, by name.
        is_whole: whether to fill in all of them, not the required ones alone.
    """
    required = schema.get("required", ())
    return {
        name: make_value(each, (hints or {}).get(name), name)
        for name, each in schema.get("properties", {}).items()
        if name in required or is_whole
    }
