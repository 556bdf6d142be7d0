"""The schemas of requests to the client, and of its responses."""

from __future__ import annotations

from collections.abc import Mapping

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.revisions import Revision
from django_mcp.protocol.rules.parts import (
    INTEGER,
    NUMBER,
    OBJECT,
    ROLE,
    SHARE,
    TEXT,
    block,
    keyed,
    many,
    shape,
)

__all__ = [
    "ASKING_METHODS",
    "ASK_METHODS",
    "answers_of",
    "asks_of",
    "input_requests",
    "input_responses",
]

ASKING_METHODS = ("tools/call", "resources/read", "prompts/get")
"""Requests of clients whose handlers may send requests to the client."""

ASK_METHODS = ("elicitation/create", "sampling/createMessage", "roots/list", "ping")
"""Requests to the client."""


def asks_of(revision: Revision) -> Mapping[str, JSONObject]:
    """Return the schemas of the params of requests to the client, by method."""
    return {
        "elicitation/create": _elicitation(revision),
        "sampling/createMessage": shape(
            "messages",
            "maxTokens",
            messages=many(shape("role", "content", role=ROLE, content=_sampling_message(revision))),
            maxTokens=INTEGER,
            systemPrompt=TEXT,
            includeContext={"enum": ["none", "thisServer", "allServers"]},
            temperature=NUMBER,
            stopSequences=many(TEXT),
            metadata=OBJECT,
            modelPreferences=shape(
                hints=many(shape(name=TEXT)),
                costPriority=SHARE,
                speedPriority=SHARE,
                intelligencePriority=SHARE,
            ),
            tools=many(shape("name", "inputSchema", name=TEXT, inputSchema=OBJECT)),
            toolChoice=shape(mode={"enum": ["auto", "required", "none"]}),
        ),
    }


def answers_of(revision: Revision) -> Mapping[str, JSONObject]:
    """Return the schemas of the results of requests to the client, by method."""
    kinds = ["string", "number", "boolean"]
    value: JSONObject = {"type": kinds}
    if "form.arrays" in revision.asks:
        value = {"anyOf": [value, many(TEXT)]}
    return {
        "elicitation/create": shape(
            "action", action={"enum": ["accept", "decline", "cancel"]}, content=keyed(value)
        ),
        "sampling/createMessage": shape(
            "role",
            "content",
            "model",
            role=ROLE,
            content=_sampling_message(revision),
            model=TEXT,
            stopReason=TEXT,
        ),
        "roots/list": shape("roots", roots=many(shape("uri", uri=TEXT, name=TEXT))),
    }


def input_requests(revision: Revision) -> JSONObject:
    """Return the schema of the requests for input in a result, by key."""
    asks = {**dict.fromkeys(("elicitation/create", "sampling/createMessage", "roots/list"), OBJECT)}
    asks.update(asks_of(revision))
    with_params = [each for each in asks if each != "roots/list"]
    return keyed(
        {
            **shape("method", method={"enum": list(asks)}, params=OBJECT),
            "not": {"anyOf": [{"required": ["id"]}, {"required": ["jsonrpc"]}]},
            "allOf": [
                {
                    "if": {"properties": {"method": {"const": method}}},
                    "then": {
                        "properties": {"params": params},
                        "required": ["params"] if method in with_params else [],
                    },
                }
                for method, params in asks.items()
            ],
        }
    )


def input_responses(revision: Revision) -> JSONObject:
    """Return the schema of a client's answers by key, which do not name their requests."""
    return keyed({"anyOf": list(answers_of(revision).values())})


def _sampling_message(revision: Revision) -> JSONObject:
    """Return the schema of one message of a conversation with a model."""
    types = {"text", "image", "audio"} & revision.block_types
    if "sampling.tools" not in revision.asks:
        return block(types)
    one = block({*types, "tool_use", "tool_result"})
    return {"if": {"type": "array"}, "then": many(one), "else": one}


def _elicitation(revision: Revision) -> JSONObject:
    types = ["string", "number", "integer", "boolean"]
    field: JSONObject = shape("type", type={"enum": types}, title=TEXT, description=TEXT)
    if "form.arrays" in revision.asks:
        field["properties"]["type"] = {"enum": [*types, "array"]}
        field["if"] = {"properties": {"type": {"const": "array"}}}
        field["then"] = shape("items", items=OBJECT)
    requested = shape("type", "properties", type={"const": "object"}, properties=keyed(field))
    form = shape("message", "requestedSchema", message=TEXT, requestedSchema=requested)
    if "url" not in revision.asks:
        return {**form, "not": {"required": ["mode"]}}
    required = (
        ["message", "url"] if revision.interim_fields else ["message", "url", "elicitationId"]
    )
    page = shape(*required, message=TEXT, url=TEXT, elicitationId=TEXT)
    return {
        "type": "object",
        "properties": {"mode": {"enum": ["form", "url"]}},
        "if": {"properties": {"mode": {"const": "url"}}, "required": ["mode"]},
        "then": page,
        "else": form,
    }
