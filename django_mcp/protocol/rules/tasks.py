"""The schemas of tasks, in both of their forms."""

from __future__ import annotations

from collections.abc import Mapping

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.meta import RELATED_TASK
from django_mcp.protocol.revisions import Revision
from django_mcp.protocol.rules.asks import input_requests
from django_mcp.protocol.rules.parts import INTEGER, OBJECT, TEXT, page, shape
from django_mcp.protocol.tasks import (
    CANCELLED,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    WORKING,
    TaskRules,
)

__all__ = ["created_task", "detailed_task", "task", "task_results"]


def task(rules: TaskRules) -> JSONObject:
    """Return the schema of a task without its outcome."""
    return shape(
        "taskId",
        "status",
        "createdAt",
        "lastUpdatedAt",
        rules.ttl_key,
        taskId=TEXT,
        status={"enum": [WORKING, INPUT_REQUIRED, COMPLETED, FAILED, CANCELLED]},
        statusMessage=TEXT,
        createdAt=TEXT,
        lastUpdatedAt=TEXT,
        **{rules.ttl_key: {"type": ["integer", "null"]}, rules.poll_key: INTEGER},
    )


def detailed_task(revision: Revision, rules: TaskRules) -> JSONObject:
    """Return the schema of a task with the fields of its status."""
    error = shape("code", "message", code=INTEGER, message=TEXT)
    brought = {
        INPUT_REQUIRED: ("inputRequests", input_requests(revision)),
        COMPLETED: ("result", OBJECT),
        FAILED: ("error", error),
    }
    return {
        **task(rules),
        "allOf": [
            {
                "if": {"properties": {"status": {"const": status}}},
                "then": shape(name, **{name: schema}),
            }
            for status, (name, schema) in brought.items()
        ],
    }


def created_task(rules: TaskRules) -> JSONObject:
    """Return the schema of the response to a call that became a task."""
    if rules.by_client:
        return shape("task", task=task(rules))
    found = task(rules)
    return {**found, "properties": {**found["properties"], "resultType": {"const": "task"}}}


def task_results(revision: Revision, call: JSONObject) -> Mapping[str, JSONObject]:
    """Return the schemas of the results of `tasks/*`; `call` is that of the call's own."""
    rules = revision.tasks
    if rules is None:
        return {}
    if not rules.by_client:
        return {"tasks/get": detailed_task(revision, rules)}
    one = task(rules)
    meta = shape("_meta", _meta=shape(RELATED_TASK, **{RELATED_TASK: shape("taskId", taskId=TEXT)}))
    return {
        "tasks/get": one,
        "tasks/cancel": one,
        "tasks/list": page("tasks", one),
        "tasks/result": {**call, "allOf": [meta]},
    }
