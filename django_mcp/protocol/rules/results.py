"""The schemas of results and errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django_mcp.protocol import errors
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.meta import SUBSCRIPTION_ID
from django_mcp.protocol.revisions import Revision
from django_mcp.protocol.rules.asks import ASKING_METHODS, answers_of, input_requests
from django_mcp.protocol.rules.parts import (
    ANNOTATIONS,
    BOOL,
    CONTENTS,
    ID,
    IMPLEMENTATION,
    INTEGER,
    NAMED,
    OBJECT,
    ROLE,
    TEXT,
    block,
    many,
    page,
    shape,
)
from django_mcp.protocol.rules.tasks import created_task, task_results

__all__ = ["find_error_schema", "find_result_schema"]

_TYPED = shape("type", type={"const": "object"})


def find_result_schema(
    method: str, revision: Revision, *, is_interim: bool = False, is_task: bool = False
) -> JSONObject:
    """Return the schema of the result of a request, in either direction.

    Args:
        method: the request's.
        revision: the one in effect.
        is_interim: the result asks for input.
        is_task: the call became a task, and this is its preliminary result.
    """
    answer = answers_of(revision).get(method)
    if answer is not None:
        return answer
    if is_task:
        return {"not": {}} if revision.tasks is None else created_task(revision.tasks)
    fields = revision.interim_fields if is_interim else revision.result_fields
    known = _interim(revision) if is_interim else _results(revision).get(method, OBJECT)
    if is_interim and method not in ASKING_METHODS:
        return {"not": {}}
    properties = {
        "_meta": OBJECT,
        **known.get("properties", {}),
        **{name: {"const": value} for name, value in fields.items()},
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


def find_error_schema(revision: Revision) -> JSONObject:
    """Return the schema of the error object of a response.

    Source: 2026-07-28 basic "Error codes": reserved codes that are not defined are not sent, nor are
    the codes of earlier revisions.
    """
    error = shape("code", "message", code=INTEGER, message=TEXT)
    if not revision.is_stateless:
        return error
    defined = (
        errors.HEADER_MISMATCH,
        errors.MISSING_CLIENT_CAPABILITY,
        errors.UNSUPPORTED_PROTOCOL_VERSION,
    )
    free = {"not": {"minimum": -32099, "maximum": -32000}}
    return {
        **error,
        "properties": {**error["properties"], "code": {"anyOf": [{"enum": [*defined]}, free]}},
        "if": {"properties": {"code": {"const": errors.MISSING_CLIENT_CAPABILITY}}},
        "then": shape("data", data=shape("requiredCapabilities", requiredCapabilities=OBJECT)),
    }


def _interim(revision: Revision) -> JSONObject:
    return {
        **shape(inputRequests=input_requests(revision), requestState=TEXT),
        "anyOf": [{"required": ["inputRequests"]}, {"required": ["requestState"]}],
    }


def _results(revision: Revision) -> Mapping[str, JSONObject]:
    content = block(revision.block_types)
    listed: dict[str, Any] = {**NAMED, "annotations": ANNOTATIONS, "mimeType": TEXT}
    argument = shape("name", name=TEXT, title=TEXT, description=TEXT, required=BOOL)
    message = shape("role", "content", role=ROLE, content=content)
    tool = {**NAMED, "inputSchema": _TYPED, "annotations": OBJECT, "outputSchema": OBJECT}
    structured = OBJECT if revision.structures_objects_only else {}
    call = shape("content", content=many(content), structuredContent=structured, isError=BOOL)
    return {
        "initialize": shape(
            "protocolVersion",
            "capabilities",
            "serverInfo",
            protocolVersion={"const": revision.name},
            capabilities=OBJECT,
            serverInfo=IMPLEMENTATION,
            instructions=TEXT,
        ),
        "server/discover": shape(
            "supportedVersions",
            "capabilities",
            supportedVersions=many(TEXT),
            capabilities=OBJECT,
            instructions=TEXT,
        ),
        "tools/list": page("tools", shape("name", "inputSchema", **tool)),
        "tools/call": call,
        "resources/list": page("resources", shape("uri", "name", uri=TEXT, **listed)),
        "resources/templates/list": page(
            "resourceTemplates", shape("uriTemplate", "name", uriTemplate=TEXT, **listed)
        ),
        "resources/read": shape("contents", contents=many(CONTENTS)),
        "prompts/list": page("prompts", shape("name", **NAMED, arguments=many(argument))),
        "prompts/get": shape("messages", messages=many(message), description=TEXT),
        "completion/complete": shape(
            "completion",
            completion=shape(
                "values",
                values={**many(TEXT), "maxItems": 100},
                total=INTEGER,
                hasMore=BOOL,
            ),
        ),
        "subscriptions/listen": shape(
            "_meta", _meta=shape(SUBSCRIPTION_ID, **{SUBSCRIPTION_ID: ID})
        ),
        **task_results(revision, call),
    }
