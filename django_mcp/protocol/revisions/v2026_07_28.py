"""2026-07-28: no handshake and no session; each request is independent."""

from __future__ import annotations

from msgspec.structs import replace

from django_mcp.protocol.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.revisions.record import MethodRule, each, without
from django_mcp.protocol.revisions.v2025_11_25 import V2025_11_25
from django_mcp.protocol.structured import to_object, to_object_schema
from django_mcp.protocol.tasks import EXTENSION, TaskRules


def _lower_tool(tool: JSONObject) -> JSONObject:
    """Keep only schemas that the typed keys of 2025-11-25 and before can hold."""
    output_schema = tool.get("outputSchema")
    if output_schema is not None and output_schema.get("type") != "object":
        tool = {**tool, "outputSchema": to_object_schema(output_schema)}
    properties = tool["inputSchema"].get("properties")
    if properties and not all(isinstance(schema, dict) for schema in properties.values()):
        plain = {
            name: schema if isinstance(schema, dict) else ({} if schema else {"not": {}})
            for name, schema in properties.items()
        }
        tool = {**tool, "inputSchema": {**tool["inputSchema"], "properties": plain}}
    return tool


def _lower_result(result: JSONObject) -> JSONObject:
    if isinstance(result.get("structuredContent", result), dict):
        return result
    return {**result, "structuredContent": to_object(result["structuredContent"], None)}


def _lower_capabilities(capabilities: JSONObject) -> JSONObject:
    """Write tasks as before they became an extension."""
    extensions = capabilities.get("extensions", {})
    if EXTENSION not in extensions:
        return capabilities
    found = without("extensions")(capabilities)
    if len(extensions) > 1:
        found["extensions"] = without(EXTENSION)(extensions)
    found["tasks"] = {"cancel": {}, "requests": {"tools": {"call": {}}}}
    return found


V2026_07_28 = replace(
    V2025_11_25,
    name="2026-07-28",
    is_stateless=True,
    structures_objects_only=False,
    methods={
        "server/discover": MethodRule(is_cacheable=True),
        "tools/list": MethodRule(feature="tools", is_cacheable=True),
        "tools/call": MethodRule(feature="tools", mirrored_param="name"),
        "resources/list": MethodRule(feature="resources", is_cacheable=True),
        "resources/templates/list": MethodRule(feature="resources", is_cacheable=True),
        "resources/read": MethodRule(feature="resources", mirrored_param="uri", is_cacheable=True),
        "prompts/list": MethodRule(feature="prompts", is_cacheable=True),
        "prompts/get": MethodRule(feature="prompts", mirrored_param="name"),
        "completion/complete": MethodRule(feature="completions"),
        "subscriptions/listen": MethodRule(feature="listen"),
        "tasks/get": MethodRule(feature="tasks", mirrored_param="taskId"),
        "tasks/update": MethodRule(feature="tasks", mirrored_param="taskId"),
        "tasks/cancel": MethodRule(feature="tasks", mirrored_param="taskId"),
    },
    mirrors_headers=True,
    disconnect_cancels=True,
    logs_by_request=True,
    has_event_ids=False,
    primes_streams=False,
    missing_resource_code=INVALID_PARAMS,
    visit_code=None,
    statuses={
        METHOD_NOT_FOUND: 404,
        HEADER_MISMATCH: 400,
        MISSING_CLIENT_CAPABILITY: 400,
        UNSUPPORTED_PROTOCOL_VERSION: 400,
    },
    result_fields={"resultType": "complete"},
    interim_fields={"resultType": "input_required"},
    tasks=TaskRules(
        by_client=False, extension=EXTENSION, ttl_key="ttlMs", poll_key="pollIntervalMs"
    ),
    lowerings={
        "capabilities": _lower_capabilities,
        "tools/list": each("tools", _lower_tool),
        "tools/call": _lower_result,
    },
)
