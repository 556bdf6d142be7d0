"""2025-11-25: icons, more details about a server, and tasks that clients request."""

from __future__ import annotations

from msgspec.structs import replace

from django_mcp.protocol.errors import URL_ELICITATION_REQUIRED
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.revisions.record import MethodRule, each, map_prompt_blocks, without
from django_mcp.protocol.revisions.v2025_06_18 import V2025_06_18
from django_mcp.protocol.tasks import TaskRules

_no_icons = without("icons")


def _lower_form(params: JSONObject) -> JSONObject:
    """Write a form as before modes: titles of choices beside them, few defaults."""
    params = without("mode", "elicitationId")(params)
    form = params.get("requestedSchema")
    if not isinstance(form, dict):
        return params
    fields = {name: _lower_field(field) for name, field in form.get("properties", {}).items()}
    return {**params, "requestedSchema": {**without("$schema")(form), "properties": fields}}


def _lower_field(field: JSONObject) -> JSONObject:
    choices = field.get("oneOf")
    if choices:
        field = {
            **without("oneOf")(field),
            "enum": [choice["const"] for choice in choices],
            "enumNames": [choice.get("title", choice["const"]) for choice in choices],
        }
    return field if field.get("type") == "boolean" else without("default")(field)


V2025_11_25 = replace(
    V2025_06_18,
    name="2025-11-25",
    asks=frozenset(
        {"sampling", "sampling.tools", "sampling.context", "roots", "form", "form.arrays", "url"}
    ),
    visit_code=URL_ELICITATION_REQUIRED,
    primes_streams=True,
    methods={
        **V2025_06_18.methods,
        "tasks/get": MethodRule(feature="tasks"),
        "tasks/result": MethodRule(feature="tasks"),
        "tasks/list": MethodRule(feature="tasks"),
        "tasks/cancel": MethodRule(feature="tasks"),
    },
    tasks=TaskRules(by_client=True, ttl_key="ttl", poll_key="pollInterval"),
    lowerings={
        "tools/list": each("tools", _no_icons),
        "tools/call": each("content", _no_icons),
        "resources/list": each("resources", _no_icons),
        "resources/templates/list": each("resourceTemplates", _no_icons),
        "prompts/list": each("prompts", _no_icons),
        "prompts/get": map_prompt_blocks(_no_icons),
        "implementation": without("description", "websiteUrl", "icons"),
        "capabilities": without("extensions", "tasks"),
        "elicitation/create": _lower_form,
    },
)
