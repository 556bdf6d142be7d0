"""The schemas of the params of requests and notifications, in both directions."""

from __future__ import annotations

from collections.abc import Mapping

from django_mcp.protocol import meta as keys
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.names import EXTENSION_ID_PATTERN
from django_mcp.protocol.revisions import Revision
from django_mcp.protocol.rules.asks import ASK_METHODS, ASKING_METHODS, asks_of, input_responses
from django_mcp.protocol.rules.parts import (
    BOOL,
    ID,
    IMPLEMENTATION,
    LEVEL,
    NUMBER,
    OBJECT,
    TEXT,
    keyed,
    many,
    shape,
)
from django_mcp.protocol.rules.tasks import detailed_task, task

__all__ = ["find_params_schema"]

_CAPABILITIES = shape(
    roots=shape(listChanged=BOOL),
    sampling=shape(tools=OBJECT, context=OBJECT),
    elicitation=shape(form=OBJECT, url=OBJECT),
    experimental=keyed(OBJECT),
    tasks=OBJECT,
    extensions={**keyed(OBJECT), "propertyNames": {"pattern": EXTENSION_ID_PATTERN}},
)
_TRACE = {"traceparent": TEXT, "tracestate": TEXT, "baggage": TEXT}
_CURSOR = shape(cursor=TEXT)
_URI = shape("uri", uri=TEXT)
_TASK = shape("taskId", taskId=TEXT)
_FILTER = shape(
    toolsListChanged=BOOL,
    promptsListChanged=BOOL,
    resourcesListChanged=BOOL,
    resourceSubscriptions=many(TEXT),
    taskIds=many(TEXT),
)
_PARAMS: Mapping[str, JSONObject] = {
    "initialize": shape(
        "protocolVersion",
        "capabilities",
        "clientInfo",
        protocolVersion=TEXT,
        capabilities=_CAPABILITIES,
        clientInfo=IMPLEMENTATION,
    ),
    "tools/list": _CURSOR,
    "tools/call": shape("name", name=TEXT, arguments=OBJECT),
    "resources/list": _CURSOR,
    "resources/templates/list": _CURSOR,
    "resources/read": _URI,
    "resources/subscribe": _URI,
    "resources/unsubscribe": _URI,
    "prompts/list": _CURSOR,
    "prompts/get": shape("name", name=TEXT, arguments=keyed(TEXT)),
    "completion/complete": shape(
        "ref",
        "argument",
        ref={
            "oneOf": [
                shape("type", "name", type={"const": "ref/prompt"}, name=TEXT),
                shape("type", "uri", type={"const": "ref/resource"}, uri=TEXT),
            ]
        },
        argument=shape("name", "value", name=TEXT, value=TEXT),
        context=shape(arguments=keyed(TEXT)),
    ),
    "logging/setLevel": shape("level", level=LEVEL),
    "subscriptions/listen": shape("notifications", notifications=_FILTER),
    "tasks/get": _TASK,
    "tasks/result": _TASK,
    "tasks/cancel": _TASK,
    "tasks/list": _CURSOR,
    "notifications/cancelled": shape("requestId", requestId=ID, reason=TEXT),
    "notifications/progress": shape(
        "progressToken", "progress", progressToken=ID, progress=NUMBER, total=NUMBER, message=TEXT
    ),
    "notifications/message": shape("level", "data", level=LEVEL, logger=TEXT),
    "notifications/resources/updated": _URI,
    "notifications/elicitation/complete": shape("elicitationId", elicitationId=TEXT),
    "notifications/subscriptions/acknowledged": shape("notifications", notifications=_FILTER),
}


def find_params_schema(method: str, revision: Revision) -> JSONObject:
    """Return the schema of the params of a request or notification, in either direction."""
    meta = shape(progressToken=ID, **_TRACE)
    is_request = not method.startswith("notifications/") and method not in ASK_METHODS
    if revision.is_stateless and is_request:
        required = (keys.PROTOCOL_VERSION, keys.CLIENT_CAPABILITIES)
        meta["required"] = list(required)
        meta["properties"] |= {
            keys.PROTOCOL_VERSION: TEXT,
            keys.CLIENT_CAPABILITIES: _CAPABILITIES,
            keys.CLIENT_INFO: IMPLEMENTATION,
            keys.LOG_LEVEL: LEVEL,
        }
    known = _known(method, revision)
    properties = {**known.get("properties", {}), "_meta": meta}
    if revision.interim_fields and method in ASKING_METHODS:
        properties |= {"inputResponses": input_responses(revision), "requestState": TEXT}
    return {**known, "properties": properties}


def _known(method: str, revision: Revision) -> JSONObject:
    rules = revision.tasks
    if rules is not None:
        if method == "tools/call" and rules.by_client:
            known = _PARAMS[method]
            return {**known, "properties": {**known["properties"], "task": shape(ttl=NUMBER)}}
        if method == "tasks/update":
            responses = input_responses(revision)
            return shape("taskId", "inputResponses", taskId=TEXT, inputResponses=responses)
        if method == "notifications/tasks/status":
            return task(rules)
        if method == "notifications/tasks":
            return detailed_task(revision, rules)
    return asks_of(revision).get(method) or _PARAMS.get(method, OBJECT)
