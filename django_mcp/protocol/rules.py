"""The shapes of messages as JSON Schemas, for those who want every one of them checked.

What a revision knows nothing of may be there and is not looked at, as the specifications have it.
Source: the schemas of the revisions; written anew and short.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django_mcp.protocol import meta as keys
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.levels import LOG_LEVELS
from django_mcp.protocol.revisions import Revision

__all__ = ["find_params_schema", "find_result_schema"]

_TEXT: JSONObject = {"type": "string"}
_OBJECT: JSONObject = {"type": "object"}
_BOOL: JSONObject = {"type": "boolean"}
_NUMBER: JSONObject = {"type": "number"}
_ID: JSONObject = {"type": ["string", "integer"]}
_LEVEL: JSONObject = {"enum": list(LOG_LEVELS)}


def _object(*required: str, **properties: JSONObject) -> JSONObject:
    return {"type": "object", "properties": properties, "required": list(required)}


def _list(items: JSONObject) -> JSONObject:
    return {"type": "array", "items": items}


_ICONS = _list(_object("src", src=_TEXT, mimeType=_TEXT, sizes=_list(_TEXT)))
_ANNOTATIONS = _object(
    audience=_list({"enum": ["user", "assistant"]}),
    priority={"type": "number", "minimum": 0, "maximum": 1},
    lastModified=_TEXT,
)
_IMPLEMENTATION = _object("name", "version", name=_TEXT, version=_TEXT, title=_TEXT, icons=_ICONS)
_NAMED = {"name": _TEXT, "title": _TEXT, "description": _TEXT, "icons": _ICONS, "_meta": _OBJECT}
_TYPED = _object("type", type={"const": "object"})
_CONTENTS: JSONObject = {
    **_object("uri", uri=_TEXT, mimeType=_TEXT, text=_TEXT, blob=_TEXT),
    "oneOf": [{"required": ["text"]}, {"required": ["blob"]}],
}
_MEDIA = _object("data", "mimeType", data=_TEXT, mimeType=_TEXT)
_BLOCKS: Mapping[str, JSONObject] = {
    "text": _object("text", text=_TEXT),
    "image": _MEDIA,
    "audio": _MEDIA,
    "resource": _object("resource", resource=_CONTENTS),
    "resource_link": _object("uri", "name", uri=_TEXT, **_NAMED),
}

_CURSOR = _object(cursor=_TEXT)
_URI = _object("uri", uri=_TEXT)
_PARAMS: Mapping[str, JSONObject] = {
    "initialize": _object(
        "protocolVersion",
        "capabilities",
        "clientInfo",
        protocolVersion=_TEXT,
        capabilities=_OBJECT,
        clientInfo=_IMPLEMENTATION,
    ),
    "tools/list": _CURSOR,
    "tools/call": _object("name", name=_TEXT, arguments=_OBJECT),
    "resources/list": _CURSOR,
    "resources/templates/list": _CURSOR,
    "resources/read": _URI,
    "resources/subscribe": _URI,
    "resources/unsubscribe": _URI,
    "prompts/list": _CURSOR,
    "prompts/get": _object(
        "name", name=_TEXT, arguments={"type": "object", "additionalProperties": _TEXT}
    ),
    "completion/complete": _object(
        "ref",
        "argument",
        ref={
            "oneOf": [
                _object("type", "name", type={"const": "ref/prompt"}, name=_TEXT),
                _object("type", "uri", type={"const": "ref/resource"}, uri=_TEXT),
            ]
        },
        argument=_object("name", "value", name=_TEXT, value=_TEXT),
        context=_object(arguments={"type": "object", "additionalProperties": _TEXT}),
    ),
    "logging/setLevel": _object("level", level=_LEVEL),
    "subscriptions/listen": _object("notifications", notifications=_OBJECT),
    "notifications/cancelled": _object("requestId", requestId=_ID, reason=_TEXT),
    "notifications/progress": _object(
        "progressToken", "progress", progressToken=_ID, progress=_NUMBER, total=_NUMBER
    ),
    "notifications/message": _object("level", "data", level=_LEVEL, logger=_TEXT),
}
_ASKING = ("tools/call", "resources/read", "prompts/get")


def find_params_schema(method: str, revision: Revision) -> JSONObject:
    """Return the schema of the params of a request or notification, in either direction."""
    meta = _object(progressToken=_ID)
    is_request = not method.startswith("notifications/")
    if revision.is_stateless and is_request:
        required = (keys.PROTOCOL_VERSION, keys.CLIENT_CAPABILITIES)
        meta["required"] = list(required)
        meta["properties"] |= {
            keys.PROTOCOL_VERSION: _TEXT,
            keys.CLIENT_CAPABILITIES: _OBJECT,
            keys.CLIENT_INFO: _IMPLEMENTATION,
            keys.LOG_LEVEL: _LEVEL,
        }
    known = _PARAMS.get(method, _OBJECT)
    properties = {**known.get("properties", {}), "_meta": meta}
    if revision.interim_fields and method in _ASKING:
        properties |= {"inputResponses": _OBJECT, "requestState": _TEXT}
    return {**known, "properties": properties}


def find_result_schema(method: str, revision: Revision, *, is_interim: bool) -> JSONObject:
    """Return the schema of the result of a request.

    Args:
        method: the request's.
        revision: the one in effect.
        is_interim: the result asks for input.
    """
    fields = revision.interim_fields if is_interim else revision.result_fields
    known = _interim() if is_interim else _results(revision).get(method, _OBJECT)
    if is_interim and method not in _ASKING:
        return {"not": {}}
    properties = {
        **known.get("properties", {}),
        **{name: {"const": value} for name, value in fields.items()},
        "_meta": _OBJECT,
    }
    required = [*known.get("required", ()), *fields]
    rule = revision.methods.get(method)
    if rule is not None and rule.is_cacheable and not is_interim:
        properties |= {
            "ttlMs": {"type": "integer", "minimum": 0},
            "cacheScope": {"enum": ["public", "private"]},
        }
        required += ["ttlMs", "cacheScope"]
    return {**known, "properties": properties, "required": required}


def _interim() -> JSONObject:
    ask = _object("method", method=_TEXT, params=_OBJECT)
    return {
        **_object(
            inputRequests={"type": "object", "additionalProperties": ask}, requestState=_TEXT
        ),
        "anyOf": [{"required": ["inputRequests"]}, {"required": ["requestState"]}],
    }


def _results(revision: Revision) -> Mapping[str, JSONObject]:
    block: JSONObject = {
        **_object("type", type={"enum": sorted(revision.block_types)}, annotations=_ANNOTATIONS),
        "allOf": [
            {"if": {"properties": {"type": {"const": name}}}, "then": shape}
            for name, shape in _BLOCKS.items()
        ],
    }
    listed: dict[str, Any] = {**_NAMED, "annotations": _ANNOTATIONS, "mimeType": _TEXT}
    argument = _object("name", name=_TEXT, title=_TEXT, description=_TEXT, required=_BOOL)
    message = _object("role", "content", role={"enum": ["user", "assistant"]}, content=block)
    tool = {**_NAMED, "inputSchema": _TYPED, "annotations": _OBJECT, "outputSchema": _OBJECT}
    structured = _OBJECT if revision.structures_objects_only else {}
    return {
        "initialize": _object(
            "protocolVersion",
            "capabilities",
            "serverInfo",
            protocolVersion={"const": revision.name},
            capabilities=_OBJECT,
            serverInfo=_IMPLEMENTATION,
            instructions=_TEXT,
        ),
        "server/discover": _object(
            "supportedVersions",
            "capabilities",
            supportedVersions=_list(_TEXT),
            capabilities=_OBJECT,
            instructions=_TEXT,
        ),
        "tools/list": _page("tools", _object("name", "inputSchema", **tool)),
        "tools/call": _object(
            "content", content=_list(block), structuredContent=structured, isError=_BOOL
        ),
        "resources/list": _page("resources", _object("uri", "name", uri=_TEXT, **listed)),
        "resources/templates/list": _page(
            "resourceTemplates", _object("uriTemplate", "name", uriTemplate=_TEXT, **listed)
        ),
        "resources/read": _object("contents", contents=_list(_CONTENTS)),
        "prompts/list": _page("prompts", _object("name", **_NAMED, arguments=_list(argument))),
        "prompts/get": _object("messages", messages=_list(message), description=_TEXT),
        "completion/complete": _object(
            "completion",
            completion=_object(
                "values",
                values={**_list(_TEXT), "maxItems": 100},
                total={"type": "integer"},
                hasMore=_BOOL,
            ),
        ),
    }


def _page(key: str, item: JSONObject) -> JSONObject:
    return _object(key, **{key: _list(item)}, nextCursor=_TEXT)
