"""The JSON Schemas of the messages of tasks, for strict mode."""

from __future__ import annotations

from collections.abc import Mapping

from django_mcp.extensions.tasks.core.shapes import (
    RELATED_TASK,
    RULES,
)
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.message_schemas import (
    ERROR_SCHEMA,
    AddedSchemas,
    add_schemas,
    object_schema,
)

_TEXT: JSONObject = {"type": "string"}
_INTEGER: JSONObject = {"type": "integer"}

# Tasks that clients request: the document does not say what the payload of a task is.
_RELATED_TASK = object_schema("_meta", _meta=object_schema(RELATED_TASK))
_CLIENT_TASK_RESULTS: Mapping[str, JSONObject] = {
    "tasks/result": {"allOf": [{"$ref": "#/$defs/CallToolResult"}, _RELATED_TASK]}
}

# The tasks extension.
_TASK = object_schema(
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
_CREATED_TASK: JSONObject = {"allOf": [_TASK, object_schema(resultType={"const": "task"})]}
_DETAILED_TASK: JSONObject = {
    "allOf": [
        _TASK,
        *(
            {
                "if": {"properties": {"status": {"const": status}}},
                "then": object_schema(name, **{name: schema}),
            }
            for status, name, schema in (
                ("input_required", "inputRequests", {"$ref": "#/$defs/InputRequests"}),
                ("completed", "result", {"type": "object"}),
                ("failed", "error", ERROR_SCHEMA),
            )
        ),
    ]
}
_TASK_ID = object_schema("taskId", taskId=_TEXT)
_TASK_PARAMS: Mapping[str, JSONObject] = {
    "tasks/get": _TASK_ID,
    "tasks/cancel": _TASK_ID,
    "tasks/update": object_schema(
        "taskId",
        "inputResponses",
        taskId=_TEXT,
        inputResponses={"$ref": "#/$defs/InputResponses"},
    ),
    "subscriptions/listen": object_schema(
        notifications=object_schema(taskIds={"type": "array", "items": _TEXT})
    ),
    "notifications/tasks": _DETAILED_TASK,
}
_TASK_RESULTS: Mapping[str, JSONObject] = {"tasks/get": _DETAILED_TASK}

for _revision, _rules in RULES.items():
    if _rules.by_client:
        _created: JSONObject = {"$ref": "#/$defs/CreateTaskResult"}
        add_schemas(_revision, AddedSchemas(results=_CLIENT_TASK_RESULTS, early_result=_created))
    else:
        add_schemas(
            _revision,
            AddedSchemas(params=_TASK_PARAMS, results=_TASK_RESULTS, early_result=_CREATED_TASK),
        )
