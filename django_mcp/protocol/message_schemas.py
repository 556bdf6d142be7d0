"""The JSON Schemas of messages, for strict validation.

The documents in `schemas/` are those of the specification. `_CORRECTIONS` and the schemas below add what
they leave out: rules that only the specification's text has. Extensions add the schemas of their messages
with `add_schemas`. Members that no schema defines are allowed and not checked.
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


class AddedSchemas(Struct, frozen=True, kw_only=True):
    """Schemas of the messages of an extension, which may refer to definitions of the revision's document.

    Attributes:
        params: of requests and notifications, by method.
        results: by method.
        early_result: of a call of a tool whose response is not the tool's; None: there is none.
    """

    params: Mapping[str, JSONObject] = {}
    results: Mapping[str, JSONObject] = {}
    early_result: JSONObject | None = None


_added: dict[str, tuple[AddedSchemas, ...]] = {}


def add_schemas(revision: str, schemas: AddedSchemas) -> None:
    """Check messages of a revision by these schemas as well. To be called on import."""
    _added[revision] = (*_added.get(revision, ()), schemas)


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
    params = _OBJECT
    if method in document.messages:
        message = document.definitions[document.messages[method]]
        params = message["properties"].get("params", _OBJECT)
    elif "RequestParams" in document.definitions and not method.startswith("notifications/"):
        params = document.ref("RequestParams")
    own = [
        schemas.params[method]
        for schemas in _added.get(revision.name, ())
        if method in schemas.params
    ]
    return document.combine(params, _META, _PARAMS.get(method, _OBJECT), *own)


def find_result_schema(
    method: str, revision: Revision, *, is_interim: bool = False, is_early: bool = False
) -> JSONObject:
    """Return the schema of the result of a request, in either direction.

    It is that of a result that asks for input (`is_interim`), or that of the preliminary result of a
    call that continues (`is_early`).
    """
    document, added = _load(revision.name), _added.get(revision.name, ())
    if is_interim:
        if not revision.interim_fields or method not in _RETRIED_METHODS:
            return _NOTHING
        schemas, fields = [document.ref("InputRequiredResult"), _INTERIM], revision.interim_fields
    elif is_early:
        early = [
            extension_schemas.early_result
            for extension_schemas in added
            if extension_schemas.early_result is not None
        ]
        if not early:
            return _NOTHING
        schemas, fields = [{"anyOf": early}], {}
    else:
        name = document.messages.get(method, "").removesuffix("Request") + "Result"
        schemas = [document.ref(name if name in document.definitions else "EmptyResult")]
        fields = dict(revision.result_fields)
        if method == "initialize":
            fields["protocolVersion"] = revision.name
        schemas += [
            extension_schemas.results[method]
            for extension_schemas in added
            if method in extension_schemas.results
        ]
    constants = {name: {"const": value} for name, value in fields.items()}
    return document.combine(*schemas, {"properties": constants, "required": list(fields)})


def find_error_schema(revision: Revision) -> JSONObject:
    """Return the schema of the error object of a response.

    Source: 2026-07-28 basic "Error codes": reserved codes that are not defined are not sent, nor are
    the codes of earlier revisions.
    """
    if not revision.is_stateless:
        return ERROR_SCHEMA
    defined = [
        errors.HEADER_MISMATCH,
        errors.MISSING_CLIENT_CAPABILITY,
        errors.UNSUPPORTED_PROTOCOL_VERSION,
    ]
    free = {"not": {"minimum": -32099, "maximum": -32000}}
    return {
        "allOf": [ERROR_SCHEMA, {"properties": {"code": {"anyOf": [{"enum": defined}, free]}}}],
        "if": {"properties": {"code": {"const": errors.MISSING_CLIENT_CAPABILITY}}},
        "then": object_schema(
            "data", data=object_schema("requiredCapabilities", requiredCapabilities=_OBJECT)
        ),
    }


# -- what the documents leave out


def object_schema(*required: str, **properties: JSONObject) -> JSONObject:
    """Return the schema of an object with these properties."""
    return {"type": "object", "properties": properties, "required": list(required)}


_TEXT: JSONObject = {"type": "string"}
_INTEGER: JSONObject = {"type": "integer"}
ERROR_SCHEMA = object_schema("code", "message", code=_INTEGER, message=_TEXT)
_CAPABILITIES = object_schema(
    extensions={
        "additionalProperties": _OBJECT,
        "propertyNames": {"pattern": EXTENSION_ID_PATTERN},
    }
)
_META = object_schema(
    _meta=object_schema(
        progressToken={"type": ["string", "integer"]},
        traceparent=_TEXT,
        tracestate=_TEXT,
        baggage=_TEXT,
        **{meta.CLIENT_CAPABILITIES: _CAPABILITIES},
    )
)
_PARAMS: Mapping[str, JSONObject] = {"initialize": object_schema(capabilities=_CAPABILITIES)}

_RETRIED_METHODS = ("tools/call", "resources/read", "prompts/get")
"""Requests of clients whose results may ask for input."""

_INTERIM: JSONObject = {
    "anyOf": [{"required": ["inputRequests"]}, {"required": ["requestState"]}],
}
