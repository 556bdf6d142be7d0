"""The JSON Schemas of the messages of skills, for strict mode."""

from __future__ import annotations

from collections.abc import Mapping

from django_mcp.extensions.skills.core.skill import DYNAMIC, MAX_FILES
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.message_schemas import AddedSchemas, add_schemas, object_schema
from django_mcp.protocol.revisions import REVISIONS

_TEXT: JSONObject = {"type": "string"}
_COMPLETE: JSONObject = {"const": "complete"}
_FILE = object_schema(
    "uri",
    "digest",
    "size",
    uri=_TEXT,
    digest={"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
    size={"type": "integer", "minimum": 0},
)
_SKILL = object_schema(
    "uri",
    "frontmatter",
    "resources",
    uri={"type": "string", "pattern": "/SKILL\\.md$"},
    frontmatter=object_schema("name", "description", name=_TEXT, description=_TEXT),
    resources={
        "anyOf": [
            {"const": DYNAMIC},
            {"type": "array", "items": _FILE, "minItems": 1, "maxItems": MAX_FILES},
        ]
    },
)
_CACHED: JSONObject = object_schema(
    "ttlMs",
    "cacheScope",
    ttlMs={"type": "integer", "minimum": 0},
    cacheScope={"enum": ["public", "private"]},
)
_LIST: JSONObject = object_schema(
    "skills",
    "resultType",
    skills={"type": "array", "items": _SKILL},
    nextCursor=_TEXT,
    resultType=_COMPLETE,
)
_GET: JSONObject = object_schema("skill", "resultType", skill=_SKILL, resultType=_COMPLETE)
_FOLDER: JSONObject = object_schema(
    "resources",
    "resultType",
    resources={"type": "array", "items": {"$ref": "#/$defs/Resource"}},
    nextCursor=_TEXT,
    resultType=_COMPLETE,
)
_PARAMS: Mapping[str, JSONObject] = {
    "skills/list": object_schema(cursor=_TEXT),
    "skills/get": object_schema("uri", uri=_TEXT),
    "resources/directory/read": object_schema("uri", uri=_TEXT, cursor=_TEXT),
}
_RESULTS: Mapping[str, JSONObject] = {
    "skills/list": {"allOf": [_LIST, _CACHED]},
    "skills/get": {"allOf": [_GET, _CACHED]},
    "resources/directory/read": _FOLDER,
}

for _revision in REVISIONS:
    if _revision.is_stateless:
        add_schemas(_revision.name, AddedSchemas(params=_PARAMS, results=_RESULTS))
