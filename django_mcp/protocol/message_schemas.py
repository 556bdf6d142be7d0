"""The JSON Schemas of messages, for strict validation.

The documents in `schemas/` are those of the specification. `_CORRECTIONS` and the schemas below add what
they leave out: the tasks extension, and rules that only the specification's text has. Members that no
schema defines are allowed and not checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from django_mcp.protocol import errors, meta
from django_mcp.protocol.json import JSONObject, decode, encode
from django_mcp.protocol.names import EXTENSION_ID_PATTERN
from django_mcp.protocol.revisions import Revision

_REFERENCE = re.compile(r"#/(?:\$defs|definitions)/(\w+)")
_OBJECT: JSONObject = {"type": "object"}
_NOTHING: JSONObject = {"not": {}}

# The schemas are generated from TypeScript, whose `number` became `integer` and whose `null` was lost.
# Of requests for input, a report is to be about the one that the method names.
_INPUT_REQUESTS = {
    "elicitation/create": "ElicitRequest",
    "sampling/createMessage": "CreateMessageRequest",
    "roots/list": "ListRootsRequest",
}
_CORRECTIONS: Mapping[str, JSONObject] = {
    "JSONObject": _OBJECT,
    "JSONValue": {},
    "InputRequest": {
        "type": "object",
        "properties": {"method": {"enum": list(_INPUT_REQUESTS)}},
        "required": ["method"],
        "not": {"anyOf": [{"required": ["id"]}, {"required": ["jsonrpc"]}]},
        "allOf": [
            {
                "if": {"properties": {"method": {"const": method}}},
                "then": {"$ref": f"#/$defs/{name}"},
            }
            for method, name in _INPUT_REQUESTS.items()
        ],
    },
}
_WRONG_NUMBER = b'["string","integer","boolean"]'
_NUMBER = b'["string","number","boolean"]'


class _Document(Struct, frozen=True):
    """The definitions of one revision, and the names of those of messages, by method."""

    dialect: str
    place: str
    definitions: Mapping[str, JSONObject]
    messages: Mapping[str, str]

    def ref(self, name: str) -> JSONObject:
        return {"$ref": f"#/{self.place}/{name}"}

    def combine(self, *schemas: JSONObject) -> JSONObject:
        """Return a schema of all these schemas, with the definitions that they need."""
        needed: dict[str, JSONObject] = {}
        waiting = list(schemas)
        while waiting:
            for name in _REFERENCE.findall(encode(waiting.pop()).decode()):
                if name not in needed:
                    needed[name] = self.definitions[name]
                    waiting.append(needed[name])
        return {"$schema": self.dialect, **_OBJECT, "allOf": list(schemas), self.place: needed}


@lru_cache(8)
def _load(revision: str) -> _Document:
    text = (Path(__file__).parent / "schemas" / f"{revision}.json").read_bytes()
    document = decode(text.replace(_WRONG_NUMBER, _NUMBER))
    place = "$defs" if "$defs" in document else "definitions"
    definitions: dict[str, Any] = {**document[place], **_CORRECTIONS}
    messages = {
        definition["properties"]["method"]["const"]: name
        for name, definition in definitions.items()
        if "const" in definition.get("properties", {}).get("method", {})
    }
    return _Document(document["$schema"], place, definitions, messages)


def find_params_schema(method: str, revision: Revision) -> JSONObject:
    """Return the schema of the params of a request or notification, in either direction."""
    document = _load(revision.name)
    found = _OBJECT
    if method in document.messages:
        message = document.definitions[document.messages[method]]
        found = message["properties"].get("params", _OBJECT)
    elif "RequestParams" in document.definitions and not method.startswith("notifications/"):
        found = document.ref("RequestParams")
    own = [_META, _PARAMS.get(method, _OBJECT)]
    if revision.tasks is not None and revision.tasks.extension is not None:
        own.append(_TASK_PARAMS.get(method, _OBJECT))
    return document.combine(found, *own)


def find_result_schema(
    method: str, revision: Revision, *, is_interim: bool = False, is_task: bool = False
) -> JSONObject:
    """Return the schema of the result of a request, in either direction.

    It is that of a result that asks for input (`is_interim`), or that of the preliminary result of a
    call that became a task (`is_task`).
    """
    document = _load(revision.name)
    if is_interim:
        if not revision.interim_fields or method not in _RETRIED_METHODS:
            return _NOTHING
        schemas, fields = [document.ref("InputRequiredResult"), _INTERIM], revision.interim_fields
    elif is_task:
        if revision.tasks is None:
            return _NOTHING
        is_official = "CreateTaskResult" in document.definitions
        schemas = [document.ref("CreateTaskResult") if is_official else _CREATED_TASK]
        fields = {}
    else:
        name = document.messages.get(method, "").removesuffix("Request") + "Result"
        schemas = [document.ref(name if name in document.definitions else "EmptyResult")]
        fields = dict(revision.result_fields)
        if method == "initialize":
            fields["protocolVersion"] = revision.name
        if revision.tasks is not None:
            by_method = _TASK_RESULTS if revision.tasks.extension else _CLIENT_TASK_RESULTS
            schemas.append(by_method.get(method, _OBJECT))
    constants = {name: {"const": value} for name, value in fields.items()}
    return document.combine(*schemas, {"properties": constants, "required": list(fields)})


def find_error_schema(revision: Revision) -> JSONObject:
    """Return the schema of the error object of a response.

    Source: 2026-07-28 basic "Error codes": reserved codes that are not defined are not sent, nor are
    the codes of earlier revisions.
    """
    if not revision.is_stateless:
        return _ERROR
    defined = [
        errors.HEADER_MISMATCH,
        errors.MISSING_CLIENT_CAPABILITY,
        errors.UNSUPPORTED_PROTOCOL_VERSION,
    ]
    free = {"not": {"minimum": -32099, "maximum": -32000}}
    return {
        "allOf": [_ERROR, {"properties": {"code": {"anyOf": [{"enum": defined}, free]}}}],
        "if": {"properties": {"code": {"const": errors.MISSING_CLIENT_CAPABILITY}}},
        "then": _object("data", data=_object("requiredCapabilities", requiredCapabilities=_OBJECT)),
    }


# -- what the documents leave out


def _object(*required: str, **properties: JSONObject) -> JSONObject:
    return {"type": "object", "properties": properties, "required": list(required)}


_TEXT: JSONObject = {"type": "string"}
_INTEGER: JSONObject = {"type": "integer"}
_ERROR = _object("code", "message", code=_INTEGER, message=_TEXT)
_CAPABILITIES = _object(
    extensions={
        "additionalProperties": _OBJECT,
        "propertyNames": {"pattern": EXTENSION_ID_PATTERN},
    }
)
_META = _object(
    _meta=_object(
        progressToken={"type": ["string", "integer"]},
        traceparent=_TEXT,
        tracestate=_TEXT,
        baggage=_TEXT,
        **{meta.CLIENT_CAPABILITIES: _CAPABILITIES},
    )
)
_PARAMS: Mapping[str, JSONObject] = {"initialize": _object(capabilities=_CAPABILITIES)}

_RETRIED_METHODS = ("tools/call", "resources/read", "prompts/get")
"""Requests of clients whose results may ask for input."""

_INTERIM: JSONObject = {
    "anyOf": [{"required": ["inputRequests"]}, {"required": ["requestState"]}],
}

# Tasks that clients request: the document does not say what the payload of a task is.
_RELATED_TASK = _object("_meta", _meta=_object(meta.RELATED_TASK))
_CLIENT_TASK_RESULTS: Mapping[str, JSONObject] = {
    "tasks/result": {"allOf": [{"$ref": "#/$defs/CallToolResult"}, _RELATED_TASK]}
}

# The tasks extension.
_TASK = _object(
    "taskId",
    "status",
    "createdAt",
    "lastUpdatedAt",
    "ttlMs",
    taskId=_TEXT,
    status={"enum": ["working", "input_required", "completed", "failed", "cancelled"]},
    statusMessage=_TEXT,
    createdAt=_TEXT,
    lastUpdatedAt=_TEXT,
    ttlMs={"type": ["integer", "null"]},
    pollIntervalMs=_INTEGER,
)
_CREATED_TASK: JSONObject = {"allOf": [_TASK, _object(resultType={"const": "task"})]}
_DETAILED_TASK: JSONObject = {
    "allOf": [
        _TASK,
        *(
            {
                "if": {"properties": {"status": {"const": status}}},
                "then": _object(name, **{name: schema}),
            }
            for status, name, schema in (
                ("input_required", "inputRequests", {"$ref": "#/$defs/InputRequests"}),
                ("completed", "result", _OBJECT),
                ("failed", "error", _ERROR),
            )
        ),
    ]
}
_TASK_ID = _object("taskId", taskId=_TEXT)
_TASK_PARAMS: Mapping[str, JSONObject] = {
    "tasks/get": _TASK_ID,
    "tasks/cancel": _TASK_ID,
    "tasks/update": _object(
        "taskId",
        "inputResponses",
        taskId=_TEXT,
        inputResponses={"$ref": "#/$defs/InputResponses"},
    ),
    "subscriptions/listen": _object(
        notifications=_object(taskIds={"type": "array", "items": _TEXT})
    ),
    "notifications/tasks": _DETAILED_TASK,
}
_TASK_RESULTS: Mapping[str, JSONObject] = {"tasks/get": _DETAILED_TASK}
