"""The building blocks of the schemas of all messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.levels import LOG_LEVELS

TEXT: JSONObject = {"type": "string"}
OBJECT: JSONObject = {"type": "object"}
BOOL: JSONObject = {"type": "boolean"}
NUMBER: JSONObject = {"type": "number"}
INTEGER: JSONObject = {"type": "integer"}
ID: JSONObject = {"type": ["string", "integer"]}
LEVEL: JSONObject = {"enum": list(LOG_LEVELS)}
SHARE: JSONObject = {"type": "number", "minimum": 0, "maximum": 1}
ROLE: JSONObject = {"enum": ["user", "assistant"]}


def shape(*required: str, **properties: JSONObject) -> JSONObject:
    """Return the schema of an object; other properties are not checked."""
    return {"type": "object", "properties": properties, "required": list(required)}


def many(items: JSONObject) -> JSONObject:
    """Return the schema of an array."""
    return {"type": "array", "items": items}


def keyed(values: JSONObject) -> JSONObject:
    """Return the schema of an object with any keys."""
    return {"type": "object", "additionalProperties": values}


def page(key: str, item: JSONObject) -> JSONObject:
    """Return the schema of one page of a list."""
    return shape(key, **{key: many(item)}, nextCursor=TEXT)


ICONS = many(shape("src", src=TEXT, mimeType=TEXT, sizes=many(TEXT)))
ANNOTATIONS = shape(audience=many(ROLE), priority=SHARE, lastModified=TEXT)
IMPLEMENTATION = shape("name", "version", name=TEXT, version=TEXT, title=TEXT, icons=ICONS)
NAMED = {"name": TEXT, "title": TEXT, "description": TEXT, "icons": ICONS, "_meta": OBJECT}
CONTENTS: JSONObject = {
    **shape("uri", uri=TEXT, mimeType=TEXT, text=TEXT, blob=TEXT),
    "oneOf": [{"required": ["text"]}, {"required": ["blob"]}],
}
_MEDIA = shape("data", "mimeType", data=TEXT, mimeType=TEXT)
_BLOCKS: Mapping[str, JSONObject] = {
    "text": shape("text", text=TEXT),
    "image": _MEDIA,
    "audio": _MEDIA,
    "resource": shape("resource", resource=CONTENTS),
    "resource_link": shape("uri", "name", uri=TEXT, **NAMED),
    "tool_use": shape("id", "name", "input", id=TEXT, name=TEXT, input=OBJECT),
    "tool_result": shape("toolUseId", "content", toolUseId=TEXT, content=many(OBJECT)),
}


def block(types: Iterable[str]) -> JSONObject:
    """Return the schema of a content block of one of these types."""
    return {
        **shape("type", type={"enum": sorted(types)}, annotations=ANNOTATIONS),
        "allOf": [
            {"if": {"properties": {"type": {"const": name}}}, "then": each}
            for name, each in _BLOCKS.items()
        ],
    }
